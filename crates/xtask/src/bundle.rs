//! The page: trunk builds the three wasm artifacts and lays them out in `dist/`.

use anyhow::{Result, bail};

use crate::context::Context;
use crate::process::Command;
use crate::setup::toolchain::TARGET;
use crate::setup::{Needs, Prepared, prepare};

/// Is there a page to build?
pub(crate) fn exists(context: &Context) -> bool {
    context.root.join("index.html").is_file()
}

/// Sets up and builds.
pub(crate) fn build(context: &Context) -> Result<Prepared> {
    let prepared = prepare(context, Needs::PAGE)?;
    if !exists(context) {
        bail!("there is no index.html at the top of the repository");
    }
    if !context.target.join(TARGET).join("release").is_dir() {
        println!(
            "building the page; the first time takes half an hour on two cores, the model's tensor library above all"
        );
    }
    trunk(context, &prepared, "build")?.run()?;
    Ok(prepared)
}

/// Trunk, set to use what is installed and to fetch nothing.
pub(crate) fn trunk(context: &Context, prepared: &Prepared, subcommand: &str) -> Result<Command> {
    let command = prepared.wasm(context, "trunk")?;
    Ok(command
        // Trunk takes the usual value of NO_COLOR for a mistake.
        .env_remove("NO_COLOR")
        .arg(subcommand)
        .args(["--release", "--offline", "--skip-version-check", "--dist"])
        .arg(context.dist()))
}
