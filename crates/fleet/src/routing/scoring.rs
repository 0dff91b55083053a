//! Scorers, filters and pickers: the parts that llm-d's router is put together from.
//!
//! `total = Σ weight · clamp01(score)` over the candidates that the filters leave; a picker chooses by the totals.
//!
//! | module | holds |
//! |---|---|
//! | [`prefixes`] | how much of the prompt each candidate is believed to hold: approximate or precise |
//! | [`scorers`] | the scorers, each a function of one decision |
//! | [`filters`] | prefix affinity with its valve, saturation |
//! | [`picker`] | highest total, softmax, weighted random |
//! | [`pipeline`] | one after the other: the policy |
//!
//! Source: llm-d router, `pkg/epp/framework/plugins/scheduling`.

pub(super) mod filters;
pub(super) mod picker;
pub(super) mod pipeline;
pub(super) mod prefixes;
pub(super) mod scorers;
