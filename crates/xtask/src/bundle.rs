//! The page: trunk builds the three wasm artifacts and lays them out in `dist/`; beside them come a script that keeps the page without a network
//! and the page in one file.

mod offline;
mod single;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::process::Command;
use crate::setup::toolchain::TARGET;
use crate::setup::{Needs, Prepared, prepare};

/// How much of the page to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// All three wasm artifacts.
    Whole,
    /// All but the GPU model's worker, whose tensor stack compiles for a quarter of an hour. Live runs go to the CPU.
    WithoutGpu,
}

impl Page {
    /// What a `--quick` asks for.
    pub(crate) fn quick(quick: bool) -> Self {
        if quick { Self::WithoutGpu } else { Self::Whole }
    }
}

/// `index.html` without the GPU worker; beside it, since the paths in it are relative. Not under version control.
const QUICK_INDEX: &str = "index.quick.html";

/// The page in one file, in the built folder.
pub(crate) const SINGLE: &str = "servelab.html";

/// Options of `bundle`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file that is made.
    #[arg(default_value = SINGLE)]
    out: PathBuf,
    /// Leave out the model that writes, nine of thirteen megabytes.
    #[arg(long)]
    without_model: bool,
}

/// `cargo xtask bundle`: the folder, and the page in one file with all that fits into one.
pub(crate) fn command(context: &Context, args: &Args) -> Result<()> {
    let prepared = build(context, Page::WithoutGpu)?;
    let out = context.root.join(&args.out);
    single::write(context, &prepared, &out, !args.without_model)?;
    println!("the page is in {}; open it from where it lies", out.display());
    Ok(())
}

/// What the built folder holds beside what trunk lays out.
pub(crate) fn finish(context: &Context, prepared: &Prepared) -> Result<()> {
    // In a folder that is served the file is for frames without an origin; nine megabytes of a model would be asked of each of them.
    single::write(context, prepared, &context.dist().join(SINGLE), false)?;
    offline::write(&context.root, &context.dist())
}

/// Is there a page to build?
pub(crate) fn exists(context: &Context) -> bool {
    context.root.join("index.html").is_file()
}

/// Sets up and builds.
pub(crate) fn build(context: &Context, page: Page) -> Result<Prepared> {
    let prepared = prepare(context, Needs::PAGE)?;
    if !exists(context) {
        bail!("there is no index.html at the top of the repository");
    }
    if !context.target.join(TARGET).join("release").is_dir() {
        println!(
            "building the page; the first time takes half an hour on two cores, the model's tensor library above all"
        );
    }
    trunk(context, &prepared, "build", page)?.run()?;
    finish(context, &prepared)?;
    Ok(prepared)
}

/// Trunk, set to use what is installed and to fetch nothing.
pub(crate) fn trunk(context: &Context, prepared: &Prepared, subcommand: &str, page: Page) -> Result<Command> {
    let command = prepared.wasm(context, "trunk")?;
    let command = command
        // Trunk takes the usual value of NO_COLOR for a mistake.
        .env_remove("NO_COLOR")
        .arg(subcommand)
        .args(["--release", "--offline", "--skip-version-check", "--dist"])
        .arg(context.dist());
    match page {
        Page::Whole => Ok(command),
        Page::WithoutGpu => {
            let index = fs::read_to_string(context.root.join("index.html")).context("index.html is not readable")?;
            fs::write(context.root.join(QUICK_INDEX), without_gpu(&index))
                .with_context(|| format!("{QUICK_INDEX} cannot be written"))?;
            Ok(command.args(["--html-output", "index.html", QUICK_INDEX]))
        }
    }
}

fn without_gpu(index: &str) -> String {
    index.lines().filter(|line| !line.contains("crates/worker-gpu/")).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_page_lacks_the_gpu_worker_only() {
        let index = include_str!("../../../index.html");
        let quick = without_gpu(index);
        assert_eq!(index.lines().count(), quick.lines().count() + 1, "the GPU worker is one line of index.html");
        assert!(quick.contains("crates/worker/Cargo.toml"));
    }
}
