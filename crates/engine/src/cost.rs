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
        self.run_cost(work).of(repeat)
    }

    /// The two numbers that the cost of any number of such steps follows from.
    pub fn run_cost(&self, work: &StepWork) -> RunCost {
        let terms = [
            (self.prefill_token, work.prefill_tokens),
            (self.prefill_context, work.prefill_context),
            (self.decode_sequence, work.decode_sequences),
            (self.decode_context, work.decode_context),
            (self.adapter_load, work.adapter_loads),
        ];
        let growth = narrow(self.decode_context, work.decode_sequences);
        let first = terms.iter().try_fold(self.step, |sum, &(each, count)| sum.checked_add(narrow(each, count)?));
        if let (Some(first), Some(growth)) = (first, growth) {
            return RunCost::Narrow { first: first.max(1), growth };
        }
        let wide = |each: u64, count: u64| u128::from(each) * u128::from(count);
        let first = terms.iter().fold(u128::from(self.step), |sum, &(each, count)| sum + wide(each, count));
        RunCost::Wide { first: first.max(1), growth: wide(self.decode_context, work.decode_sequences) }
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

/// What k equal decode steps are charged: k·first + growth·k(k−1)/2.
///
/// Kept apart from the model because "how many of them are over by now" asks for many k of one run. Products of 128 bits are calls of a library on
/// wasm32, so what fits 64 bits is worked out in 64; which of the two it is never shows in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCost {
    /// Both numbers are picoseconds that fit 64 bits.
    Narrow {
        /// The first step.
        first: u64,
        /// What each step costs more than the one before.
        growth: u64,
    },
    /// The same, out of range.
    Wide {
        /// The first step.
        first: u128,
        /// What each step costs more than the one before.
        growth: u128,
    },
}

impl RunCost {
    /// `steps` steps; none are free.
    pub fn of(&self, steps: u32) -> Picos {
        if let Some(cost) = self.narrow(steps) {
            return Picos(cost);
        }
        let (first, growth) = self.wide();
        let steps = u128::from(steps);
        let total = first * steps + growth * (steps * steps.saturating_sub(1) / 2);
        Picos(u64::try_from(total).unwrap_or(u64::MAX))
    }

    /// The most steps, of at most `most`, whose end on `clock` is not after `elapsed` since their start.
    pub fn steps_over(&self, most: u32, clock: &CostClock, elapsed: Nanos) -> u32 {
        // Not after is before the next nanosecond. No run that fits 64 bits comes near where this stops to be exact.
        let limit = if elapsed.0 < 1 << 53 { (elapsed.0 + 1) * 1000 - clock.remainder_ps } else { u64::MAX };
        let (Some(all), &RunCost::Narrow { first, growth }) = (self.narrow(most), self) else {
            return self.search(most, clock, elapsed);
        };
        if all < limit {
            return most;
        }
        // The root of the quadratic is right but for its rounding, which the integers then mend.
        let half = growth as f64 / 2.0;
        let (linear, limit_f) = (first as f64 - half, limit as f64);
        let guess = match growth {
            0 => limit_f / linear,
            _ => ((linear * linear + 4.0 * half * limit_f).sqrt() - linear) / (2.0 * half),
        };
        let mut steps = (guess as u32).min(most);
        let over = |steps: u32| first * u64::from(steps) + growth * triangle(steps) < limit;
        while steps > 0 && !over(steps) {
            steps -= 1;
        }
        while steps < most && over(steps + 1) {
            steps += 1;
        }
        steps
    }

    fn search(&self, most: u32, clock: &CostClock, elapsed: Nanos) -> u32 {
        let (mut over, mut beyond) = (0, most.saturating_add(1));
        while beyond - over > 1 {
            let middle = over + (beyond - over) / 2;
            if clock.preview(self.of(middle)) <= elapsed { over = middle } else { beyond = middle }
        }
        over
    }

    /// In 64 bits, where nothing can overflow for as many steps or fewer.
    fn narrow(&self, steps: u32) -> Option<u64> {
        match *self {
            RunCost::Narrow { first, growth } => {
                Some(narrow(first, u64::from(steps))? + narrow(growth, triangle(steps))?)
            }
            RunCost::Wide { .. } => None,
        }
    }

    fn wide(&self) -> (u128, u128) {
        match *self {
            RunCost::Narrow { first, growth } => (u128::from(first), u128::from(growth)),
            RunCost::Wide { first, growth } => (first, growth),
        }
    }
}

/// k(k−1)/2.
fn triangle(steps: u32) -> u64 {
    let steps = u64::from(steps);
    steps * steps.saturating_sub(1) / 2
}

/// The product, where it is surely below 2⁶⁰: so that six of them can be added.
fn narrow(a: u64, b: u64) -> Option<u64> {
    (a.leading_zeros() + b.leading_zeros() >= 68).then(|| a * b)
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
