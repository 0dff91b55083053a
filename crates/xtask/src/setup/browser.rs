//! Chromium or Chrome, and the driver of the same major version.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::debian;
use crate::context::Context;
use crate::process::{Command, find};
use crate::version::Version;

/// Where browsers are looked for, in this order; absolute paths are those of macOS.
const BROWSERS: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// Programs that Firefox goes by.
const FIREFOX: [&str; 2] = ["firefox-esr", "firefox"];

/// The flags with which every test runs its browser, in WebDriver's form; the end-to-end tests read the same file.
const FLAGS: &str = "tests/webdriver.json";

/// A browser with its driver.
#[derive(Debug)]
pub(crate) struct Browser {
    pub(crate) program: PathBuf,
    pub(crate) driver: PathBuf,
    version: Version,
}

impl fmt::Display for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{name} {}", self.version.major)
    }
}

impl Browser {
    /// Writes the capabilities file that wasm-bindgen's test runner reads: the shared flags and this very browser.
    pub(crate) fn capabilities(&self, context: &Context) -> Result<PathBuf> {
        let source = context.root.join(FLAGS);
        let text = std::fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
        let merged =
            with_binary(&text, &self.program).with_context(|| format!("{} is not usable", source.display()))?;
        let path = context.scratch()?.join("webdriver.json");
        std::fs::write(&path, merged).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn with_binary(capabilities: &str, program: &Path) -> Result<String> {
    let mut value: serde_json::Value = serde_json::from_str(capabilities)?;
    let options = value.get_mut("goog:chromeOptions").and_then(|value| value.as_object_mut());
    options.context("no goog:chromeOptions")?.insert("binary".to_owned(), program.to_string_lossy().into());
    Ok(value.to_string())
}

/// Finds browser and driver; on Debian, installs them.
pub(super) fn prepare() -> Result<Browser> {
    let missing = match find_pair() {
        Ok(browser) => return Ok(browser),
        Err(missing) => missing,
    };
    if !debian::can_install() {
        return Err(missing);
    }
    debian::packages(&["chromium", "chromium-driver"])?;
    find_pair()
}

/// Firefox, in which some end-to-end tests run as well. Where it is missing and can not be installed they say so and are skipped.
pub(super) fn prepare_firefox() -> Result<()> {
    if has_firefox() || !debian::can_install() { Ok(()) } else { debian::packages(&["firefox-esr"]) }
}

/// There is one, as far as names tell.
pub(crate) fn has_firefox() -> bool {
    std::env::var_os("SERVELAB_FIREFOX").is_some() || FIREFOX.iter().any(|name| find(name).is_some())
}

fn find_pair() -> Result<Browser> {
    let program = std::env::var_os("SERVELAB_BROWSER")
        .map(PathBuf::from)
        .or_else(|| BROWSERS.iter().find_map(|name| locate(name)));
    let program = program.context(
        "no browser: the tests need Chromium or Chrome; install one (Debian: `apt-get install chromium chromium-driver`) \
         or name its program in SERVELAB_BROWSER",
    )?;
    let driver =
        std::env::var_os("CHROMEDRIVER").map(PathBuf::from).or_else(|| find("chromedriver")).with_context(|| {
            format!(
                "no chromedriver: the tests need the one of the same major version as {} (Debian: `apt-get install \
             chromium-driver`); put it on PATH or name it in CHROMEDRIVER",
                program.display()
            )
        })?;
    let (version, drives) = (version_of(&program)?, version_of(&driver)?);
    if version.major != drives.major {
        bail!(
            "{} is version {version}, {} drives {drives}; install matching ones",
            program.display(),
            driver.display()
        );
    }
    Ok(Browser { program, driver, version })
}

fn locate(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') { Some(PathBuf::from(name)).filter(|path| path.is_file()) } else { find(name) }
}

fn version_of(program: &Path) -> Result<Version> {
    let said = Command::new(program).arg("--version").read()?;
    Version::find(&said).with_context(|| format!("{} says no version: {said}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_flags_take_the_browser_found() {
        let root = Context::from_environment().expect("runs inside the repository").root;
        let text = std::fs::read_to_string(root.join(FLAGS)).expect("the flags are in the repository");
        let merged = with_binary(&text, Path::new("/opt/browser")).expect("usable");
        let value: serde_json::Value = serde_json::from_str(&merged).expect("JSON");
        let options = &value["goog:chromeOptions"];
        assert_eq!(options["binary"], "/opt/browser");
        let flags: Vec<&str> =
            options["args"].as_array().expect("a list").iter().filter_map(|flag| flag.as_str()).collect();
        assert!(flags.contains(&"--headless") && flags.contains(&"--use-webgpu-adapter=swiftshader"), "{flags:?}");
    }

    #[test]
    fn unusable_capabilities_are_refused() {
        assert!(with_binary("{}", Path::new("/b")).is_err());
        assert!(with_binary("not json", Path::new("/b")).is_err());
    }
}
