//! The package for JavaScript, built and used: in Node.js, by the TypeScript compiler, in a browser's page and worker.

use anyhow::Result;

use super::Session;
use super::host::everything;
use super::tally::{Tally, check_without_warnings, count_tests};
use crate::package;
use crate::process::Command;

pub(super) fn run(session: &Session<'_>) -> Result<Tally> {
    let context = session.context;
    let out = context.scratch()?.join("package");
    // The one build in which the core stands for itself on wasm32, without what a browser or the model would add.
    let built = check_without_warnings(package::compile(context, session.prepared)?)?;
    if built.failed > 0 {
        return Ok(built);
    }
    package::build(context, session.prepared, &out)?;
    // What its reports are compared with; built already where the stages before have run.
    everything(session, "build").args(["--bin", "servelab"]).run()?;
    let command = Command::new("node").arg(context.root.join("tests/e2e/run.mjs")).arg("--package").arg(&out);
    let command = command.env("SERVELAB_CLI", context.target.join("debug/servelab"));
    let command = command.env("SERVELAB_BROWSER", &session.prepared.browser()?.program).dir(&context.root);
    Ok(built.plus(&count_tests(command)?))
}
