//! The simulator for programs in JavaScript; `package/` holds the scripts, types and tests around it.
//!
//! | module | holds |
//! |---|---|
//! | [`ask`] | what a program hands in, an object or an address, to a checked spec |
//! | [`work`] | [`work::Run`] and [`work::Sweep`]: advanced in pieces, a report as text at the end |
//! | `module` | both as JavaScript sees them (wasm only) |
//!
//! No clock and no event loop are in here: the script around it decides how long a piece is and lets others work in between.

pub mod ask;
#[cfg(target_arch = "wasm32")]
mod module;
pub mod work;
