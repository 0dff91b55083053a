//! The presets' reports, as the host computes them: run twice and compared, then left for the browser's tests.
//!
//! `crates/browser/tests/web_lab.rs` includes these files and compares them with what wasm computes, byte by byte.

use std::fs;

use anyhow::{Context as _, Result};

use super::Session;
use super::host::everything;
use super::tally::Tally;
use crate::context::Context;
use crate::process::Command;

/// The presets compared.
const PRESETS: [&str; 2] = ["book-trace", "multi-tenant"];

/// Where the files are left, from the repository's top.
const FOLDER: &str = "tests/generated";

pub(super) fn run(session: &Session<'_>) -> Result<Tally> {
    let folder = session.context.root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    everything(session, "build").args(["--bin", "servelab"]).run()?;
    let program = session.context.target.join("debug/servelab");
    let mut tally = Tally::default();
    for preset in PRESETS {
        let report = || Command::new(&program).args(["run", preset, "--format", "json"]).read();
        let (first, second) = (report()?, report()?);
        println!("{preset}: {} bytes", first.len());
        tally = tally.plus(&compare(preset, &first, &second));
        let path = folder.join(preset).with_extension("json");
        // An unchanged file keeps its time, or every run would rebuild the browser's test.
        if fs::read_to_string(&path).is_ok_and(|there| there == first) {
            continue;
        }
        fs::write(&path, first).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(tally)
}

/// Has a run left them?
pub(super) fn are_there(context: &Context) -> bool {
    PRESETS.iter().all(|preset| context.root.join(FOLDER).join(preset).with_extension("json").is_file())
}

fn compare(preset: &str, first: &str, second: &str) -> Tally {
    if first.trim().is_empty() {
        return Tally::failure(format!("{preset}: the report is empty"));
    }
    if first != second {
        return Tally::failure(format!("{preset}: two runs differ"));
    }
    Tally::pass()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_reports_with_content_pass() {
        assert_eq!(compare("p", "{}", "{}").passed, 1);
        assert_eq!(compare("p", "{}", "{ }").failed, 1);
        assert_eq!(compare("p", "\n", "\n").failed, 1);
    }
}
