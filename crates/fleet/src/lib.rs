//! Many replicas on one virtual clock.
//!
//! A [`Fleet`] is sans-IO. The driver calls [`Fleet::poll`]; the fleet moves its own clock from event to event and comes back
//! when the time asked for is reached, when all is done, or when a step must be executed ([`Poll::Execute`]): the driver
//! then computes [`Fleet::plan`] and hands the result to [`Fleet::executed`]. A priced fleet never asks.
//!
//! A step is executed when it is planned and committed at its virtual end, so replicas that share one device still each live on
//! a clock of their own. Between the two the replica takes arrivals; a priced replica may meanwhile be in a run of equal steps, which an
//! arrival cuts short at the first step boundary not before now. Jumping or not, every byte of the outcome is the same.
//!
//! A request passes client → gateway → router → replica, and a request is not an attempt:
//!
//! | module | holds |
//! |---|---|
//! | [`fleet`] | [`Fleet`] and [`Poll`]: the event loop |
//! | [`config`] | [`FleetConfig`] |
//! | [`clients`] | what clients do when an attempt fails: try again, hedge, give up |
//! | [`faults`] | what goes wrong for a while |
//! | [`gateway`] | what stands in front of the router: limits, gates and a queue |
//! | [`routing`] | the [`Policy`] trait, the policies and their registry |
//! | [`telemetry`] | signals and their freshness tiers |
//! | [`store`] | a store of KV blocks behind the replicas |
//! | [`overflow`] | a managed API that takes what can not be served in time |
//! | [`startup`] | the life cycle of replicas |
//! | [`replica`] | the replica models: engine, server and tick |
//! | [`record`] | what is told of each request and of each replica |
//! | [`error`] | what can go wrong |
//!
//! Invariants, checked in debug builds of every run ([`Fleet::check`]):
//!
//! | name | says | tested by |
//! |---|---|---|
//! | F1 conservation | every request that arrived ended exactly once or is in flight | `tests/invariants.rs` |
//! | F2 life cycle | arrival ≤ admission ≤ first token ≤ end, hence TTFT ≤ E2E | `tests/invariants.rs` |
//! | F3 clock | time never runs back | `tests/invariants.rs` |
//! | F4 work | no replica idles beside work it could start | `tests/invariants.rs` |
//! | F5 attempts | attempts = requests + retries + hedges | `tests/invariants.rs` |
//! | F6 lifetimes | replica-seconds = Σ lifetimes, and no replica is busy longer than it lives | `tests/invariants.rs` |
//! | F7 signals | kept incrementally = counted from scratch | `tests/invariants.rs` |
//! | F8 jumps | with runs of equal steps or without, the same outcome | `tests/jumps.rs` |
//! | F9 restore | a restored fleet goes on byte for byte | `tests/restore.rs` |
//! | F10 store | blocks written = held + evicted, no more held than there is room for, no token used that was not fetched | `tests/store.rs` |
//! | F11 attempts | each is accepted, refused, withdrawn, vanished or held; and succeeded, failed, timed out, lost, superseded or waited for | `tests/clients.rs` |
//! | F12 work | what servers have worked = useful + abandoned + lost + refusing | `tests/clients.rs` |
//! | F13 gateway | attempts it counts in flight = attempts at replicas; what it holds is in front of it and nowhere else | `tests/invariants.rs` |

#![deny(clippy::iter_over_hash_type)]

pub mod clients;
pub mod config;
pub mod error;
pub mod faults;
pub mod fleet;
pub mod gateway;
pub mod overflow;
pub mod record;
pub mod replica;
pub mod routing;
pub mod scaling;
pub mod startup;
pub mod store;
pub mod telemetry;

pub use config::{FleetConfig, ReplicaConfig};
pub use error::{FleetError, RestoreError};
pub use fleet::{Fleet, FleetState, Poll};
pub use record::{Counts, Fates, FirstSight, Outcome, Refusal, ReplicaStats, RequestRecord, Work};
pub use routing::{Policy, PolicyFault, registry};
