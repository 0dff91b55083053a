//! One replica, exactly: requests in, step plans out, results back in.
//!
//! The engine is sans-IO. It knows no clock, no browser and no tensor library: [`Engine::plan`] says which step to run,
//! somebody runs it (a model) or prices it ([`cost`]), and [`Engine::commit`] takes the tokens and tells what
//! happened. Between the two it accepts arrivals, cancellations and aborts.
//!
//! | module | holds |
//! |---|---|
//! | [`time`] | [`Nanos`] and [`Picos`]: integer virtual time |
//! | [`random`] | counter-based random streams |
//! | [`prompt`] | [`BlockKey`] chains and prompts |
//! | [`request`] | what the engine is asked to serve |
//! | [`plan`] | [`StepPlan`], [`StepOutput`]: the contract with executors |
//! | [`executor`] | the trait of whoever computes steps |
//! | [`cost`] | the cost model, exact in picoseconds |
//! | [`config`] | [`EngineConfig`] |
//! | [`engine`] | [`Engine`]: submit, cancel, plan; views and statistics |
//! | `commit` | how a step ends: committed or aborted |
//! | `scheduler` | which sequences the next step computes |
//! | `jump` | runs of equal decode steps |
//! | `pool`, `cache`, `kv` | reference counts and free queue; keys; the two together |
//! | `adapters` | LoRA adapters in their slots |
//! | `fetch` | K and V that come from outside while a sequence waits |
//! | `queue` | limits of the waiting queue |
//! | `sequence` | what is kept of each sequence in flight |
//! | [`events`], [`stats`], [`error`] | what the engine tells |
//! | [`invariants`] | what always holds |
//! | [`hash`] | maps that are looked up and never iterated |
//! | `saved` | restoring a saved engine |

#![deny(clippy::iter_over_hash_type)]

mod adapters;
mod cache;
mod commit;
pub mod config;
pub mod cost;
pub mod engine;
pub mod error;
pub mod events;
pub mod executor;
mod fetch;
pub mod hash;
pub mod invariants;
mod jump;
mod kv;
pub mod plan;
mod pool;
pub mod prompt;
mod queue;
pub mod random;
pub mod request;
mod saved;
mod scheduler;
mod sequence;
pub mod stats;
pub mod time;

pub use config::{ConfigError, END_OF_TEXT, EngineConfig};
pub use cost::{CostClock, CostModel, RunCost};
pub use engine::Engine;
pub use error::{CommitError, Refusal};
pub use events::{EngineEvent, FinishReason};
pub use executor::{ExecuteError, Executor};
pub use invariants::InvariantViolation;
pub use kv::{BlockView, KvChange};
pub use plan::{PlanItem, StepOutput, StepPlan, StepWork};
pub use prompt::{BlockKey, Prompt, continuation_keys, output_key};
pub use queue::{Pace, QueueConfig};
pub use request::{Sampling, SequenceId, SequenceRequest};
pub use sequence::SequenceView;
pub use stats::EngineStats;
pub use time::{Nanos, Picos};
