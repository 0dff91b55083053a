//! What holds of every controller in the registry.

use super::registry::{self, CONTROLLERS};
use super::testing::{Bench, Load, steps};
use super::*;
use servelab_spec::catalog::{ControllerInfo, ParamKind};
use servelab_spec::experiment::ControllerSpec;

#[test]
fn every_controller_is_described_and_builds_with_its_defaults() {
    for info in registry::catalog() {
        let ControllerInfo { name, label, summary, rule, reads, fails, params, .. } = &info;
        assert!(registry::build(&ControllerSpec::named(name)).is_ok(), "{name}");
        for text in [label, summary, rule, reads, fails] {
            assert!(!text.is_empty(), "{name}");
        }
        for param in params {
            assert!(param.min <= param.default && param.default <= param.max, "{name}.{}", param.name);
            assert!(param.help.ends_with('.') || param.help.ends_with(')'), "{name}.{}: {}", param.name, param.help);
            let twice = params.iter().filter(|other| other.name == param.name).count();
            assert_eq!(twice, 1, "{name}.{}", param.name);
        }
    }
    let mut names: Vec<&str> = CONTROLLERS.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CONTROLLERS.len());
}

#[test]
fn what_is_refused_names_its_field() {
    let refused = |spec: ControllerSpec| registry::build(&spec).err().map(|error| error.field);
    assert_eq!(refused(ControllerSpec::named("psychic")), Some("scaling.controllers.name".into()));
    for (param, value) in [("target", 0.0), ("target", -5.0), ("sync_s", 0.5), ("signal", 99.0), ("mood", 1.0)] {
        let spec = ControllerSpec::named("kubernetes_hpa").with(param, value);
        assert_eq!(refused(spec), Some(format!("scaling.controllers.kubernetes_hpa.{param}")), "{value}");
    }
}

/// Three replicas that show what the controller aims at, whatever their number: nothing may happen for two hours.
#[test]
fn in_its_target_nothing_moves() {
    let steady = |name: &str| match name {
        "knative_kpa" => Load { running: 70, ..Load::default() },
        "ray_serve" => Load { running: 2, ..Load::default() },
        "skyserve" => Load { rate: 3.0, ..Load::default() },
        "aibrix_apa" => Load { kv: 0.5, ..Load::default() },
        "llm_d_wva" => Load { kv: 0.6, running: 6, ..Load::default() },
        "dynamo_planner" => {
            Load { running: 8, tokens: 220.0, admitted: 2.0, ttft_bucket: 8, kv: 0.5, ..Load::default() }
        }
        _ => Load { waiting: 5, ..Load::default() },
    };
    for entry in CONTROLLERS {
        let spec = match entry.name {
            "schedule" => ControllerSpec::named(entry.name).with("base", 3.0),
            _ => ControllerSpec::named(entry.name),
        };
        let mut bench = Bench::new(spec).bounds(1, 50).ready(3).planned(18.0);
        let load = steady(entry.name);
        assert_eq!(steps(&bench.run(7200.0, |_, _| load)), [3], "{}", entry.name);
    }
}

/// Without replicas, without samples, with 0 allowed: it says something, the same again after a save.
#[test]
fn nothing_to_see_is_no_reason_to_fail() {
    for entry in CONTROLLERS {
        let spec = ControllerSpec::named(entry.name);
        let mut bench = Bench::new(spec.clone()).bounds(0, 5);
        let first = bench.decide();
        assert!(first.desired <= 5, "{}", entry.name);
        bench.reload(&spec);
        bench.scrape(Load::default());
        bench.scrapes(3, Load::default());
        assert!(bench.decide().desired <= 5, "{}", entry.name);
        for _ in 0..3 {
            bench.scrape(Load { held: 1000, rate: 100.0, ..Load::default() });
            bench.act();
        }
        assert!(bench.controller.restore(&serde_json::json!({ "mood": "bad" })).is_err(), "{}", entry.name);
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod random {
    use super::*;
    use proptest::prelude::*;

    fn load() -> impl Strategy<Value = Load> {
        let gauges = (0u32..300, 0u32..200, 0u32..17, 0.0..=1.0f64);
        let rates = (0.0..50.0f64, 0.0..2000.0f64, 0.0..20.0f64, 0.0..60.0f64, 0usize..23);
        (gauges, rates).prop_map(|((held, waiting, running, kv), (rate, tokens, admitted, queue_s, ttft_bucket))| {
            Load { held, rate, waiting, running, kv, tokens, admitted, queue_s, ttft_bucket }
        })
    }

    /// The controller with its parameters drawn from their ranges; `draws` are used in turn, those above 0.7 leave the default.
    fn drawn(name: &str, draws: &[f64]) -> ControllerSpec {
        let mut spec = ControllerSpec::named(name);
        let Some(info) = registry::catalog().into_iter().find(|info| info.name == name) else { unreachable!() };
        for (param, draw) in info.params.iter().zip(draws.iter().cycle()).filter(|(_, draw)| **draw < 0.7) {
            // Ranges span orders of magnitude: small values are as likely as large ones.
            let share = draw / 0.7;
            let value = param.min + (param.max - param.min) * share * share * share;
            let value = if matches!(param.kind, ParamKind::Number) { value } else { libm::floor(value) };
            spec.params.insert(param.name.clone(), value);
        }
        spec
    }

    fn bench(spec: &ControllerSpec, start_up: f64) -> Bench {
        Bench::new(spec.clone()).bounds(0, 20).ready(2).start_up(start_up).planned(30.0)
    }

    /// What it says at every evaluation; saved and restored before each, if so asked.
    fn said(bench: &mut Bench, loads: &[Load], reload: Option<&ControllerSpec>) -> Vec<(u32, Decision)> {
        let period = bench.controller.period().as_secs();
        let mut said = vec![];
        for &load in loads {
            if let Some(spec) = reload {
                bench.reload(spec);
            }
            bench.pass(period, load);
            said.push((bench.current, bench.act()));
        }
        said
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever scrapes find and whatever is set: an answer within the bounds or no change, always the same, also after a save.
        #[test]
        fn answers_are_bounded_and_repeat(
            loads in prop::collection::vec(load(), 1..40),
            draws in prop::collection::vec(0.0..1.0f64, 7),
            start_up in 0.0..200.0f64,
        ) {
            for entry in CONTROLLERS {
                for spec in [ControllerSpec::named(entry.name), drawn(entry.name, &draws)] {
                    let once = said(&mut bench(&spec, start_up), &loads, None);
                    for &(current, decision) in &once {
                        let Decision { desired, .. } = decision;
                        prop_assert!(desired <= 20 || desired == current, "{}: {decision:?}", entry.name);
                    }
                    prop_assert_eq!(&once, &said(&mut bench(&spec, start_up), &loads, None), "{}", entry.name);
                    prop_assert_eq!(&once, &said(&mut bench(&spec, start_up), &loads, Some(&spec)), "{}", entry.name);
                }
            }
        }
    }
}
