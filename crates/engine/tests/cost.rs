//! The cost model against its definition, and the clock against exact sums.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use servelab_engine::{CostClock, CostModel, Nanos, Picos, StepWork};
use servelab_spec::experiment::Coefficients;

fn models() -> impl Strategy<Value = CostModel> {
    let coefficient = || prop_oneof![Just(0u64), 0u64..5_000, 0u64..2_000_000_000];
    (coefficient(), coefficient(), coefficient(), coefficient(), coefficient()).prop_map(|(a, b, c, d, e)| CostModel {
        step: a,
        prefill_token: b,
        prefill_context: c,
        decode_sequence: d,
        decode_context: e,
        adapter_load: 0,
    })
}

/// The definition, token by token.
fn definition(model: &CostModel, prefills: &[(u32, u32)], decodes: &[u32]) -> u64 {
    let mut total = model.step;
    for &(start, len) in prefills {
        for position in start..start + len {
            total += model.prefill_token + model.prefill_context * u64::from(position + 1);
        }
    }
    for &context in decodes {
        total += model.decode_sequence + model.decode_context * u64::from(context);
    }
    total.max(1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_step_costs_what_the_definition_says(
        model in models(),
        prefills in prop::collection::vec((0u32..300, 1u32..100), 0..4),
        decodes in prop::collection::vec(1u32..3_000, 0..9),
    ) {
        let mut work = StepWork::default();
        for &(start, len) in &prefills {
            work.add_prefill(start, len);
        }
        for &context in &decodes {
            work.add_decode(context);
        }
        prop_assert_eq!(model.step(&work).0, definition(&model, &prefills, &decodes));
    }

    #[test]
    fn a_run_costs_what_its_steps_cost(
        model in models(), contexts in prop::collection::vec(1u32..3_000, 1..9), repeat in 1u32..200,
    ) {
        let sum: u64 = (0..repeat)
            .map(|step| {
                let grown: Vec<u32> = contexts.iter().map(|context| context + step).collect();
                definition(&model, &[], &grown)
            })
            .sum();
        let mut work = StepWork::default();
        contexts.iter().for_each(|&context| work.add_decode(context));
        prop_assert_eq!(model.run(&work, repeat), Picos(sum));
    }

    /// However costs are split, the clock ends at the sum, rounded down once.
    #[test]
    fn the_clock_loses_nothing(costs in prop::collection::vec(0u64..10_000_000, 1..50)) {
        let mut clock = CostClock::default();
        let mut now = Nanos::ZERO;
        for &cost in &costs {
            let preview = clock.preview(Picos(cost));
            let charged = clock.charge(Picos(cost));
            prop_assert_eq!(preview, charged);
            now += charged;
        }
        prop_assert_eq!(now.0, costs.iter().sum::<u64>() / 1000);
    }

    #[test]
    fn the_step_in_progress_is_the_first_that_has_not_ended(
        model in models(), context in 1u32..500, repeat in 1u32..60, before in 0u64..5_000, elapsed in 0u64..200_000,
    ) {
        let mut work = StepWork::default();
        work.add_decode(context);
        let mut clock = CostClock::default();
        clock.charge(Picos(before));
        let end = |steps| clock.preview(model.run(&work, steps));
        let first = (1..repeat).find(|&steps| end(steps) >= Nanos(elapsed)).unwrap_or(repeat);
        prop_assert_eq!(model.steps_begun(&work, repeat, &clock, Nanos(elapsed)), first);
    }

    /// Counted one by one from the ends; prices up to where 64 bits no longer hold a run of them.
    #[test]
    fn the_steps_that_are_over_are_those_whose_end_is_not_after_now(
        model in models(), scale in 0u32..44, context in 1u32..500, most in 1u32..60, before in 0u64..5_000, part in 0.0f64..1.2, off in -1i64..=1,
    ) {
        let times = |each: u64| each << scale;
        let model = CostModel { step: times(model.step), decode_context: times(model.decode_context), ..model };
        let mut work = StepWork::default();
        work.add_decode(context);
        let mut clock = CostClock::default();
        clock.charge(Picos(before));
        let end = |steps| clock.preview(model.run(&work, steps));
        // Anywhere, or just before, at and after an end.
        let near = end((part * f64::from(most)) as u32).0.saturating_add_signed(off);
        for elapsed in [Nanos((end(most).0 as f64 * part) as u64), Nanos(near)] {
            let over = (1..=most).take_while(|&steps| end(steps) <= elapsed).count() as u32;
            prop_assert_eq!(model.run_cost(&work).steps_over(most, &clock, elapsed), over);
        }
    }
}

#[test]
fn coefficients_become_picoseconds() {
    let us = Coefficients {
        step_us: 1500.0,
        prefill_token_us: 0.25,
        prefill_context_us: 0.000_001_4,
        decode_sequence_us: 2.0,
        decode_context_us: 0.001,
    };
    let model = CostModel::from_coefficients(&us);
    assert_eq!((model.step, model.prefill_token), (1_500_000_000, 250_000));
    assert_eq!((model.prefill_context, model.decode_sequence, model.decode_context), (1, 2_000_000, 1_000));
}

/// 32 bits of tokens at the dearest coefficient accepted are more picoseconds than 64 bits hold: the cost saturates.
#[test]
fn the_dearest_run_saturates() {
    let model = CostModel { decode_context: 1_000_000_000_000_000, ..CostModel::default() };
    let work = StepWork { decode_sequences: 1_000, decode_context: 1 << 40, ..StepWork::default() };
    assert_eq!(model.run(&work, u32::MAX), Picos(u64::MAX));
    assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
}
