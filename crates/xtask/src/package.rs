//! The package for JavaScript: the simulator's wasm, its scripts and its types in a folder that npm takes as it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::process::Command;
use crate::setup::toolchain::TARGET;
use crate::setup::{Needs, Prepared, prepare};

/// What is needed to build it.
pub(crate) const NEEDS: Needs = Needs { node: true, ..Needs::PAGE };

/// Options of `package`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder that is made.
    #[arg(default_value = "dist-package")]
    out: PathBuf,
}

/// `cargo xtask package`.
pub(crate) fn command(context: &Context, args: &Args) -> Result<()> {
    let prepared = prepare(context, NEEDS)?;
    let out = context.root.join(&args.out);
    build(context, &prepared, &out)?;
    println!("the package is in {}: `npm pack` or `npm install` it from there", out.display());
    Ok(())
}

/// Compiles its wasm.
pub(crate) fn compile(context: &Context, prepared: &Prepared) -> Result<Command> {
    let command = prepared.wasm(context, "cargo")?.args(["build", "--release", "--target", TARGET]);
    Ok(command.args(["-p", "servelab-package"]))
}

/// Builds into `out`. What another build has left there goes.
pub(crate) fn build(context: &Context, prepared: &Prepared, out: &Path) -> Result<()> {
    compile(context, prepared)?.run()?;
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let wasm = context.target.join(TARGET).join("release/servelab_package.wasm");
    let bindgen = prepared.wasm(context, "wasm-bindgen")?.args(["--target", "web", "--no-typescript"]);
    bindgen.args(["--out-name", "servelab", "--out-dir"]).arg(out).arg(wasm).run()?;
    let script = Command::new("node").arg(context.root.join("package/build.mjs"));
    script.arg(context.root.join("www/schema")).arg(out).run()
}
