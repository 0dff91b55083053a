//! The one schema of ServeLab: what an experiment is, what comes out of it, what
//! can be chosen, and what page and workers say to each other.
//!
//! | module | holds |
//! |---|---|
//! | [`experiment`] | [`Spec`]: everything that decides a run, and nothing else |
//! | [`validate`] | the limits of a spec, each error naming field, value and what is accepted |
//! | [`patch`] | dotted keys (`workload.rate=12`): the CLI's `--set` and the page's address |
//! | [`command`] | the command that runs a spec on a terminal |
//! | [`base64url`] | how a script's text travels in an address |
//! | [`report`] | [`Report`]: what a run says, one entry per policy |
//! | `schema` | the JSON Schema of spec and report, on the host only |
//! | [`sweep`] | [`sweep::SweepSpec`]: an experiment at every value of one or two settings; its report |
//! | [`knee`] | the highest rate at which limits are kept, and how it was found |
//! | [`coldstart`] | a cold start stage by stage, and what weights take at least |
//! | [`traffic`] | formats of recorded traffic, and what reading it found |
//! | [`table`], [`csv`] | tables as text for other programs and texts |
//! | [`catalog`] | [`Catalog`]: policies, presets and parameters with units, ranges and words |
//! | [`frame`] | [`frame::Frame`]: one picture of the fleet at one instant |
//! | [`writing`] | prompts for the model that writes, and what it shows while it works |
//! | [`protocol`] | messages between the page and its workers |
//! | [`wire`] | how they cross, and how JSON becomes types |
//!
//! This crate depends on nothing of ours, so the page can use it and stay small.

pub mod base64url;
pub mod catalog;
pub mod coldstart;
pub mod command;
pub mod csv;
pub mod experiment;
pub mod frame;
pub mod knee;
mod named;
pub mod patch;
pub mod protocol;
pub mod report;
#[cfg(not(target_arch = "wasm32"))]
pub mod schema;
pub mod signals;
pub mod sweep;
pub mod table;
pub mod traffic;
pub mod validate;
pub mod wire;
pub mod writing;

pub use catalog::Catalog;
pub use experiment::Spec;
pub use report::Report;
pub use validate::SpecError;

/// Version of the schema in this crate; a spec that states a newer one is refused.
pub const SCHEMA_VERSION: u32 = 1;

/// Seeds stay below 2⁵³ so that they cross JavaScript as plain numbers.
pub const MAX_SEED: u64 = (1 << 53) - 1;
