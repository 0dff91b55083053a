//! The script that keeps the built page working without a network: which files one build has, and what it is called.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest, Sha256};

/// Its name in the built folder.
pub(super) const SCRIPT: &str = "sw.js";

/// Where it is written down, from the repository's top.
const TEMPLATE: &str = "www/sw.js";

/// What a visit needs that no name in the index tells: scripts of workers are named by the page's wasm.
const FIRST: [&str; 3] = ["worker.js", "servelab-worker.js", "servelab-worker_bg.wasm"];

/// Writes the script for what lies in `dist`, and lets the index name it.
pub(super) fn write(root: &Path, dist: &Path) -> Result<()> {
    let template = fs::read_to_string(root.join(TEMPLATE)).with_context(|| format!("{TEMPLATE} is not readable"))?;
    let index = dist.join("index.html");
    let page = fs::read_to_string(&index)?;
    // The boot script's tag, in whatever order a minifier has put what it says.
    let page = page.replacen(" data-js=", &format!(" data-offline=\"./{SCRIPT}\" data-js="), 1);
    ensure!(page.contains(SCRIPT), "the built index has no boot script to name {SCRIPT} in");
    fs::write(&index, &page)?;
    let mut files = Vec::new();
    list(dist, "", &mut files)?;
    // What others are served: nothing that the page itself asks for.
    files.retain(|name| ![SCRIPT, super::SINGLE, "embed.js"].contains(&name.as_str()) && !name.starts_with("schema/"));
    let (first, later) = files.iter().map(String::as_str).partition(|name: &&str| is_first(name, &page));
    fs::write(dist.join(SCRIPT), filled(&template, &build_of(dist, &files)?, first, later))?;
    Ok(())
}

fn is_first(name: &str, page: &str) -> bool {
    name == "index.html" || FIRST.contains(&name) || page.contains(name)
}

fn filled(template: &str, build: &str, first: Vec<&str>, later: Vec<&str>) -> String {
    // The folder itself is the page too.
    let first: Vec<&str> = std::iter::once("./").chain(first).collect();
    let listed = |names: &[&str]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let template = template.replace("@BUILD@", build).replace("\"@FIRST@\"", &listed(&first));
    template.replace("\"@LATER@\"", &listed(&later))
}

/// Files under a folder by their names from it, with slashes, in order.
fn list(folder: &Path, before: &str, out: &mut Vec<String>) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{name}/"), out)?;
        } else {
            out.push(name);
        }
    }
    Ok(())
}

/// A build is called after all that is in it.
fn build_of(dist: &Path, files: &[String]) -> Result<String> {
    let mut hash = Sha256::new();
    for name in files {
        hash.update(name.as_bytes());
        hash.update(Sha256::digest(fs::read(dist.join(name))?));
    }
    Ok(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_named_after_its_content_and_lists_what_a_visit_needs() {
        let folder = std::env::temp_dir().join(format!("servelab-offline-{}", std::process::id()));
        let (root, dist) = (folder.join("root"), folder.join("dist"));
        fs::create_dir_all(root.join("www")).expect("a temporary folder");
        fs::create_dir_all(dist.join("model")).expect("a temporary folder");
        fs::write(root.join(TEMPLATE), include_str!("../../../../www/sw.js")).expect("writes");
        let index = "<link href=./a-1.css><script data-js=./page.js id=boot src=./boot.js></script>";
        for (name, text) in
            [("a-1.css", "a"), ("boot.js", ""), ("worker.js", ""), ("model/w.bin", "w"), ("embed.js", "")]
        {
            fs::write(dist.join(name), text).expect("writes");
        }
        let built = || {
            fs::write(dist.join("index.html"), index).expect("writes");
            write(&root, &dist).expect("is written");
            fs::read_to_string(dist.join(SCRIPT)).expect("is there")
        };
        let script = built();
        assert!(
            script.contains("FIRST = [\"./\", \"a-1.css\", \"boot.js\", \"index.html\", \"worker.js\"];"),
            "{script}"
        );
        assert!(script.contains("LATER = [\"model/w.bin\"];") && !script.contains('@'), "{script}");
        assert!(fs::read_to_string(dist.join("index.html")).expect("is there").contains("data-offline=\"./sw.js\""));
        assert_eq!(script, built(), "the same content, the same build");
        fs::write(dist.join("model/w.bin"), "other").expect("writes");
        assert_ne!(script, built());
        fs::remove_dir_all(&folder).expect("removes");
    }
}
