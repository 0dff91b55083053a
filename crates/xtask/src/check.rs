//! `cargo xtask test`: every check there is, stage by stage, with a table and one plain closing line.
//!
//! A stage that finds nothing to run has failed, unless what is missing is named in [`NOT_YET`]: nothing is skipped in
//! silence. All stages run even when one fails, so that one run tells everything; `--fail-fast` stops instead.

pub(crate) mod e2e;
mod host;
mod package;
mod page;
mod reports;
mod rules;
mod tally;
pub(crate) mod wasm;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::context::Context;
use crate::setup::{Needs, Prepared, prepare};
use crate::table;
use tally::Tally;

/// What does not exist yet and is therefore allowed to be missing, as a stage or `stage/crate`. Nothing, as it should be.
const NOT_YET: &[&str] = &[];

/// The crates tested on the host: all but the GPU model's worker, which would bring a native graphics stack along.
pub(crate) const HOST_CRATES: [&str; 11] =
    ["spec", "engine", "workload", "fleet", "lab", "tinygpt", "cli", "worker", "package", "web", "xtask"];

/// What they do not do by themselves: live runs on a terminal, and learning.
pub(crate) const HOST_FEATURES: &str = "servelab-cli/tinygpt,servelab-tinygpt/train";

/// Options of `test`.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Run only these stages.
    #[arg(long, value_name = "STAGE")]
    only: Vec<String>,
    /// Leave these stages out.
    #[arg(long, value_name = "STAGE")]
    skip: Vec<String>,
    /// Leave out what compiles or runs the GPU model.
    #[arg(long)]
    quick: bool,
    /// Stop at the first stage that fails.
    #[arg(long)]
    fail_fast: bool,
    /// Name the stages and stop.
    #[arg(long)]
    list: bool,
}

impl Args {
    pub(crate) fn only(stages: &[&str]) -> Self {
        Self { only: stages.iter().map(|stage| (*stage).to_owned()).collect(), ..Self::default() }
    }
}

/// What a stage works with.
pub(crate) struct Session<'a> {
    pub(crate) context: &'a Context,
    pub(crate) prepared: &'a Prepared,
    pub(crate) quick: bool,
}

struct Stage {
    name: &'static str,
    what: &'static str,
    needs: Needs,
    /// Is there nothing in it without the GPU model?
    gpu: bool,
    run: fn(&Session<'_>) -> Result<Tally>,
}

/// In the order of what fails soonest and what later stages build upon.
const STAGES: [Stage; 14] = [
    Stage { name: "fmt", what: "rustfmt finds nothing to change", needs: Needs::NONE, gpu: false, run: host::fmt },
    Stage {
        name: "lint",
        what: "clippy on the host, warnings as errors",
        needs: Needs::NONE,
        gpu: false,
        run: host::lint,
    },
    Stage { name: "doc", what: "rustdoc, warnings as errors", needs: Needs::NONE, gpu: false, run: host::doc },
    Stage {
        name: "host",
        what: "unit, property and integration tests",
        needs: Needs::NONE,
        gpu: false,
        run: host::tests,
    },
    Stage {
        name: "reports",
        what: "the presets' reports repeat to the byte",
        needs: Needs::NONE,
        gpu: false,
        run: reports::run,
    },
    Stage { name: "rules", what: "who may depend on what", needs: Needs::NONE, gpu: false, run: rules::run },
    Stage { name: "lint-wasm", what: "clippy and rustdoc for wasm32", needs: Needs::LINT, gpu: false, run: wasm::lint },
    Stage {
        name: "bundle",
        what: "trunk builds the page, sizes keep their budgets",
        needs: Needs::WEIGHED,
        gpu: false,
        run: page::run,
    },
    Stage { name: "wasm", what: "wasm-pack test in a browser", needs: Needs::WASM_TESTS, gpu: false, run: wasm::tests },
    Stage {
        name: "wasm-firefox",
        what: "the same tests in Firefox",
        needs: Needs { node: true, ..Needs::WASM_TESTS },
        gpu: false,
        run: wasm::firefox_tests,
    },
    Stage {
        name: "wasm-gpu",
        what: "the same on software WebGPU",
        needs: Needs::WASM_TESTS,
        gpu: true,
        run: wasm::gpu_tests,
    },
    Stage {
        name: "package",
        what: "the package for JavaScript, in Node.js, TypeScript and a browser",
        needs: Needs { browser: true, ..crate::package::NEEDS },
        gpu: false,
        run: package::run,
    },
    Stage {
        name: "harness",
        what: "the end-to-end tests' own test",
        needs: Needs { browser: true, node: true, ..Needs::NONE },
        gpu: false,
        run: e2e::harness,
    },
    Stage { name: "e2e", what: "the served page in a browser", needs: Needs::E2E, gpu: false, run: e2e::stage },
];

struct Row {
    name: &'static str,
    tally: Tally,
    time: Duration,
}

/// Runs the chosen stages; `false` when anything failed.
pub(crate) fn run(context: &Context, args: &Args) -> Result<bool> {
    if args.list {
        for stage in &STAGES {
            println!("{:10} {}", stage.name, stage.what);
        }
        return Ok(true);
    }
    let chosen = choose(args)?;
    let start = Instant::now();
    let mut rows = Vec::new();
    let needs = chosen.iter().fold(Needs::NONE, |sum, stage| sum.and(stage.needs));
    let prepared = prepare(context, needs);
    rows.push(Row { name: "set-up", tally: setup_tally(&prepared), time: start.elapsed() });
    for stage in &chosen {
        if args.fail_fast && rows.iter().any(|row| row.tally.failed > 0) {
            break;
        }
        println!("\n=== {}: {}", stage.name, stage.what);
        let start = Instant::now();
        // What needs nothing also runs where nothing could be prepared.
        let own = if stage.needs == Needs::NONE { Some(prepare(context, Needs::NONE)?) } else { None };
        let tally = match own.as_ref().or(prepared.as_ref().ok()) {
            Some(prepared) => {
                let session = Session { context, prepared, quick: args.quick };
                (stage.run)(&session).unwrap_or_else(|error| Tally::failure(format!("{error:#}")))
            }
            None => Tally::failure("set-up failed".to_owned()),
        };
        for problem in &tally.problems {
            println!("!!! {}: {problem}", stage.name);
        }
        rows.push(Row { name: stage.name, tally: tally.judge_missing(NOT_YET), time: start.elapsed() });
    }
    println!("\n{}", summary(&rows));
    println!("in {}", table::duration(start.elapsed()));
    let total = rows.iter().fold(Tally::default(), |sum, row| sum.plus(&row.tally));
    // This line is read by machines: keep it plain and last.
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    Ok(total.failed == 0)
}

fn choose(args: &Args) -> Result<Vec<&'static Stage>> {
    let known: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
    if let Some(unknown) = args.only.iter().chain(&args.skip).find(|name| !known.contains(&name.as_str())) {
        bail!("there is no stage {unknown:?}; there are {}", known.join(", "));
    }
    let named = |list: &[String], stage: &Stage| list.iter().any(|name| name == stage.name);
    let chosen = STAGES.iter().filter(|stage| {
        (args.only.is_empty() || named(&args.only, stage)) && !named(&args.skip, stage) && !(args.quick && stage.gpu)
    });
    Ok(chosen.collect())
}

fn setup_tally(prepared: &Result<Prepared>) -> Tally {
    match prepared {
        Ok(_) => Tally::default(),
        Err(error) => {
            println!("!!! set-up: {error:#}");
            Tally::failure(format!("{error:#}"))
        }
    }
}

fn summary(rows: &[Row]) -> String {
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let tally = &row.tally;
            let verdict = match (tally.failed, tally.passed) {
                (0, 0) if tally.skipped > 0 => "not yet",
                (0, _) => "ok",
                _ => "FAILED",
            };
            let counts = [tally.passed, tally.failed, tally.skipped, tally.compiled].map(|count| count.to_string());
            let mut line = vec![row.name.to_owned(), verdict.to_owned()];
            line.extend(counts);
            line.push(table::duration(row.time));
            line
        })
        .collect();
    let mut text = table::render(&["stage", "result", "passed", "failed", "skipped", "crates built", "time"], &lines);
    for row in rows {
        for problem in &row.tally.problems {
            text.push_str(&format!("{}: {problem}\n", row.name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_chosen_by_name() {
        let names =
            |args: &Args| -> Vec<&str> { choose(args).expect("known stages").iter().map(|stage| stage.name).collect() };
        assert_eq!(names(&Args::default()).len(), STAGES.len());
        assert_eq!(names(&Args::only(&["host", "fmt"])), ["fmt", "host"]);
        let quick = Args { quick: true, skip: vec!["fmt".into()], ..Args::default() };
        assert!(!names(&quick).contains(&"wasm-gpu") && !names(&quick).contains(&"fmt"));
        assert!(choose(&Args::only(&["nothing"])).is_err());
    }
}
