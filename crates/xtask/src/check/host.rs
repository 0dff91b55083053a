//! Stages that need nothing but the active toolchain.

use anyhow::Result;

use super::tally::{Tally, check, count_tests};
use super::{HOST_CRATES, Session};
use crate::process::Command;

pub(super) fn fmt(session: &Session<'_>) -> Result<Tally> {
    check(cargo(session).args(["fmt", "--all", "--", "--check", "-l"]))
}

pub(super) fn lint(session: &Session<'_>) -> Result<Tally> {
    check(packages(cargo(session).arg("clippy"), HOST_CRATES).args(["--all-targets", "--", "-D", "warnings"]))
}

pub(super) fn doc(session: &Session<'_>) -> Result<Tally> {
    check(packages(cargo(session).arg("doc"), HOST_CRATES).arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))
}

pub(super) fn tests(session: &Session<'_>) -> Result<Tally> {
    count_tests(packages(cargo(session).arg("test"), HOST_CRATES).arg("--no-fail-fast"))
}

/// cargo of the active toolchain, at the top of the repository.
pub(super) fn cargo(session: &Session<'_>) -> Command {
    Command::new("cargo").env("CARGO_TARGET_DIR", &session.context.target).dir(&session.context.root)
}

/// Names crates of ours. All in one command, so that cargo unifies their dependencies' features once.
pub(super) fn packages<'a>(command: Command, crates: impl IntoIterator<Item = &'a str>) -> Command {
    crates.into_iter().fold(command, |command, name| command.arg("-p").arg(format!("servelab-{name}")))
}
