//! The served page, driven in a real browser by `tests/e2e`.

use std::fs;

use anyhow::Result;

use super::Session;
use super::tally::{Tally, count_tests};
use crate::bundle::{self, Page};
use crate::context::Context;
use crate::process::Command;
use crate::serve::Site;
use crate::setup::{Needs, Prepared, prepare};

/// Options of `e2e`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Test a page that is served already, instead of `dist/`.
    #[arg(long)]
    url: Option<String>,
    /// Run only test files or tests whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Build and test without the GPU model.
    #[arg(long, conflicts_with = "url")]
    quick: bool,
    /// Test what is in `dist/` without building.
    #[arg(long)]
    no_build: bool,
}

/// `cargo xtask e2e`.
pub(crate) fn command(context: &Context, args: &Args) -> Result<bool> {
    let prepared = prepare(context, Needs::E2E)?;
    let tally = if let Some(url) = &args.url {
        count_tests(runner(context, &prepared, url, args.filter.as_deref(), args.quick)?)?
    } else {
        if !args.no_build {
            bundle::build(context, Page::quick(args.quick))?;
        }
        serve_and_test(context, &prepared, args.filter.as_deref(), args.quick)?
    };
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    Ok(tally.failed == 0)
}

/// The tests of the page that the bundle stage built.
pub(super) fn stage(session: &Session<'_>) -> Result<Tally> {
    let context = session.context;
    if !bundle::exists(context) {
        return Ok(Tally::missing("e2e", "no index.html"));
    }
    let tests = fs::read_dir(context.root.join("tests/e2e"))?.filter_map(Result::ok);
    if !tests.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".test.mjs")) {
        return Ok(Tally::missing("e2e", "no tests/e2e/*.test.mjs"));
    }
    if !context.dist().join("index.html").is_file() {
        bundle::build(context, Page::quick(session.quick))?;
    }
    serve_and_test(context, session.prepared, None, session.quick)
}

/// The harness against pages made to break its rules: a harness that misses an error makes every test worthless.
pub(super) fn harness(session: &Session<'_>) -> Result<Tally> {
    let command = Command::new("node").arg(session.context.root.join("tests/e2e/run.mjs")).arg("--harness");
    count_tests(command.env("SERVELAB_BROWSER", &session.prepared.browser()?.program).dir(&session.context.root))
}

fn serve_and_test(context: &Context, prepared: &Prepared, filter: Option<&str>, quick: bool) -> Result<Tally> {
    let site = Site::open(&context.dist(), 0)?;
    let command = runner(context, prepared, &site.address(), filter, quick)?;
    site.answer_during(|| count_tests(command))
}

fn runner(context: &Context, prepared: &Prepared, url: &str, filter: Option<&str>, quick: bool) -> Result<Command> {
    let command = Command::new("node")
        .arg(context.root.join("tests/e2e/run.mjs"))
        .args(["--url", url])
        .env("SERVELAB_BROWSER", &prepared.browser()?.program)
        .dir(&context.root);
    let command = if quick { command.arg("--quick") } else { command };
    Ok(match filter {
        Some(filter) => command.args(["--filter", filter]),
        None => command,
    })
}
