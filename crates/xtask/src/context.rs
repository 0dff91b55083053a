//! Where things are: the repository, the cache folder for tools, cargo's target folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The places every subcommand works in.
#[derive(Debug)]
pub(crate) struct Context {
    /// The repository's top folder.
    pub(crate) root: PathBuf,
    /// The user's cache folder for ServeLab: `tools/`, and on CI `target/`.
    pub(crate) cache: PathBuf,
    /// Cargo's target folder, given to every command that compiles.
    pub(crate) target: PathBuf,
}

impl Context {
    /// Reads the environment.
    pub(crate) fn from_environment() -> Result<Self> {
        let get = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        // Cargo names the folder at run time; the one fixed at compile time may be that of an earlier clone, since
        // clones share a target folder on CI.
        let manifest =
            get("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .ancestors()
            .nth(2)
            .with_context(|| format!("{} is not inside the repository's crates folder", manifest.display()))?
            .to_path_buf();
        let cache = cache_folder(get).context("no cache folder: set SERVELAB_CACHE, XDG_CACHE_HOME or HOME")?;
        let target = target_folder(get, &cache, &root);
        Ok(Self { root, cache, target })
    }

    /// Where trunk, wasm-bindgen and wasm-pack are installed.
    pub(crate) fn tools(&self) -> PathBuf {
        self.cache.join("tools")
    }

    /// What xtask itself writes between runs.
    pub(crate) fn scratch(&self) -> Result<PathBuf> {
        let path = self.target.join("servelab");
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// The built page.
    pub(crate) fn dist(&self) -> PathBuf {
        self.root.join("dist")
    }
}

fn cache_folder(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(own) = get("SERVELAB_CACHE") {
        return Some(own.into());
    }
    let user = get("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| get("HOME").or_else(|| get("USERPROFILE")).map(|home| Path::new(&home).join(".cache")))?;
    Some(user.join("servelab"))
}

/// Outside the clone on CI, so that a fresh clone does not compile burn again; a developer's own clone keeps its own.
fn target_folder(get: impl Fn(&str) -> Option<OsString>, cache: &Path, root: &Path) -> PathBuf {
    if let Some(given) = get("CARGO_TARGET_DIR").or_else(|| get("SERVELAB_TARGET")) {
        return root.join(given);
    }
    match get("CI") {
        Some(value) if value != "false" && value != "0" => cache.join("target"),
        _ => root.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + Copy {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn cache_folder_prefers_the_most_specific_variable() {
        let all = environment(&[("SERVELAB_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")]);
        assert_eq!(cache_folder(all), Some("/a".into()));
        let xdg = environment(&[("XDG_CACHE_HOME", "/b"), ("HOME", "/c")]);
        assert_eq!(cache_folder(xdg), Some("/b/servelab".into()));
        assert_eq!(cache_folder(environment(&[("HOME", "/c")])), Some("/c/.cache/servelab".into()));
        assert_eq!(cache_folder(environment(&[])), None);
    }

    #[test]
    fn target_folder_is_outside_the_clone_on_ci_only() {
        let (cache, root) = (Path::new("/cache"), Path::new("/clone"));
        assert_eq!(target_folder(environment(&[]), cache, root), Path::new("/clone/target"));
        assert_eq!(target_folder(environment(&[("CI", "true")]), cache, root), Path::new("/cache/target"));
        assert_eq!(target_folder(environment(&[("CI", "false")]), cache, root), Path::new("/clone/target"));
        let given = environment(&[("CI", "true"), ("SERVELAB_TARGET", "/elsewhere")]);
        assert_eq!(target_folder(given, cache, root), Path::new("/elsewhere"));
        let relative = environment(&[("CARGO_TARGET_DIR", "out"), ("SERVELAB_TARGET", "/elsewhere")]);
        assert_eq!(target_folder(relative, cache, root), Path::new("/clone/out"));
    }
}
