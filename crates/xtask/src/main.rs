//! `cargo xtask`: every chore of the repository behind one command.
//!
//! Continuous integration, the README and a person at a terminal call the same subcommands, so that what is
//! checked is what is used. Each subcommand first sets up what it needs and is missing, says so in one line, and
//! finds it there the second time. Nothing here knows the crates' code: it runs cargo, trunk, wasm-pack, node.
#![allow(clippy::print_stdout, reason = "a command-line program speaks on standard output")]

mod bench;
mod bundle;
mod check;
mod context;
mod lock;
mod machine;
mod package;
mod process;
mod serve;
mod setup;
mod sizes;
mod table;
mod version;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::context::Context;

/// Set-up, build, serve, test and bench of ServeLab.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what is missing: wasm toolchain, trunk, wasm-bindgen, wasm-pack, browser, the end-to-end tests' packages.
    Setup,
    /// Build the page into `dist/`.
    Build,
    /// Build the page into one HTML file that works from a disk.
    Bundle(bundle::Args),
    /// Build the package for JavaScript: the simulator's wasm with scripts and types.
    Package(package::Args),
    /// Build the page, serve it on a loopback port and print its address.
    Serve(serve::Args),
    /// Every test there is, stage by stage.
    Test(check::Args),
    /// Measure engine, fleet and model and print one table with the machine named.
    Bench(bench::Args),
    /// Formatting and clippy only.
    Lint,
    /// The crates' documentation, warnings as errors.
    Doc,
    /// The end-to-end tests in a browser, against a fresh build or a page served elsewhere.
    E2e(check::e2e::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Context::from_environment().and_then(|context| match cli.command {
        Chore::Setup => setup::prepare(&context, setup::Needs::ALL).map(|_| true),
        Chore::Build => bundle::build(&context, bundle::Page::Whole).map(|_| true),
        Chore::Bundle(args) => bundle::command(&context, &args).map(|()| true),
        Chore::Package(args) => package::command(&context, &args).map(|()| true),
        Chore::Serve(args) => serve::run(&context, &args).map(|()| true),
        Chore::Test(args) => check::run(&context, &args),
        Chore::Bench(args) => bench::run(&context, &args).map(|()| true),
        Chore::Lint => check::run(&context, &check::Args::only(&["fmt", "lint", "lint-wasm"])),
        Chore::Doc => check::run(&context, &check::Args::only(&["doc"])),
        Chore::E2e(args) => check::e2e::command(&context, &args),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
