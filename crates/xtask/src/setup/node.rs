//! Node.js and the packages of the end-to-end tests.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::process::{Command, find};
use crate::version::Version;

/// The oldest release whose test runner has what the tests use.
const OLDEST: Version = Version::new(20, 0, 0);

/// Checks Node.js and installs the packages named in the tests' lock file, when they are not there yet.
pub(super) fn prepare(context: &Context) -> Result<String> {
    let node = find("node").and_then(|path| Command::new(path).arg("--version").read().ok());
    let version = node.as_deref().and_then(Version::find);
    let wanted = format!("the end-to-end tests need Node.js {} or newer with npm", OLDEST.major);
    let version = version.with_context(|| format!("no Node.js: {wanted}"))?;
    if version < OLDEST {
        bail!("Node.js is {version}: {wanted}");
    }
    if find("npm").is_none() {
        bail!("no npm: {wanted}");
    }
    let folder = context.root.join("tests/e2e");
    if !is_installed(&folder) {
        println!("installing the end-to-end tests' packages with npm");
        Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).dir(&folder).read()?;
    }
    Ok(format!("node {version}"))
}

/// npm keeps its own copy of what it installed; it is older than a lock file that changed since.
fn is_installed(folder: &Path) -> bool {
    let changed = |path: &str| folder.join(path).metadata().and_then(|data| data.modified()).ok();
    match (changed("package-lock.json"), changed("node_modules/.package-lock.json")) {
        (Some(wanted), Some(done)) => done >= wanted,
        _ => false,
    }
}
