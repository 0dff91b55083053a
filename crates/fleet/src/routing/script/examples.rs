//! Scripts to start from.

use super::values::Tier;
use servelab_spec::catalog::ScriptExample;

/// A complete script.
pub(super) struct Example {
    name: &'static str,
    title: &'static str,
    /// Its text.
    pub(super) text: &'static str,
    /// What it reads.
    pub(super) tier: Tier,
}

/// The default first: it reads no more than every router has.
pub(super) static EXAMPLES: &[Example] = &[
    Example {
        name: "sticky_with_overflow",
        title: "Sticky by session, with overflow",
        text: include_str!("examples/sticky_with_overflow.rhai"),
        tier: Tier::Local,
    },
    Example {
        name: "prefix_minus_load",
        title: "Prefix match minus load",
        text: include_str!("examples/prefix_minus_load.rhai"),
        tier: Tier::Events,
    },
];

impl Example {
    /// For the catalog.
    pub(super) fn describe(&self) -> ScriptExample {
        ScriptExample {
            name: self.name.into(),
            title: self.title.into(),
            text: self.text.into(),
            tier: self.tier as u32,
        }
    }
}
