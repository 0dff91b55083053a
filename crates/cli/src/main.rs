//! `servelab`: the lab on a terminal.
//!
//! | module | holds |
//! |---|---|
//! | [`args`] | what can be asked |
//! | [`source`] | from a preset's name, a file or an address to a spec |
//! | [`run`] | running a spec and writing what came out |
//! | [`sweep`], [`merge`] | many runs on all cores, or a part of them here and the rest elsewhere |
//! | [`knee`] | the rate that a fleet can bear |
//! | [`coldstart`] | a cold start stage by stage |
//! | [`signals`] | which signal sees too much load coming |
//! | [`spread`] | runs over cores |
//! | [`output`] | files that results go to |
//! | [`summary`] | a report as a person reads it |
//! | [`table`] | text tables |
//! | [`trace`] | recorded traffic: looked at, and replayed |
//! | [`list`] | what can be chosen |
//! | [`model`] | runs with the real model, behind the feature `tinygpt` |
//! | [`mod@write`] | the trained model continues prompts, behind the same feature |
//!
//! Exit status: 0 done; 1 the run or a file failed; 2 the request can not be met as it was put (unknown name, value out of range).

mod args;
mod coldstart;
mod knee;
mod list;
mod merge;
mod model;
mod output;
mod run;
mod signals;
mod source;
mod spread;
mod summary;
mod sweep;
mod table;
mod trace;
mod write;

use args::{Args, Command};
use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

/// What went wrong, and with which status to leave.
pub(crate) enum Failure {
    /// The request can not be met as it was put.
    Request(String),
    /// It could be, but something failed.
    Run(String),
    /// Whoever read our output has stopped reading: nothing is wrong.
    Silence,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::Silence } else { Failure::Run(error.to_string()) }
    }
}

/// A run that failed: for a value of the request, or for something else.
pub(crate) fn failed(error: servelab_lab::RunError) -> Failure {
    match error.field() {
        // It could be run, and then a script went wrong.
        _ if matches!(error, servelab_lab::RunError::Policy { .. }) => Failure::Run(error.to_string()),
        Some(_) => Failure::Request(error.to_string()),
        None => Failure::Run(error.to_string()),
    }
}

fn main() -> ExitCode {
    let mut out = io::stdout().lock();
    let args = Args::parse();
    if matches!(args.format(), Some(args::Format::Markdown)) {
        table::in_markdown();
    }
    let outcome = match args.command {
        Command::Run(args) => run::run(&args, &mut out),
        Command::Sweep(args) => sweep::sweep(&args, &mut out),
        Command::Merge(args) => merge::merge(&args, &mut out),
        Command::Knee(args) => knee::knee(&args, &mut out),
        Command::Coldstart(args) => coldstart::coldstart(&args, &mut out),
        Command::Signals(args) => signals::command(&args, &mut out),
        Command::Write(args) => write::write(&args, &mut out),
        Command::Inspect(args) => trace::inspect(&args, &mut out),
        Command::Replay(args) => trace::replay(&args, &mut out),
        Command::List(args) => list::list(&args, &mut out),
        Command::Catalog => list::catalog(&mut out),
        Command::Schema(args) => run::write_json(
            &match args.of {
                args::Schema::Spec => servelab_spec::schema::of_spec(),
                args::Schema::Report => servelab_spec::schema::of_report(),
                args::Schema::Sweep => servelab_spec::schema::of_sweep(),
                args::Schema::Preset => servelab_spec::schema::of_preset(),
            },
            &mut out,
        ),
    };
    match outcome.and_then(|()| Ok(out.flush()?)) {
        Ok(()) | Err(Failure::Silence) => ExitCode::SUCCESS,
        Err(Failure::Request(message)) => complain(&message, 2),
        Err(Failure::Run(message)) => complain(&message, 1),
    }
}

fn complain(message: &str, status: u8) -> ExitCode {
    // Nothing can be done when standard error is gone too.
    let _ = writeln!(io::stderr(), "servelab: {message}");
    ExitCode::from(status)
}
