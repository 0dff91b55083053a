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

pub mod cost;
pub mod executor;
pub mod plan;
pub mod prompt;
pub mod random;
pub mod request;
pub mod time;

pub use executor::{ExecuteError, Executor};
pub use plan::{PlanItem, StepOutput, StepPlan, StepWork};
pub use prompt::{BlockKey, Prompt};
pub use request::{Sampling, SequenceId, SequenceRequest};
pub use time::{Nanos, Picos};
