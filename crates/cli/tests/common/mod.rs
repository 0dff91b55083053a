//! The built program, run.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};

pub fn servelab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_servelab")).args(args).output().unwrap()
}

/// What it prints when it succeeds.
pub fn text(args: &[&str]) -> String {
    let output = servelab(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it says when it leaves with `status` and prints nothing.
pub fn refused(args: &[&str], status: i32) -> String {
    let output = servelab(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// A place of the test's own.
pub fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}
