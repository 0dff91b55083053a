//! `cargo xtask bench`: measurements in one table, with the machine named.
//!
//! Each source prints rows, one a line: what, value, unit, separated by tabs, and if need be a remark; anything else it
//! prints is passed on and left out of the table. On the host a source is an example; in the browser it is a test whose
//! name contains `bench`, which writes its rows to the console.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::check::wasm;
use crate::context::Context;
use crate::process::Command;
use crate::serve::Site;
use crate::setup::{Needs, Prepared, prepare};
use crate::{bundle, machine, sizes, table};

/// Options of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these sources: engine, fleet, lab, tinygpt, wasm-cpu, webgpu, page, sizes.
    #[arg(long, value_name = "SOURCE")]
    only: Vec<String>,
    /// Measure and weigh the page in `dist/` without building it.
    #[arg(long)]
    no_build: bool,
}

/// The examples that measure on the host: crate and example.
const EXAMPLES: [(&str, &str); 6] = [
    ("engine", "engine_bench"),
    ("fleet", "fleet_bench"),
    ("fleet", "fleet_scale"),
    ("fleet", "retry_storm"),
    ("lab", "lab_speed"),
    ("tinygpt", "model_bench"),
];

/// The browser tests of TinyGPT that measure: source and whether it runs on WebGPU.
const BROWSER: [(&str, bool); 2] = [("wasm-cpu", false), ("webgpu", true)];

/// Runs every source that exists and prints the table.
pub(crate) fn run(context: &Context, args: &Args) -> Result<()> {
    let known: Vec<&str> = EXAMPLES
        .iter()
        .map(|(source, _)| *source)
        .chain(BROWSER.map(|(source, _)| source))
        .chain(["page", "sizes"])
        .collect();
    if let Some(unknown) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no source {unknown:?}; there are {}", known.join(", "));
    }
    let wanted = |source: &str| args.only.is_empty() || args.only.iter().any(|name| name == source);
    let mut rows = Vec::new();
    for (name, example) in EXAMPLES.into_iter().filter(|(name, _)| wanted(name)) {
        let source = context.root.join("crates").join(name).join("examples").join(example).with_extension("rs");
        if !source.is_file() {
            println!("{name}: nothing to measure, crates/{name}/examples/{example}.rs is not there");
            continue;
        }
        let package = format!("servelab-{name}");
        let command = Command::new("cargo").env("CARGO_TARGET_DIR", &context.target).dir(&context.root);
        rows.extend(collect(command.args(["run", "--release", "-p", &package, "--example", example]))?);
    }
    for (source, gpu) in BROWSER.into_iter().filter(|(source, _)| wanted(source)) {
        let prepared = prepare(context, Needs::WASM_TESTS)?;
        let mut targets = wasm::targets_of(&context.root.join(wasm::BROWSER_TESTS).join("tests"), gpu)?;
        // The model's; what else runs in a browser measures nothing.
        targets.retain(|target| gpu || target == "web_cpu");
        if targets.is_empty() {
            println!("{source}: nothing to measure, TinyGPT has no such browser tests");
        }
        for target in targets {
            let command = wasm::wasm_pack(context, &prepared, &target, gpu)?;
            rows.extend(rows_of(command.args(["--", "bench", "--nocapture", "--include-ignored"]))?);
        }
    }
    if (wanted("page") || wanted("sizes")) && bundle::exists(context) {
        let prepared = prepare(context, if wanted("page") { Needs::E2E } else { Needs::WEIGHED })?;
        if !args.no_build {
            bundle::trunk(context, &prepared, "build", bundle::Page::Whole)?.run()?;
        }
        if wanted("page") {
            rows.extend(page(context, &prepared)?);
        }
        if wanted("sizes") {
            rows.extend(weigh(context)?);
        }
    }
    println!("\n{}", machine::describe());
    println!("{}", table::render(&["what", "value", "unit", "remark"], &rows));
    Ok(())
}

/// The runs of `lab_speed`, on the page.
fn page(context: &Context, prepared: &Prepared) -> Result<Vec<Vec<String>>> {
    let cargo = Command::new("cargo").env("CARGO_TARGET_DIR", &context.target).dir(&context.root);
    let example = ["run", "--release", "--quiet", "-p", "servelab-lab", "--example", "lab_speed", "--", "addresses"];
    let addresses = cargo.args(example).read()?;
    let file = context.target.join("speed-addresses.txt");
    fs::write(&file, addresses)?;
    let site = Site::open(&context.dist(), 0)?;
    let node = Command::new("node")
        .arg(context.root.join("tests/e2e/speed.mjs"))
        .args(["--url", &site.address(), "--addresses"])
        .arg(&file)
        .env("SERVELAB_BROWSER", &prepared.browser()?.program)
        .dir(&context.root);
    site.answer_during(|| collect(node))
}

fn weigh(context: &Context) -> Result<Vec<Vec<String>>> {
    let sizes = sizes::measure(context)?;
    let row = |group: sizes::Group| {
        let (raw, brotli) = (table::bytes(sizes.raw(group)), table::bytes(sizes.brotli(group)));
        vec![format!("size, {}", group.label()), brotli, "brotli".to_owned(), format!("{raw} raw")]
    };
    Ok(sizes::Group::ALL.into_iter().map(row).collect())
}

/// The rows that `command` prints, at least one.
fn collect(command: Command) -> Result<Vec<Vec<String>>> {
    let rows = rows_of(command)?;
    (!rows.is_empty()).then_some(rows).context("a measurement printed no rows: what, value, unit, separated by tabs")
}

fn rows_of(command: Command) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    let status = command.stream(|line| rows.extend(row(line)))?;
    if !status.success() {
        bail!("a measurement ended with {status}");
    }
    Ok(rows)
}

fn row(line: &str) -> Option<Vec<String>> {
    let cells: Vec<String> = line.split('\t').map(|cell| cell.trim().to_owned()).collect();
    matches!(cells.len(), 3 | 4).then_some(cells).filter(|cells| !cells[0].is_empty() && !cells[1].is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_three_or_four_cells() {
        assert_eq!(row("decode, batch 1\t154\ttok/s").map(|cells| cells.len()), Some(3));
        assert_eq!(row("a\t1\tms\tcold").map(|cells| cells.len()), Some(4));
        for line in ["   Compiling a v1", "a\t1", "\t1\tms", "a\t1\tms\tx\ty"] {
            assert_eq!(row(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_source_without_rows_is_an_error() {
        assert!(collect(Command::new("echo").arg("hello")).is_err());
        assert!(collect(Command::new("printf").arg("a\\t1\\tms\\n")).is_ok());
        assert!(collect(Command::new("sh").args(["-c", "printf 'a\\t1\\tms\\n'; exit 1"])).is_err());
    }
}
