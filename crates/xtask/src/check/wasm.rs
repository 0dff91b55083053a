//! Stages on wasm32: lints, and tests in a browser.
//!
//! The browser tests are `crates/browser/tests/web*.rs`; those with `gpu` in their name need WebGPU and the feature
//! `webgpu`. Everything is built in the release profile with the features of the page's workers, so that nothing is
//! compiled twice.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Session;
use super::host::packages;
use super::reports;
use super::tally::{Tally, check, count_tests};
use crate::context::Context;
use crate::process::Command;
use crate::setup::Prepared;
use crate::setup::browser::has_firefox;
use crate::setup::toolchain::TARGET;

/// Where all tests are that run in a browser.
pub(crate) const BROWSER_TESTS: &str = "crates/browser";

/// The tests that must be there.
const WANTED: [&str; 4] = ["web_cpu", "web_engine", "web_fleet", "web_lab"];

/// The tests on WebGPU that must be there.
const WANTED_ON_GPU: [&str; 2] = ["web_gpu", "web_gpu_worker"];

/// Seconds a test binary may run in the browser; software WebGPU is about a hundred times slower than a CPU.
const LIMIT: &str = "900";

/// The crates that only make sense on wasm32.
fn roots(quick: bool) -> &'static [&'static str] {
    if quick { &["web", "worker", "package"] } else { &["web", "worker", "package", "worker-gpu", "tinygpt"] }
}

pub(super) fn lint(session: &Session<'_>) -> Result<Tally> {
    let with_roots = |subcommand: &str| -> Result<Command> {
        let command = session.prepared.wasm(session.context, "cargo")?.arg(subcommand);
        let command = packages(command.args(["--release", "--target", TARGET]), roots(session.quick).iter().copied());
        Ok(if session.quick { command } else { command.args(["--features", "servelab-tinygpt/webgpu"]) })
    };
    let clippy = check(with_roots("clippy")?.args(["--", "-D", "warnings"]))?;
    Ok(clippy.plus(&check(with_roots("doc")?.arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))?))
}

pub(super) fn tests(session: &Session<'_>) -> Result<Tally> {
    in_browser(session, "wasm", &WANTED, false)
}

pub(super) fn gpu_tests(session: &Session<'_>) -> Result<Tally> {
    in_browser(session, "wasm-gpu", &WANTED_ON_GPU, true)
}

/// The same programs in Firefox, on the CPU. Its driver, geckodriver, would take four minutes of every cold run to compile; the runner serves the tests to whoever
/// comes, and the driver of the end-to-end tests comes.
pub(super) fn firefox_tests(session: &Session<'_>) -> Result<Tally> {
    // A machine without Firefox says so; the one that decides what lands has one.
    if !has_firefox() && std::env::var_os("CI").is_none() {
        println!("no Firefox: these tests are skipped");
        return Ok(Tally::skip());
    }
    let targets = targets_of(&session.context.root.join(BROWSER_TESTS).join("tests"), false)?;
    let mut tally = missing("wasm-firefox", &WANTED, &targets);
    for target in targets {
        tally = tally.plus(&count_tests(in_firefox(session.context, session.prepared, &target)?)?);
    }
    Ok(tally)
}

fn missing(stage: &str, wanted: &[&str], targets: &[String]) -> Tally {
    let gone = wanted.iter().filter(|name| !targets.iter().any(|target| target == *name));
    gone.fold(Tally::default(), |tally, name| {
        let file = format!("no {BROWSER_TESTS}/tests/{name}.rs");
        tally.plus(&Tally::missing(format!("{stage}/{name}"), file))
    })
}

fn in_firefox(context: &Context, prepared: &Prepared, target: &str) -> Result<Command> {
    Ok(prepared
        .wasm(context, "node")?
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", "wasm-bindgen-test-runner")
        .arg(context.root.join("tests/e2e/firefox-wasm.mjs"))
        .args(["cargo", "test", "--release", "--target", TARGET, "-p", "servelab-browser", "--test", target]))
}

fn in_browser(session: &Session<'_>, stage: &str, wanted: &[&str], gpu: bool) -> Result<Tally> {
    let targets = targets_of(&session.context.root.join(BROWSER_TESTS).join("tests"), gpu)?;
    // Tests include them; whoever runs this stage by itself has not written them.
    let mut tally = if reports::are_there(session.context) { Tally::default() } else { reports::run(session)? };
    tally = tally.plus(&missing(stage, wanted, &targets));
    for target in targets {
        tally = tally.plus(&count_tests(wasm_pack(session.context, session.prepared, &target, gpu)?)?);
    }
    Ok(tally)
}

/// One target a call: wasm-pack stops at the first target that fails, and has no option to go on.
pub(crate) fn wasm_pack(context: &Context, prepared: &Prepared, target: &str, gpu: bool) -> Result<Command> {
    let browser = prepared.browser()?;
    let command = prepared
        .wasm(context, "wasm-pack")?
        .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", browser.capabilities(context)?)
        .env("WASM_BINDGEN_TEST_TIMEOUT", LIMIT)
        .args(["test", "--release", "--headless", "--chrome", "--mode", "no-install", "--chromedriver"])
        .arg(&browser.driver)
        .arg(context.root.join(BROWSER_TESTS))
        .args(["--test", target]);
    // The same features as the GPU worker's: a second set would build the whole GPU stack a second time.
    Ok(if gpu { command.args(["--no-default-features", "--features", "webgpu"]) } else { command })
}

/// The browser test targets in `folder`: with `gpu` those that need WebGPU, else the others.
pub(crate) fn targets_of(folder: &Path, gpu: bool) -> Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if is_source && stem.starts_with("web") && stem.contains("gpu") == gpu {
            found.push(stem);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_tests_are_found_by_name() {
        let folder = std::env::temp_dir().join(format!("servelab-targets-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        for name in ["web.rs", "web_cpu.rs", "web_gpu.rs", "web_gpu_worker.rs", "oracle.rs", "web.txt"] {
            fs::write(folder.join(name), "").expect("writes");
        }
        assert_eq!(targets_of(&folder, false).expect("reads"), ["web", "web_cpu"]);
        assert_eq!(targets_of(&folder, true).expect("reads"), ["web_gpu", "web_gpu_worker"]);
        fs::remove_dir_all(&folder).expect("removes");
        assert!(targets_of(&folder, false).expect("absent").is_empty());
    }
}
