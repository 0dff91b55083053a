//! The tests that run inside a browser: `wasm-pack test --headless --chrome crates/browser`, once `cargo xtask test --only reports` has
//! written the host's reports that they compare with.
//!
//! Most of them are files of other crates, tested on the host too and included here by their path. They stand in a package of
//! their own for the sake of its dependencies: built for itself, each crate would have features of its own for `serde`,
//! `hashbrown` or `ahash`, and all that lies above them, the tensor library included, would be compiled again.
