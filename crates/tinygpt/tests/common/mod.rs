//! What the tests of every device share: an oracle, hand-made step plans, and one suite of promises.
//!
//! A device's test file makes its kernels and calls the functions of [`suite`]; see `tests/cpu.rs`.

#![allow(dead_code, clippy::unwrap_used)]

pub mod desk;
pub mod oracle;
pub mod served;
pub mod suite;
