//! The lab inside a Web Worker.
//!
//! | module | holds |
//! |---|---|
//! | [`devices`] | [`Devices`]: who computes steps here; the one thing in which workers differ |
//! | [`desk`] | [`Desk`]: messages in, messages out, runs in slices; no browser in it, so that it is tested on the host |
//! | `browser` | the loop around it: messages, yielding, panics (wasm only) |
//! | `memory` | the allocator, growing in larger pieces than the usual one (wasm only) |
//! | [`cpu`] | TinyGPT on the CPU (feature `cpu`) |
//!
//! A worker is one line: `browser::serve(|| MyDevices::new())`. It works in slices of some ten milliseconds and lets messages through
//! between them, so a running worker draws frames and hears a cancel.

#[cfg(target_arch = "wasm32")]
pub mod browser;
#[cfg(feature = "cpu")]
pub mod cpu;
pub mod desk;
pub mod devices;
#[cfg(target_arch = "wasm32")]
mod memory;

pub use desk::Desk;
pub use devices::{Devices, OpenError, Opened, Priced, Scribe};
