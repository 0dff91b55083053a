//! What the built page weighs, raw and compressed, against its budgets.
//!
//! Node.js compresses: the tests need it anyway, and a compressor of our own would be the largest thing that everybody
//! compiles before the page can be served for the first time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::bundle::SINGLE;
use crate::context::Context;
use crate::process::Command;
use crate::table;

/// The first load may not exceed this, compressed.
pub(crate) const FIRST_LOAD_BUDGET: u64 = 600_000;

/// Prints the compressed size of each file it is given, one a line.
const SCRIPT: &str = "tests/e2e/brotli.mjs";

/// When a file is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// With the page.
    FirstLoad,
    /// With the simulator and the CPU model.
    CpuWorker,
    /// With the GPU model.
    GpuWorker,
    /// When the page asks for it by itself.
    OnDemand,
    /// In place of all others.
    OneFile,
}

impl Group {
    pub(crate) const ALL: [Self; 5] =
        [Self::FirstLoad, Self::CpuWorker, Self::GpuWorker, Self::OnDemand, Self::OneFile];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::FirstLoad => "first load",
            Self::CpuWorker => "CPU worker",
            Self::GpuWorker => "GPU worker",
            Self::OnDemand => "on demand",
            Self::OneFile => "in one file",
        }
    }

    /// By name, and for the rest by whether `index` mentions it.
    fn of(name: &str, index: &str) -> Self {
        let plain = name.replace('_', "-");
        if name == SINGLE {
            Self::OneFile
        } else if plain.contains("worker-gpu") {
            Self::GpuWorker
        } else if plain.contains("worker") {
            Self::CpuWorker
        } else if name == "index.html" || index.contains(name) {
            Self::FirstLoad
        } else {
            Self::OnDemand
        }
    }
}

/// One file of the page.
#[derive(Debug)]
struct File {
    name: String,
    group: Group,
    raw: u64,
    brotli: u64,
}

/// The page's files.
#[derive(Debug)]
pub(crate) struct Sizes {
    files: Vec<File>,
}

impl Sizes {
    /// Compressed bytes of a group.
    pub(crate) fn brotli(&self, group: Group) -> u64 {
        self.files.iter().filter(|file| file.group == group).map(|file| file.brotli).sum()
    }

    /// Bytes of a group as they lie in the folder.
    pub(crate) fn raw(&self, group: Group) -> u64 {
        self.files.iter().filter(|file| file.group == group).map(|file| file.raw).sum()
    }

    /// One row a file above 1 kB, then one a group.
    pub(crate) fn table(&self) -> String {
        let row = |name: &str, group: &str, raw: u64, brotli: u64| {
            vec![name.to_owned(), group.to_owned(), table::bytes(raw), table::bytes(brotli)]
        };
        let mut rows: Vec<Vec<String>> = Vec::new();
        for group in Group::ALL {
            let of_group = || self.files.iter().filter(|file| file.group == group);
            rows.extend(
                of_group()
                    .filter(|file| file.raw >= 1_000)
                    .map(|file| row(&file.name, group.label(), file.raw, file.brotli)),
            );
            if of_group().next().is_some() {
                rows.push(row("= all of it", group.label(), self.raw(group), self.brotli(group)));
            }
        }
        table::render(&["file", "when", "raw", "brotli"], &rows)
    }
}

/// Weighs everything in `dist/`.
pub(crate) fn measure(context: &Context) -> Result<Sizes> {
    let dist = context.dist();
    let index = fs::read_to_string(dist.join("index.html")).context("dist/index.html is not readable; build first")?;
    let paths = walk(&dist)?;
    let said = Command::new("node")
        .arg(context.root.join(SCRIPT))
        .arg(context.scratch()?.join("brotli"))
        .args(&paths)
        .read()?;
    let compressed = numbers(&said)?;
    if compressed.len() != paths.len() {
        bail!("{SCRIPT} answered {} sizes for {} files", compressed.len(), paths.len());
    }
    let mut files = Vec::new();
    for (path, brotli) in paths.iter().zip(compressed) {
        let name = path.strip_prefix(&dist).unwrap_or(path).to_string_lossy().replace('\\', "/");
        let raw = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
        files.push(File { group: Group::of(&name, &index), name, raw, brotli });
    }
    files.sort_by(|a, b| (a.group, &a.name).cmp(&(b.group, &b.name)));
    Ok(Sizes { files })
}

fn numbers(said: &str) -> Result<Vec<u64>> {
    said.lines().map(|line| line.trim().parse().with_context(|| format!("{line:?} is no size"))).collect()
}

fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() { waiting.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// Export names that wasm-ld adds when every export is wrapped by a call of all constructors.
///
/// Registries of cubecl run as constructors; a root that does not call `__wasm_call_ctors` itself gets such wrappers,
/// and each call from JavaScript then costs milliseconds and grows the registries.
pub(crate) fn wrapped_exports(context: &Context) -> Result<Vec<String>> {
    const MARK: &[u8] = b".command_export";
    let folder = context.target.join(crate::setup::toolchain::TARGET).join("release");
    let mut bad = Vec::new();
    for name in [
        "servelab_web",
        "servelab_worker",
        "servelab_worker_gpu",
        "servelab-web",
        "servelab-worker",
        "servelab-worker-gpu",
    ] {
        let path = folder.join(name).with_extension("wasm");
        let Ok(content) = fs::read(&path) else { continue };
        if content.windows(MARK.len()).any(|window| window == MARK) {
            bad.push(format!("{name}.wasm"));
        }
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_grouped_by_when_they_are_asked_for() {
        let index = "<link href=\"./page-12_bg.wasm\"><script src=\"./page-12.js\">";
        assert_eq!(Group::of("index.html", index), Group::FirstLoad);
        assert_eq!(Group::of("page-12_bg.wasm", index), Group::FirstLoad);
        assert_eq!(Group::of("servelab_worker_bg.wasm", index), Group::CpuWorker);
        assert_eq!(Group::of("servelab-worker-gpu_bg.wasm", index), Group::GpuWorker);
        assert_eq!(Group::of("catalog.json", index), Group::OnDemand);
        assert_eq!(Group::of(SINGLE, index), Group::OneFile);
    }

    #[test]
    fn sizes_are_read_or_refused() {
        assert_eq!(numbers("12\n 3 \n").expect("numbers"), [12, 3]);
        assert!(numbers("12\nmany\n").is_err());
    }

    #[test]
    fn groups_add_up() {
        let file = |name: &str, group, brotli| File { name: name.into(), group, raw: 2_000, brotli };
        let sizes = Sizes {
            files: vec![
                file("a", Group::FirstLoad, 10),
                file("b", Group::FirstLoad, 20),
                file("c", Group::GpuWorker, 5),
            ],
        };
        assert_eq!(sizes.brotli(Group::FirstLoad), 30);
        assert_eq!(sizes.brotli(Group::OnDemand), 0);
        assert!(sizes.table().contains("= all of it"), "{}", sizes.table());
    }
}
