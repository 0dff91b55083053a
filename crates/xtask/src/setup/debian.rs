//! Debian: packages, and a wasm toolchain made of them where rustup can fetch nothing.
//!
//! Debian packages a current rustc for browsers (`rustc-web`) with its sources but without a wasm standard library.
//! That is built once from the packaged sources and put where rustc looks for it; rustup then knows the whole as a
//! linked toolchain. The library is never copied twice for one compiler: a second copy would be newer than
//! everything compiled against the first, and cargo would compile it all again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::toolchain::{LINKED, TARGET, links_wasm};
use crate::context::Context;
use crate::process::{Command, find, path_with};

/// The packages of the wasm toolchain; `lld-19` brings the linker.
const TOOLCHAIN: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19"];

/// Its linter.
pub(super) const CLIPPY: &str = "rust-web-clippy";

const LINKER: &str = "/usr/bin/wasm-ld-19";

/// Installs the toolchain and answers with its name; `None` when there is no rustup to link it into, and the active
/// compiler is Debian's own.
pub(super) fn install(context: &Context) -> Result<Option<&'static str>> {
    packages(&TOOLCHAIN)?;
    let name = find("rustup").map(|_| LINKED);
    if let Some(name) = name {
        Command::new("rustup").args(["toolchain", "link", name, "/usr"]).read()?;
    }
    let host = host_triple()?;
    link_linker(&host)?;
    if !links_wasm(context, name) {
        build_std(context)?;
    }
    if !links_wasm(context, name) {
        bail!(
            "Debian's rustc still cannot compile for {TARGET} after its standard library was built; try \
             `RUSTUP_TOOLCHAIN={LINKED} rustc --target {TARGET} --crate-type lib FILE` to see why"
        );
    }
    Ok(name)
}

/// Installs those of `names` that are missing.
pub(super) fn packages(names: &[&str]) -> Result<()> {
    let missing: Vec<&str> = names.iter().copied().filter(|name| !installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        bail!("Debian packages are missing; run `sudo apt-get install {}` and try again", missing.join(" "));
    }
    println!("installing Debian packages: {}", missing.join(" "));
    let apt = || Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
    // A list that is too old names files the archive no longer has; without any list nothing is found.
    apt().arg("update").read()?;
    apt().args(["install", "-y", "--no-install-recommends"]).args(&missing).read()?;
    Ok(())
}

/// Can this machine install Debian packages without asking anyone?
pub(super) fn can_install() -> bool {
    find("apt-get").is_some() && is_root()
}

fn installed(name: &str) -> bool {
    let status = Command::new("dpkg-query").args(["-W", "-f=${Status}", name]).read();
    status.is_ok_and(|text| text == "install ok installed")
}

fn is_root() -> bool {
    Command::new("id").arg("-u").read().is_ok_and(|text| text.trim() == "0")
}

fn host_triple() -> Result<String> {
    let said = Command::new("/usr/bin/rustc").arg("-vV").read()?;
    host_in(&said).with_context(|| format!("`rustc -vV` names no host:\n{said}"))
}

fn host_in(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

fn rustlib(triple: &str) -> PathBuf {
    Path::new("/usr/lib/rustlib").join(triple)
}

/// rustc asks for its own `rust-lld`, which Debian does not package; lld's wasm flavour under that name serves.
fn link_linker(host: &str) -> Result<()> {
    let folder = rustlib(host).join("bin");
    let link = folder.join("rust-lld");
    if link.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::os::unix::fs::symlink(LINKER, &link))
        .with_context(|| format!("cannot link {} to {LINKER}; run this once as root", link.display()))
}

fn build_std(context: &Context) -> Result<()> {
    println!("building the standard library for {TARGET} from Debian's sources, once (about two minutes)");
    let folder = context.cache.join("std-build");
    let library = rustlib(TARGET).join("lib");
    std::fs::create_dir_all(&library)
        .with_context(|| format!("cannot write {}; run this once as root", library.display()))?;
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(
        folder.join("Cargo.toml"),
        "[package]\nname = \"std-build\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n",
    )?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    let target = folder.join("target");
    Command::new("/usr/bin/cargo")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("PATH", path_with(Path::new("/usr/bin"))?)
        .env("RUSTC", "/usr/bin/rustc")
        // The compiler is a stable one; building its own library is what the switch is for.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target)
        // `test` is part of it because `wasm-pack test` links against it.
        .args(["build", "--release", "-Zbuild-std=std,panic_abort,test", "--target", TARGET])
        .dir(&folder)
        .run()?;
    clear_own(&library)?;
    let built = rlibs(&target.join(TARGET).join("release/deps"))?;
    for path in built.iter().filter(|path| !is_named(path, "libstd_build-")) {
        let name = path.file_name().with_context(|| format!("{} has no name", path.display()))?;
        std::fs::copy(path, library.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Removes the libraries of an earlier compiler, but none that a package owns.
fn clear_own(library: &Path) -> Result<()> {
    for path in rlibs(library)? {
        if Command::new("dpkg-query").arg("-S").arg(&path).read().is_err() {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn rlibs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rlib") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_named(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_read_from_rustc() {
        let said = "rustc 1.96.0 (x)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.96.0\n";
        assert_eq!(host_in(said).as_deref(), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(host_in("rustc 1.96.0\n"), None);
    }

    #[test]
    fn names_are_matched_from_their_start() {
        assert!(is_named(Path::new("/a/libstd_build-12.rlib"), "libstd_build-"));
        assert!(!is_named(Path::new("/a/libstd-12.rlib"), "libstd_build-"));
    }
}
