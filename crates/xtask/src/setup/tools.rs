//! Trunk, wasm-bindgen and wasm-pack: taken from `PATH` in the right version, else installed from crates.io.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Needs;
use crate::context::Context;
use crate::lock;
use crate::process::{Command, find};
use crate::version::Version;

/// The version of trunk whose options `bundle` uses.
const TRUNK: Version = Version::new(0, 21, 14);

/// The version of wasm-pack whose options the browser tests use.
const WASM_PACK: Version = Version::new(0, 15, 1);

struct Tool {
    package: &'static str,
    programs: &'static [&'static str],
    version: Version,
    /// A generator must match the crate to the digit; the others only need the options we use.
    exact: bool,
    options: &'static [&'static str],
}

impl Tool {
    fn accepts(&self, found: Version) -> bool {
        if self.exact { found == self.version } else { found.compatible_with(self.version) }
    }
}

/// Finds or installs the tools that `needs` asks for; answers with their names and versions.
pub(super) fn prepare(context: &Context, needs: Needs) -> Result<Vec<String>> {
    let mut tools = Vec::new();
    if needs.bundler || needs.wasm_pack {
        // In release: it reads the GPU model's 20 MB of wasm once per build and per test binary.
        tools.push(Tool {
            package: "wasm-bindgen-cli",
            programs: &["wasm-bindgen", "wasm-bindgen-test-runner"],
            version: lock::version_of(context, "wasm-bindgen")?,
            exact: true,
            options: &[],
        });
    }
    if needs.bundler {
        let options = &["--debug", "--no-default-features"];
        tools.push(Tool { package: "trunk", programs: &["trunk"], version: TRUNK, exact: false, options });
    }
    if needs.wasm_pack {
        let options = &["--debug"];
        tools.push(Tool { package: "wasm-pack", programs: &["wasm-pack"], version: WASM_PACK, exact: false, options });
    }
    let mut have = Vec::new();
    let build = context.cache.join("tools-build");
    for tool in &tools {
        if !tool.programs.iter().all(|program| is_there(context, tool, program)) {
            install(context, tool, &build)?;
        }
        have.push(format!("{} {}", tool.programs[0], tool.version));
    }
    if build.exists() {
        // Installed once; hundreds of megabytes of intermediate files serve nobody.
        std::fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
    }
    Ok(have)
}

/// Looks where the chores will look: our folder first, then `PATH`.
fn is_there(context: &Context, tool: &Tool, program: &str) -> bool {
    let own = context.tools().join("bin").join(program);
    let candidate: Option<PathBuf> = if own.is_file() { Some(own) } else { find(program) };
    candidate.and_then(|path| version_of(&path)).is_some_and(|version| tool.accepts(version))
}

fn version_of(program: &Path) -> Option<Version> {
    // Trunk refuses the usual value of NO_COLOR.
    let said = Command::new(program).env_remove("NO_COLOR").arg("--version").read().ok()?;
    Version::find(&said)
}

fn install(context: &Context, tool: &Tool, build: &Path) -> Result<()> {
    println!("installing {} {} from crates.io, once (minutes)", tool.package, tool.version);
    let command = |locked: &[&str]| {
        Command::new("cargo")
            .env("CARGO_TARGET_DIR", build)
            // Nobody debugs them, and to write and link their tables takes as long as to compile them.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .args(["install", "--quiet", "--force", "--root"])
            .arg(context.tools())
            .args(tool.options)
            .args(locked)
            .arg(format!("{}@{}", tool.package, tool.version))
            // Outside the workspace: its cargo configuration is not meant for tools.
            .dir(&context.cache)
    };
    if command(&["--locked"]).run().is_ok() {
        return Ok(());
    }
    println!("its own lock file does not resolve here; once more with the newest compatible dependencies");
    command(&[]).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(exact: bool) -> Tool {
        Tool { package: "p", programs: &["p"], version: Version::new(0, 2, 130), exact, options: &[] }
    }

    #[test]
    fn a_generator_must_match_exactly() {
        assert!(tool(true).accepts(Version::new(0, 2, 130)));
        assert!(!tool(true).accepts(Version::new(0, 2, 131)));
        assert!(tool(false).accepts(Version::new(0, 2, 131)));
        assert!(!tool(false).accepts(Version::new(0, 2, 129)));
        assert!(!tool(false).accepts(Version::new(0, 3, 0)));
    }
}
