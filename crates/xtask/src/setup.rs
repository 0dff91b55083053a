//! What must be on the machine before a chore can run, found or installed.
//!
//! A chore states its [`Needs`]; [`prepare`] answers with what was found, as paths and versions, and installs only what
//! is missing. What is there is recognised by asking it, never by a note of an earlier run: a note can lie.

pub(crate) mod browser;
mod debian;
mod node;
pub(crate) mod toolchain;
pub(crate) mod tools;

use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::process::{Command, path_with};
use crate::table;
use browser::Browser;
use toolchain::Toolchain;

/// What a chore needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// A toolchain that compiles for wasm32.
    pub(crate) wasm: bool,
    /// Clippy for that toolchain.
    pub(crate) clippy: bool,
    /// Trunk and wasm-bindgen.
    pub(crate) bundler: bool,
    /// wasm-pack and wasm-bindgen's test runner.
    pub(crate) wasm_pack: bool,
    /// Chromium or Chrome with its driver.
    pub(crate) browser: bool,
    /// Node.js and the packages of the end-to-end tests.
    pub(crate) node: bool,
}

impl Needs {
    pub(crate) const NONE: Self =
        Self { wasm: false, clippy: false, bundler: false, wasm_pack: false, browser: false, node: false };
    pub(crate) const WASM: Self = Self { wasm: true, ..Self::NONE };
    pub(crate) const LINT: Self = Self { clippy: true, ..Self::WASM };
    pub(crate) const PAGE: Self = Self { bundler: true, ..Self::WASM };
    pub(crate) const WEIGHED: Self = Self { node: true, ..Self::PAGE };
    pub(crate) const WASM_TESTS: Self = Self { wasm_pack: true, browser: true, ..Self::WASM };
    pub(crate) const E2E: Self = Self { browser: true, node: true, ..Self::PAGE };
    pub(crate) const ALL: Self =
        Self { wasm: true, clippy: true, bundler: true, wasm_pack: true, browser: true, node: true };

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            wasm: self.wasm || other.wasm,
            clippy: self.clippy || other.clippy,
            bundler: self.bundler || other.bundler,
            wasm_pack: self.wasm_pack || other.wasm_pack,
            browser: self.browser || other.browser,
            node: self.node || other.node,
        }
    }
}

/// What was found or installed.
#[derive(Debug)]
pub(crate) struct Prepared {
    toolchain: Option<Toolchain>,
    browser: Option<Browser>,
}

impl Prepared {
    /// `program`, set to compile for wasm32 and to find our tools first.
    pub(crate) fn wasm(&self, context: &Context, program: &str) -> Result<Command> {
        let toolchain = self.toolchain.as_ref().context("no wasm toolchain was prepared")?;
        // The tools folder stands first, so that trunk and wasm-pack find the version this repository wants.
        let command = toolchain.apply(Command::new(program)).env("PATH", path_with(&context.tools().join("bin"))?);
        Ok(command.env("CARGO_TARGET_DIR", &context.target).dir(&context.root))
    }

    pub(crate) fn browser(&self) -> Result<&Browser> {
        self.browser.as_ref().context("no browser was prepared")
    }
}

/// Finds or installs what `needs` names, and says in one line what it has.
pub(crate) fn prepare(context: &Context, needs: Needs) -> Result<Prepared> {
    let start = Instant::now();
    let mut have: Vec<String> = Vec::new();
    let toolchain = if needs.wasm { Some(toolchain::prepare(context, needs.clippy)?) } else { None };
    if let Some(found) = &toolchain {
        have.push(format!("wasm32 by {found}"));
    }
    have.extend(tools::prepare(context, needs)?);
    let browser = if needs.browser { Some(browser::prepare()?) } else { None };
    if needs.browser {
        browser::prepare_firefox()?;
    }
    if let Some(found) = &browser {
        have.push(found.to_string());
    }
    if needs.node {
        have.push(node::prepare(context)?);
    }
    if !have.is_empty() {
        println!("set up: {} ({})", have.join(", "), table::duration(start.elapsed()));
    }
    Ok(Prepared { toolchain, browser })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_add_up() {
        assert_eq!(Needs::NONE.and(Needs::NONE), Needs::NONE);
        assert_eq!(Needs::LINT.and(Needs::WASM_TESTS).and(Needs::E2E), Needs::ALL);
        assert!(!Needs::PAGE.and(Needs::LINT).browser);
    }
}
