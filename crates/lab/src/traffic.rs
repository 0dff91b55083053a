//! What a trace looks like before it is run, and the experiment that asks which router is best for it.
//!
//! | module | holds |
//! |---|---|
//! | [`analysis`] | [`Analysis`]: a trace read once, in pieces, into a [`Traffic`] |
//! | `stack` | hits of an LRU cache of any size, in one pass |
//! | [`report`] | [`Traffic`]: figures of a trace |
//! | [`findings`] | what will matter, in sentences |
//! | [`charts`] | rate over time, lengths, hits against cache size |
//! | [`fit`] | a generator with the figures of a trace |
//! | [`mod@propose`] | a fleet for a trace |
//! | [`view`] | all of it as the page shows it |

pub mod analysis;
pub mod charts;
pub mod findings;
pub mod fit;
pub mod propose;
pub mod report;
mod stack;
pub mod view;

pub use analysis::Analysis;
pub use propose::propose;
pub use report::Traffic;
