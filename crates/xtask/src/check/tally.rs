//! Counting: what passed, what failed, what had nothing to run.

use anyhow::Result;

use crate::process::Command;

/// The counts of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Crates that cargo compiled: a warm run that shows many has a build configuration problem.
    pub(crate) compiled: u64,
    /// What went wrong, in a sentence each.
    pub(crate) problems: Vec<String>,
    /// What had nothing to run, by the name under which it may be excused, with the reason.
    missing: Vec<(String, String)>,
}

impl Tally {
    /// One check that passed.
    pub(crate) fn pass() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One check that this machine can not make.
    pub(crate) fn skip() -> Self {
        Self { skipped: 1, ..Self::default() }
    }

    /// One check that failed.
    pub(crate) fn failure(problem: String) -> Self {
        Self { failed: 1, problems: vec![problem], ..Self::default() }
    }

    /// A check by its list of violations.
    pub(crate) fn of(problems: Vec<String>) -> Self {
        if problems.is_empty() { Self::pass() } else { Self { failed: 1, problems, ..Self::default() } }
    }

    /// Something that has nothing to run.
    pub(crate) fn missing(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { missing: vec![(name.into(), reason.into())], ..Self::default() }
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.compiled += other.compiled;
        self.problems.extend_from_slice(&other.problems);
        self.missing.extend_from_slice(&other.missing);
        self
    }

    /// Turns what is missing into skips where `excused` names it, into failures elsewhere; both out loud.
    pub(crate) fn judge_missing(mut self, excused: &[&str]) -> Self {
        for (name, reason) in std::mem::take(&mut self.missing) {
            if excused.contains(&name.as_str()) {
                println!("!!! NOT YET: {name}: {reason}");
                self.skipped += 1;
            } else {
                println!("!!! {name} had nothing to run: {reason}");
                self.failed += 1;
                self.problems.push(format!("{name} had nothing to run: {reason}"));
            }
        }
        self
    }
}

/// Runs one check that passes by ending well, and has no counts of its own.
pub(crate) fn check(command: Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let status = command.stream(|line| tally.compiled += u64::from(compiles(line)))?;
    if status.success() {
        tally.passed = 1;
    } else {
        tally.failed = 1;
    }
    Ok(tally)
}

/// The same, and fails on compiler warnings, which cargo repeats for workspace crates on every run.
pub(crate) fn check_without_warnings(command: Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut warnings = 0_u64;
    let status = command.stream(|line| {
        tally.compiled += u64::from(compiles(line));
        // wasm-bindgen says so of every module whose names are stripped, which is what the page wants.
        let stripped = line.contains("`target_features` custom section");
        warnings += u64::from(plain(line).starts_with("warning:") && !stripped);
    })?;
    let mut problems = Vec::new();
    if !status.success() {
        problems.push(format!("ended with {status}"));
    }
    if warnings > 0 {
        problems.push(format!("{warnings} warnings"));
    }
    Ok(Tally { compiled: tally.compiled, ..Tally::of(problems) })
}

/// Runs a test runner and adds up the counts it prints.
pub(crate) fn count_tests(command: Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let status = command.stream(|line| {
        tally.compiled += u64::from(compiles(line));
        if let Some(counts) = read_counts(&plain(line)) {
            tally = tally.clone().plus(&counts);
        }
    })?;
    if !status.success() && tally.failed == 0 {
        tally = tally.plus(&Tally::failure(format!("ended with {status} before it reported a failed test")));
    }
    if status.success() && tally.passed == 0 {
        tally = tally.plus(&Tally::failure("ended well without running a test".to_owned()));
    }
    Ok(tally)
}

fn compiles(line: &str) -> bool {
    let line = plain(line);
    let line = line.trim_start();
    line.starts_with("Compiling ") || line.starts_with("Checking ")
}

/// The counts in a closing line of cargo's, wasm-bindgen's or the end-to-end tests' runner.
fn read_counts(line: &str) -> Option<Tally> {
    let line = line.trim();
    let counts = match line.strip_prefix("test result: ") {
        Some(rest) => rest.split_once(". ")?.1,
        None => line,
    };
    let parts: Vec<&str> = counts.split([';', ',']).map(str::trim).collect();
    let of = |word: &str| parts.iter().find_map(|part| part.strip_suffix(word)?.trim_end().parse::<u64>().ok());
    // Every part must be a count, or ordinary prose with a comma would do.
    let plain_line = parts.iter().all(|part| part.starts_with(|first: char| first.is_ascii_digit()));
    if !plain_line && counts == line {
        return None;
    }
    let skipped = of("ignored").or_else(|| of("skipped")).unwrap_or(0);
    Some(Tally { passed: of("passed")?, failed: of("failed")?, skipped, ..Tally::default() })
}

/// The line without the terminal's colour codes.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // An escape sequence ends with its first letter.
            let _ = characters.by_ref().find(|follower| follower.is_ascii_alphabetic());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(line: &str) -> Option<(u64, u64, u64)> {
        read_counts(&plain(line)).map(|tally| (tally.passed, tally.failed, tally.skipped))
    }

    #[test]
    fn closing_lines_are_read() {
        let cargo = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        assert_eq!(counts(cargo), Some((12, 0, 1)));
        let failed = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(counts(failed), Some((1, 2, 0)));
        let coloured = "test result: \u{1b}[32mok\u{1b}[0m. 3 passed; 0 failed; 0 ignored; 0 filtered out";
        assert_eq!(counts(coloured), Some((3, 0, 0)));
        assert_eq!(counts("7 passed, 1 failed"), Some((7, 1, 0)));
        assert_eq!(counts("7 passed, 1 failed, 2 skipped"), Some((7, 1, 2)));
    }

    #[test]
    fn prose_is_not_a_closing_line() {
        for line in ["running 3 tests", "test a::b ... ok", "he passed, they failed", "all 3 passed, none failed", ""] {
            assert_eq!(counts(line), None, "{line}");
        }
    }

    #[test]
    fn a_runner_that_runs_nothing_has_failed() {
        let tally =
            count_tests(Command::new("echo").arg("test result: ok. 0 passed; 0 failed; 0 ignored;")).expect("runs");
        assert_eq!((tally.passed, tally.failed), (0, 1));
        let tally = count_tests(Command::new("sh").args(["-c", "echo '2 passed, 0 failed'; exit 1"])).expect("runs");
        assert_eq!((tally.passed, tally.failed), (2, 1));
    }

    #[test]
    fn warnings_fail_where_they_must() {
        let warned = Command::new("sh")
            .args(["-c", "echo '   Compiling a v1' >&2; printf '\\033[33mwarning\\033[0m: unused\\n' >&2"]);
        let tally = check_without_warnings(warned).expect("runs");
        assert_eq!((tally.passed, tally.failed, tally.compiled), (0, 1, 1));
        let tally = check_without_warnings(Command::new("echo").arg("fine")).expect("runs");
        assert_eq!((tally.passed, tally.failed), (1, 0));
    }

    #[test]
    fn what_is_missing_fails_unless_excused() {
        let missing = || Tally::missing("wasm/engine", "no file");
        assert_eq!(missing().judge_missing(&["wasm/engine"]).skipped, 1);
        let judged = missing().judge_missing(&["wasm"]);
        assert_eq!((judged.failed, judged.problems.len()), (1, 1));
    }
}
