//! The integration tests, in one program: each program more would link all that lies below once more.
#![allow(missing_docs)]

mod book;
mod changes;
mod claims_cache_aware;
mod claims_clients;
mod claims_llm_d;
mod claims_plain;
mod clients;
mod common;
mod executed;
mod gateway;
mod invariants;
mod jumps;
mod queueing;
mod restore;
mod scaling;
mod script;
mod sessions;
mod store;
mod storms;
mod tape;
mod tick;
