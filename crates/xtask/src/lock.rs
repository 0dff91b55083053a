//! `Cargo.lock`: which version of a crate the workspace uses.

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::version::Version;

/// The one locked version of `name`.
pub(crate) fn version_of(context: &Context, name: &str) -> Result<Version> {
    let path = context.root.join("Cargo.lock");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    match versions(&text, name).as_slice() {
        [one] => Ok(*one),
        [] => bail!("{name} is not in Cargo.lock"),
        several => bail!("Cargo.lock holds {name} {} times; one version is wanted", several.len()),
    }
}

/// Cargo writes the file itself, name and version of a package on two lines that follow each other.
fn versions(text: &str, name: &str) -> Vec<Version> {
    let wanted = format!("name = \"{name}\"");
    let mut lines = text.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line == wanted
            && let Some(next) = lines.next()
            && let Some(version) = next.strip_prefix("version = \"").and_then(|rest| rest.strip_suffix('"'))
        {
            found.extend(Version::find(version));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.130\"\nsource = \"x\"\n\
        dependencies = [\n \"wasm-bindgen-macro\",\n]\n\n[[package]]\nname = \"wasm-bindgen-macro\"\nversion = \"0.2.129\"\n\
        \n[[package]]\nname = \"getrandom\"\nversion = \"0.3.1\"\n\n[[package]]\nname = \"getrandom\"\nversion = \"0.4.0\"\n";

    #[test]
    fn finds_exact_names_only() {
        assert_eq!(versions(LOCK, "wasm-bindgen"), [Version::new(0, 2, 130)]);
        assert_eq!(versions(LOCK, "getrandom").len(), 2);
        assert!(versions(LOCK, "wasm").is_empty());
    }

    #[test]
    fn reads_the_workspace_lock() {
        let context = Context::from_environment().expect("runs inside the repository");
        assert!(version_of(&context, "wasm-bindgen").is_ok());
        assert!(version_of(&context, "servelab-no-such-crate").is_err());
    }
}
