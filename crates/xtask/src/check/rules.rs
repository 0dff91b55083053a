//! Who may depend on what. That the core compiles for wasm32 is seen where the package for JavaScript is built.

use anyhow::{Result, bail};

use super::Session;
use super::host::{cargo, packages};
use super::tally::Tally;
use crate::setup::toolchain::TARGET;

/// The crates that know neither browser nor tensor library.
const CORE: [&str; 5] = ["spec", "engine", "workload", "fleet", "lab"];

/// What the core must not reach, directly or through others; prefixes of crate names.
const NOT_IN_CORE: [&str; 8] = ["burn", "cubecl", "wgpu", "wasm-bindgen", "js-sys", "web-sys", "leptos", "tokio"];

/// What the page, and the package for JavaScript, must not reach.
const NOT_IN_PAGE: [&str; 3] = ["burn", "cubecl", "wgpu"];

/// Which of our crates each may name in its manifest. Arrows point up this table only.
const ARROWS: [(&str, &[&str]); 13] = [
    ("spec", &[]),
    ("engine", &["spec"]),
    ("tinygpt", &["spec", "engine"]),
    ("workload", &["spec", "engine"]),
    ("fleet", &["spec", "engine", "workload"]),
    ("lab", &["spec", "engine", "workload", "fleet"]),
    ("cli", &["spec", "engine", "tinygpt", "workload", "fleet", "lab"]),
    ("worker", &["spec", "engine", "tinygpt", "workload", "fleet", "lab"]),
    ("worker-gpu", &["spec", "engine", "tinygpt", "workload", "fleet", "lab", "worker"]),
    ("package", &["spec", "lab"]),
    ("browser", &["spec", "engine", "tinygpt", "workload", "fleet", "lab", "worker"]),
    ("web", &["spec"]),
    ("xtask", &[]),
];

/// What npm has locked for the end-to-end tests.
const NPM_LOCK: &str = "tests/e2e/package-lock.json";

pub(super) fn run(session: &Session<'_>) -> Result<Tally> {
    let host = host_triple()?;
    let mut tally = Tally::default();
    for name in CORE {
        for target in [host.as_str(), TARGET] {
            let names = tree(session, name, &["--target", target, "--all-features"])?;
            tally = tally.plus(&reached(name, target, &names, &NOT_IN_CORE));
        }
    }
    for name in ["web", "package"] {
        tally = tally.plus(&reached(name, TARGET, &tree(session, name, &["--target", TARGET])?, &NOT_IN_PAGE));
    }
    for (name, allowed) in ARROWS {
        let names = tree(session, name, &["--target", "all", "--all-features", "--depth", "1"])?;
        tally = tally.plus(&arrows(name, &names, allowed));
    }
    tally = tally.plus(&places(&std::fs::read_to_string(session.context.root.join(NPM_LOCK))?));
    println!("{} rules kept, {} broken", tally.passed, tally.failed);
    Ok(tally)
}

/// The names of the crates that `name` depends on when it is built, itself included.
fn tree(session: &Session<'_>, name: &str, options: &[&str]) -> Result<Vec<String>> {
    let command = packages(cargo(session).arg("tree"), [name]);
    // Locked: a lock file that is behind the manifests would be mended in silence, on every machine anew.
    let text =
        command.args(["--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]).args(options).read()?;
    Ok(crate_names(&text))
}

fn crate_names(tree: &str) -> Vec<String> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn reached(name: &str, target: &str, names: &[String], forbidden: &[&str]) -> Tally {
    if names.is_empty() {
        return Tally::failure(format!("cargo tree knows nothing of {name}"));
    }
    let bad = |found: &&String| forbidden.iter().any(|start| is_family(found, start));
    let mut found: Vec<&str> = names.iter().filter(bad).map(String::as_str).collect();
    found.sort_unstable();
    found.dedup();
    Tally::of(found.iter().map(|found| format!("{name} reaches {found} on {target}")).collect())
}

fn arrows(name: &str, names: &[String], allowed: &[&str]) -> Tally {
    let own = names.iter().filter_map(|found| found.strip_prefix("servelab-")).filter(|found| *found != name);
    let mut bad: Vec<&str> = own.filter(|found| !allowed.contains(found)).collect();
    bad.sort_unstable();
    bad.dedup();
    Tally::of(bad.iter().map(|found| format!("{name} may not use {found}")).collect())
}

/// The lock names packages and hashes; an address in it would bind every machine to one registry.
fn places(lock: &str) -> Tally {
    let bad =
        lock.lines().filter(|line| line.contains("\"resolved\"")).map(|line| format!("{NPM_LOCK}: {}", line.trim()));
    Tally::of(bad.collect())
}

/// `burn` and `burn-tensor`, but not `burnish`.
fn is_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

fn host_triple() -> Result<String> {
    let said = crate::process::Command::new("rustc").arg("-vV").read()?;
    match said.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(triple) => Ok(triple.to_owned()),
        None => bail!("`rustc -vV` names no host:\n{said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn trees_are_read_by_first_word() {
        let text = "servelab-engine v0.1.0 (path)\nserde v1.0.0\n\nserde_core v1.0.0 (*)\n";
        assert_eq!(crate_names(text), ["servelab-engine", "serde", "serde_core"]);
    }

    #[test]
    fn families_are_whole_words() {
        assert!(is_family("burn", "burn") && is_family("burn-tensor", "burn") && is_family("wgpu_core", "wgpu"));
        assert!(!is_family("burnish", "burn") && !is_family("aburn", "burn"));
    }

    #[test]
    fn forbidden_crates_are_named_once() {
        let tally = reached("engine", "host", &names(&["serde", "burn-core", "burn-core"]), &NOT_IN_CORE);
        assert_eq!(tally.problems, ["engine reaches burn-core on host"]);
        assert_eq!(reached("engine", "host", &names(&["serde"]), &NOT_IN_CORE).passed, 1);
        assert_eq!(reached("engine", "host", &[], &NOT_IN_CORE).failed, 1);
    }

    #[test]
    fn locks_name_no_place() {
        assert_eq!(places("{ \"version\": \"1.0.0\", \"integrity\": \"sha512-x\" }").passed, 1);
        assert_eq!(places("{\n \"resolved\": \"somewhere\"\n}").failed, 1);
    }

    #[test]
    fn arrows_point_up_only() {
        let found = names(&["servelab-engine", "servelab-spec", "servelab-fleet", "serde"]);
        assert_eq!(arrows("engine", &found, &["spec"]).problems, ["engine may not use fleet"]);
        assert_eq!(arrows("engine", &found, &["spec", "fleet"]).passed, 1);
    }
}
