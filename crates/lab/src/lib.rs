//! Experiments: a spec in, a report out.
//!
//! The lab puts workload and fleet together, runs every policy of a spec on the same arrivals, and says what happened in
//! numbers, sentences and pictures. It is the heart of the worker and of the command line alike. It contains no tensor library: a run with
//! the real model is handed an [`servelab_engine::Executor`].
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | [`Session`]: a run that can be advanced, looked into at any instant, saved and resumed |
//! | [`calibrate`] | measuring a device and fitting the cost model to it |
//! | [`report`] | [`servelab_spec::Report`] from records |
//! | [`prediction`] | fitted against measured, for a live run |
//! | [`chart`] | the same SVG on host and wasm |
//! | [`sweep`] | an experiment at many points and seeds, cell by cell |
//! | [`replay`] | a stream of prompts against one cache, without a clock |
//! | [`traffic`] | what a recorded trace looks like, and a fleet for it |
//! | [`knee`] | the highest rate at which a policy keeps the limits |
//! | [`recovery`] | whether a fleet that was pushed down is up again |
//! | [`presets`], [`costs`], [`catalog`] | what can be chosen |
//! | [`configuration`] | a policy as its project's own configuration |
//! | [`export`] | a run as a trace, as metrics, as text |
//! | [`startup`] | a cold start: its stages from settings, what its probes make of it, what weights take at least |
//! | [`signals`] | which signal sees too much load coming, and how long before |
//! | [`writing`] | one replica that writes text, step by step |
//! | [`stats`], [`fit`], [`words`] | quantiles and intervals, least squares, numbers in words |

mod admission;
pub mod calibrate;
pub mod catalog;
pub mod chart;
pub mod configuration;
pub mod costs;
pub mod error;
pub mod export;
pub mod fit;
pub mod knee;
mod ledger;
pub mod lessons;
pub mod prediction;
pub mod presets;
pub mod recovery;
pub mod replay;
pub mod report;
pub mod session;
pub mod signals;
mod situation;
mod sketch;
pub mod startup;
pub mod stats;
mod storm;
pub mod sweep;
pub mod traffic;
pub mod words;
pub mod writing;

pub use error::RunError;
pub use session::{Progress, Session, run_priced};
