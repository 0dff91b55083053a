//! The integration tests, in one program: each program more would link all that lies below once more.
#![allow(missing_docs)]

mod adapters;
mod common;
mod content;
mod cost;
mod fetch;
mod golden;
mod jump;
mod properties;
mod queue;
mod random;
mod reference;
