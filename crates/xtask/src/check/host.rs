//! Stages that need nothing but the active toolchain.

use anyhow::Result;

use super::tally::{Tally, check, count_tests};
use super::{HOST_CRATES, HOST_FEATURES, Session};
use crate::process::Command;

pub(super) fn fmt(session: &Session<'_>) -> Result<Tally> {
    check(cargo(session).args(["fmt", "--all", "--", "--check", "-l"]))
}

pub(super) fn lint(session: &Session<'_>) -> Result<Tally> {
    check(everything(session, "clippy").args(["--all-targets", "--", "-D", "warnings"]))
}

pub(super) fn doc(session: &Session<'_>) -> Result<Tally> {
    check(everything(session, "doc").arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))
}

pub(super) fn tests(session: &Session<'_>) -> Result<Tally> {
    // Without the examples: clippy has seen them, and to link each takes as long as a test program.
    let programs = everything(session, "test").args(["--no-fail-fast", "--lib", "--bins", "--tests"]);
    let programs = count_tests(programs)?;
    // Examples in comments: there may be none, and those that there are have to hold.
    Ok(programs.plus(&check(everything(session, "test").args(["--no-fail-fast", "--doc"]))?))
}

/// A subcommand of cargo on all host crates and features at once, so that cargo settles the features of what they
/// depend on once, and every stage finds the same builds.
pub(super) fn everything(session: &Session<'_>, subcommand: &str) -> Command {
    packages(cargo(session).arg(subcommand), HOST_CRATES).args(["--features", HOST_FEATURES])
}

/// cargo of the active toolchain, at the top of the repository.
pub(super) fn cargo(session: &Session<'_>) -> Command {
    Command::new("cargo").env("CARGO_TARGET_DIR", &session.context.target).dir(&session.context.root)
}

/// Names crates of ours.
pub(super) fn packages<'a>(command: Command, crates: impl IntoIterator<Item = &'a str>) -> Command {
    crates.into_iter().fold(command, |command, name| command.arg("-p").arg(format!("servelab-{name}")))
}
