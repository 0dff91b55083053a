//! What a step costs:
//! `a + b·uncached prefill tokens + c·Σ(new token × its context) + d·decoding sequences + e·Σ context`.
//!
//! Coefficients are integer picoseconds, so costs add up exactly and a run of k equal decode steps has a closed form:
//! the decode context grows by the batch each step, hence Σ = k·first + e·batch·k(k−1)/2.

use crate::plan::StepWork;
use crate::time::{Nanos, Picos};
use serde::{Deserialize, Serialize};
use servelab_spec::experiment::Coefficients;

/// The cost model in integer picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostModel {
    /// a: every step.
    pub step: u64,
    /// b: a prefill token.
    pub prefill_token: u64,
    /// c: a prefill token for each token of its context.
    pub prefill_context: u64,
    /// d: a decoding sequence.
    pub decode_sequence: u64,
    /// e: a token of context that a decoding sequence reads.
    pub decode_context: u64,
    /// An adapter loaded before the step.
    #[serde(default)]
    pub adapter_load: u64,
}

impl CostModel {
    /// From microseconds, rounded to the picosecond. Values were validated with the spec.
    pub fn from_coefficients(us: &Coefficients) -> Self {
        let picos = |us: f64| libm::round(us.clamp(0.0, 1e9) * 1e6) as u64;
        CostModel {
            step: picos(us.step_us),
            prefill_token: picos(us.prefill_token_us),
            prefill_context: picos(us.prefill_context_us),
            decode_sequence: picos(us.decode_sequence_us),
            decode_context: picos(us.decode_context_us),
            adapter_load: 0,
        }
    }

    /// Everything times `factor`, rounded to the picosecond.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let times = |picos: u64| libm::round(picos as f64 * factor.clamp(0.0, 1e6)) as u64;
        CostModel {
            step: times(self.step),
            prefill_token: times(self.prefill_token),
            prefill_context: times(self.prefill_context),
            decode_sequence: times(self.decode_sequence),
            decode_context: times(self.decode_context),
            adapter_load: times(self.adapter_load),
        }
    }

    /// One step; at least 1 ps, so that time moves.
    pub fn step(&self, work: &StepWork) -> Picos {
        self.run(work, 1)
    }

    /// What computing `len` prompt tokens from position `start` adds to the steps they are in; the steps themselves left out.
    pub fn prefill(&self, start: u32, len: u32) -> Picos {
        let mut work = StepWork::default();
        work.add_prefill(start, len);
        let cost = u128::from(self.prefill_token) * u128::from(work.prefill_tokens)
            + u128::from(self.prefill_context) * u128::from(work.prefill_context);
        Picos(u64::try_from(cost).unwrap_or(u64::MAX))
    }

    /// `repeat` equal decode steps, the first of which does `work`.
    pub fn run(&self, work: &StepWork, repeat: u32) -> Picos {
        let repeat = u128::from(repeat);
        let first = u128::from(self.step)
            + u128::from(self.prefill_token) * u128::from(work.prefill_tokens)
            + u128::from(self.prefill_context) * u128::from(work.prefill_context)
            + u128::from(self.decode_sequence) * u128::from(work.decode_sequences)
            + u128::from(self.decode_context) * u128::from(work.decode_context)
            + u128::from(self.adapter_load) * u128::from(work.adapter_loads);
        let growth = u128::from(self.decode_context)
            * u128::from(work.decode_sequences)
            * (repeat * repeat.saturating_sub(1) / 2);
        let total = first.max(1) * repeat + growth;
        Picos(u64::try_from(total).unwrap_or(u64::MAX))
    }

    /// Of a run of `repeat` equal steps, how many have begun when `elapsed` has passed since its start: the step in
    /// progress, counted from 1. A step that ends at this very instant is still in progress. `clock` is the
    /// replica's, as it was at the start.
    pub fn steps_begun(&self, work: &StepWork, repeat: u32, clock: &CostClock, elapsed: Nanos) -> u32 {
        let (mut begun, mut most) = (1, repeat.max(1));
        while begun < most {
            let middle = begun + (most - begun) / 2;
            if clock.preview(self.run(work, middle)) >= elapsed { most = middle } else { begun = middle + 1 }
        }
        begun
    }
}

/// Turns picoseconds into the nanoseconds of a replica's clock, carrying the remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostClock {
    remainder_ps: u64,
}

impl CostClock {
    /// Nanoseconds to add to the clock for `cost`, the remainder kept for later.
    pub fn charge(&mut self, cost: Picos) -> Nanos {
        let total = cost.0.saturating_add(self.remainder_ps);
        self.remainder_ps = total % 1000;
        Nanos(total / 1000)
    }

    /// What [`CostClock::charge`] would return, without charging.
    pub fn preview(&self, cost: Picos) -> Nanos {
        Nanos(cost.0.saturating_add(self.remainder_ps) / 1000)
    }
}
