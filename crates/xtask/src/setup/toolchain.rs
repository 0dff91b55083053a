//! A Rust toolchain that compiles and links for `wasm32-unknown-unknown`.
//!
//! Three ways, in this order: the toolchain that an earlier set-up linked, the active toolchain with the target
//! installed (by `rustup target add`, or by the system's packages), Debian's packages. The linked one stands first
//! because its presence says how this machine was set up, and changing compilers would recompile everything.
//! Readiness is shown by compiling and linking a small library that uses std and libtest.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::debian;
use crate::context::Context;
use crate::process::{Command, find};
use crate::version::Version;

/// The target of everything that runs in the browser.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// The name under which Debian's toolchain is linked into rustup.
pub(crate) const LINKED: &str = "servelab-wasm";

/// How long `rustup target add` may take; it fetches some 30 MB.
const RUSTUP_LIMIT: Duration = Duration::from_secs(180);

/// The toolchain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// rustup's name for it; `None` is the active one.
    name: Option<&'static str>,
    version: Option<Version>,
}

impl Toolchain {
    /// Makes `command` use this toolchain.
    pub(crate) fn apply(&self, command: Command) -> Command {
        select(self.name, command)
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rustc ")?;
        match self.version {
            Some(version) => write!(f, "{version}")?,
            None => f.write_str("of unknown version")?,
        }
        self.name.map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// `SERVELAB_WASM=debian` or `=rustup` names the way instead of finding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Debian,
    Rustup,
}

/// What is known before anything is installed.
#[derive(Clone, Copy, Debug)]
struct Known {
    wanted: Option<Way>,
    linked_ready: bool,
    active_ready: bool,
    has_rustup: bool,
    is_debian: bool,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    UseLinked,
    UseActive,
    AddTarget { or_debian: bool },
    InstallDebian,
    GiveUp,
}

fn decide(known: Known) -> Plan {
    match known {
        Known { wanted: None | Some(Way::Debian), linked_ready: true, .. } => Plan::UseLinked,
        Known { wanted: None | Some(Way::Rustup), active_ready: true, .. } => Plan::UseActive,
        Known { wanted: Some(Way::Debian), is_debian: true, .. } => Plan::InstallDebian,
        Known { wanted: Some(Way::Rustup), has_rustup: true, .. } => Plan::AddTarget { or_debian: false },
        Known { wanted: None, has_rustup: true, is_debian, .. } => Plan::AddTarget { or_debian: is_debian },
        Known { wanted: None, is_debian: true, .. } => Plan::InstallDebian,
        _ => Plan::GiveUp,
    }
}

fn way(value: Option<&str>) -> Result<Option<Way>> {
    match value {
        None | Some("" | "auto") => Ok(None),
        Some("debian") => Ok(Some(Way::Debian)),
        Some("rustup") => Ok(Some(Way::Rustup)),
        Some(other) => bail!("SERVELAB_WASM is {other:?}; auto, debian and rustup are known"),
    }
}

/// Finds the toolchain or installs one, with clippy when `clippy` says so.
pub(crate) fn prepare(context: &Context, clippy: bool) -> Result<Toolchain> {
    let has_rustup = find("rustup").is_some();
    let known = Known {
        wanted: way(std::env::var("SERVELAB_WASM").ok().as_deref())?,
        linked_ready: has_rustup && links_wasm(context, Some(LINKED)),
        active_ready: links_wasm(context, None),
        has_rustup,
        is_debian: Path::new("/etc/debian_version").exists() && find("apt-get").is_some(),
    };
    let name = match decide(known) {
        Plan::UseLinked => Some(LINKED),
        Plan::UseActive => None,
        Plan::AddTarget { or_debian } => add_target(context, or_debian)?,
        Plan::InstallDebian => debian::install(context)?,
        Plan::GiveUp => bail!(
            "the Rust here cannot compile for {TARGET}: install rustup and run `rustup target add {TARGET}`, or install \
             your system's package of that target's standard library"
        ),
    };
    if clippy && !has_clippy(name) {
        add_clippy(name)?;
        if !links_wasm(context, name) {
            // The package may have brought a newer compiler along; its library is then built anew.
            debian::install(context)?;
        }
    }
    let version = select(name, Command::new("rustc")).arg("--version").read().ok();
    Ok(Toolchain { name, version: version.as_deref().and_then(Version::find) })
}

fn add_target(context: &Context, or_debian: bool) -> Result<Option<&'static str>> {
    println!("adding the target {TARGET} to the active toolchain");
    let added = Command::new("rustup").args(["target", "add", TARGET]).succeeds_within(RUSTUP_LIMIT);
    if added && links_wasm(context, None) {
        return Ok(None);
    }
    if or_debian {
        println!("rustup cannot fetch it here; Debian's packages will do");
        return debian::install(context);
    }
    bail!("`rustup target add {TARGET}` did not succeed; run it by hand to see why")
}

fn has_clippy(name: Option<&str>) -> bool {
    select(name, Command::new("cargo")).args(["clippy", "--version"]).read().is_ok()
}

fn add_clippy(name: Option<&str>) -> Result<()> {
    if name.is_some() {
        return debian::packages(&[debian::CLIPPY]);
    }
    println!("adding clippy to the active toolchain");
    let added = Command::new("rustup").args(["component", "add", "clippy"]).succeeds_within(RUSTUP_LIMIT);
    if added { Ok(()) } else { bail!("no clippy: run `rustup component add clippy`") }
}

fn select(name: Option<&str>, command: Command) -> Command {
    match name {
        Some(name) => command.env("RUSTUP_TOOLCHAIN", name),
        None => command,
    }
}

/// Does the toolchain compile and link a wasm library that uses std, libtest and `panic=abort`?
pub(super) fn links_wasm(context: &Context, name: Option<&str>) -> bool {
    if std::fs::create_dir_all(&context.cache).is_err() {
        return false;
    }
    let out = context.cache.join("probe.wasm");
    let probe = "#![feature(test)] extern crate test; #[unsafe(no_mangle)] pub extern \"C\" fn probe(n: u32) -> usize \
                 { vec![test::black_box(n); 3].len() }";
    let ready = select(name, Command::new("rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["--target", TARGET, "--edition", "2024", "--crate-type", "cdylib", "--crate-name", "probe"])
        .args(["-Cpanic=abort", "-o"])
        .arg(&out)
        .arg("-")
        .accepts(probe);
    let _ = std::fs::remove_file(out);
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Known =
        Known { wanted: None, linked_ready: false, active_ready: false, has_rustup: true, is_debian: false };

    #[test]
    fn what_is_there_is_used() {
        assert_eq!(decide(Known { linked_ready: true, active_ready: true, ..NOTHING }), Plan::UseLinked);
        assert_eq!(decide(Known { active_ready: true, is_debian: true, ..NOTHING }), Plan::UseActive);
        assert_eq!(decide(Known { active_ready: true, has_rustup: false, ..NOTHING }), Plan::UseActive);
    }

    #[test]
    fn what_is_missing_is_fetched_where_it_can_be() {
        assert_eq!(decide(NOTHING), Plan::AddTarget { or_debian: false });
        assert_eq!(decide(Known { is_debian: true, ..NOTHING }), Plan::AddTarget { or_debian: true });
        assert_eq!(decide(Known { is_debian: true, has_rustup: false, ..NOTHING }), Plan::InstallDebian);
        assert_eq!(decide(Known { has_rustup: false, ..NOTHING }), Plan::GiveUp);
    }

    #[test]
    fn a_wish_is_kept() {
        let debian = Known { wanted: Some(Way::Debian), is_debian: true, ..NOTHING };
        assert_eq!(decide(Known { active_ready: true, ..debian }), Plan::InstallDebian);
        assert_eq!(decide(Known { linked_ready: true, ..debian }), Plan::UseLinked);
        assert_eq!(decide(Known { is_debian: false, ..debian }), Plan::GiveUp);
        let rustup = Known { wanted: Some(Way::Rustup), linked_ready: true, is_debian: true, ..NOTHING };
        assert_eq!(decide(rustup), Plan::AddTarget { or_debian: false });
        assert_eq!(decide(Known { active_ready: true, ..rustup }), Plan::UseActive);
    }

    #[test]
    fn unknown_wishes_are_refused_by_name() {
        assert_eq!(way(None).ok(), Some(None));
        assert_eq!(way(Some("rustup")).ok(), Some(Some(Way::Rustup)));
        let error = way(Some("nix")).expect_err("unknown");
        assert!(error.to_string().contains("\"nix\"") && error.to_string().contains("debian"), "{error}");
    }

    #[test]
    fn a_toolchain_that_does_not_exist_is_not_ready() {
        let context = Context::from_environment().expect("runs inside the repository");
        assert!(!links_wasm(&context, Some("servelab-no-such-toolchain")));
    }
}
