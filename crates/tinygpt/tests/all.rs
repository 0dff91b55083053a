//! The integration tests, in one program: each program more would link all that lies below once more.
#![allow(missing_docs)]

mod boot;
mod bpe;
mod common;
mod cpu;
mod shipped;
mod train;
