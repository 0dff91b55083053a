//! Child processes: shown before they run, cleaned of cargo's own variables, never fed from standard input.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A command under construction.
pub(crate) struct Command {
    inner: std::process::Command,
    shown: String,
}

impl Command {
    /// A command that inherits the environment, without what `cargo run` added to it for xtask: a child that finds
    /// `CARGO` would use this process's toolchain instead of the one chosen for it.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut inner = std::process::Command::new(&program);
        inner.stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(set_by_cargo_run) {
                inner.env_remove(name);
            }
        }
        let shown = Path::new(program.as_ref()).file_name().unwrap_or(program.as_ref()).to_string_lossy().into_owned();
        Self { inner, shown }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.shown.push(' ');
        self.shown.push_str(&arg.as_ref().to_string_lossy());
        self.inner.arg(arg);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.inner.env_remove(name);
        self
    }

    pub(crate) fn dir(mut self, path: &Path) -> Self {
        self.inner.current_dir(path);
        self
    }

    /// Runs it with our standard output and error; fails unless it ends well.
    pub(crate) fn run(mut self) -> Result<()> {
        announce(&self.shown);
        let status = self.inner.status().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !status.success() {
            bail!("`{}` ended with {status}", self.shown);
        }
        Ok(())
    }

    /// Runs it in silence and returns its standard output; the error carries the end of its standard error.
    pub(crate) fn read(mut self) -> Result<String> {
        let output = self.inner.output().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{}` ended with {}: {}", self.shown, output.status, tail(&said, 12));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it in silence with `input` on its standard input: did it end well?
    pub(crate) fn accepts(mut self, input: &str) -> bool {
        let spawned = self.inner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = spawned else { return false };
        if let Some(mut stdin) = child.stdin.take() {
            // A child that ends before it has read everything is judged by its status alone.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait().is_ok_and(|status| status.success())
    }

    /// Runs it in silence, for at most `limit`: did it end well in time?
    pub(crate) fn succeeds_within(mut self, limit: Duration) -> bool {
        let Ok(mut child) = self.inner.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return false };
        let start = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(50)),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return false;
                }
            }
        }
    }

    /// Runs it, passes on every line of both its outputs, and hands each to `look` as well.
    pub(crate) fn stream(mut self, mut look: impl FnMut(&str)) -> Result<ExitStatus> {
        announce(&self.shown);
        let mut child = self
            .inner
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", self.shown))?;
        let (sender, lines) = mpsc::channel::<String>();
        std::thread::scope(|scope| {
            for source in outputs(&mut child) {
                let sender = sender.clone();
                scope.spawn(move || forward(source, &sender));
            }
            drop(sender);
            for line in lines {
                println!("{line}");
                look(&line);
            }
        });
        child.wait().with_context(|| format!("`{}` was lost", self.shown))
    }
}

fn set_by_cargo_run(name: &str) -> bool {
    name == "CARGO"
        || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|start| name.starts_with(start))
}

fn announce(shown: &str) {
    println!("$ {shown}");
    let _ = std::io::stdout().flush();
}

fn outputs(child: &mut Child) -> Vec<Box<dyn Read + Send>> {
    let out = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let err = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    out.into_iter().chain(err).collect()
}

fn forward(source: Box<dyn Read + Send>, sender: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(source);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let line = String::from_utf8_lossy(&bytes);
                if sender.send(line.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                    return;
                }
            }
        }
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The first program of that name on `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(name, &std::env::var_os("PATH")?)
}

fn find_in(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// `PATH` with `folder` in front.
pub(crate) fn path_with(folder: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).with_context(|| format!("{} cannot stand in PATH", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_output_and_reports_failure_with_its_reason() {
        let text = Command::new("sh").args(["-c", "echo out; echo err >&2"]).read().expect("ends well");
        assert_eq!(text, "out\n");
        let error = Command::new("sh").args(["-c", "echo why >&2; exit 3"]).read().expect_err("ends badly");
        assert!(error.to_string().contains("why"), "{error}");
        let missing = Command::new("servelab-no-such-program").read().expect_err("does not exist");
        assert!(missing.to_string().contains("cannot start"), "{missing}");
    }

    #[test]
    fn streams_every_line_of_both_outputs() {
        let mut seen = Vec::new();
        let status = Command::new("sh")
            .args(["-c", "echo one; echo two >&2; printf three; exit 4"])
            .stream(|line| seen.push(line.to_owned()))
            .expect("starts");
        seen.sort();
        assert_eq!(seen, ["one", "three", "two"]);
        assert_eq!(status.code(), Some(4));
    }

    #[test]
    fn a_slow_child_is_ended() {
        let start = Instant::now();
        assert!(!Command::new("sleep").arg("30").succeeds_within(Duration::from_millis(120)));
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(Command::new("true").succeeds_within(Duration::from_secs(10)));
        assert!(!Command::new("false").succeeds_within(Duration::from_secs(10)));
    }

    #[test]
    fn input_reaches_the_child() {
        assert!(Command::new("grep").args(["-q", "needle"]).accepts("hay needle hay"));
        assert!(!Command::new("grep").args(["-q", "needle"]).accepts("hay"));
    }

    #[test]
    fn only_what_cargo_run_adds_is_removed() {
        assert!(set_by_cargo_run("CARGO") && set_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!set_by_cargo_run("CARGO_HOME") && !set_by_cargo_run("CARGO_TARGET_DIR") && !set_by_cargo_run("PATH"));
    }

    #[test]
    fn finds_programs_in_order_of_path() {
        assert!(find_in("sh", OsStr::new("/nowhere:/bin")).is_some());
        assert_eq!(find_in("sh", OsStr::new("/nowhere")), None);
    }
}
