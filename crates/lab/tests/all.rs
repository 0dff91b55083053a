//! The integration tests, in one program: each program more would link all that lies below once more.
#![allow(missing_docs)]

mod admission;
mod common;
mod exact;
mod export;
mod findings;
mod first;
mod guesses;
mod knee;
mod live;
mod presets;
mod remedies;
mod replay;
mod scaling;
mod schema;
mod session;
mod storms;
mod sweep;
mod traffic;
mod verdicts;
