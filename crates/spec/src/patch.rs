//! Dotted keys.
