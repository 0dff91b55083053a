//! Keys set what they say, addresses come back as they went, and nothing that comes in makes a panic.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::experiment::{
    AgentTreeSpec, Charge, EngineSpec, ExecutionMode, LongShortSpec, MultiTenantSpec, PolicySpec, RateUnit,
    SessionsSpec,
};
use proptest::prelude::*;

fn preset(name: &str, spec: Spec) -> PresetInfo {
    let spec = Spec { preset: name.into(), ..spec };
    PresetInfo { name: name.into(), title: String::new(), question: String::new(), prediction: None, spec }
}

fn presets() -> Vec<PresetInfo> {
    vec![
        preset("multi-tenant", Spec::default()),
        preset("book-trace", Spec { workload: WorkloadSpec::BookTrace, ..Spec::default() }),
    ]
}

#[test]
fn sets_each_kind_of_value() {
    let spec = Spec::default();
    let rate = set(&spec, "workload.rate", "12").unwrap();
    let WorkloadSpec::MultiTenant(w) = &rate.workload else { panic!("kind changed") };
    assert_eq!(w.rate, 12.0);
    assert_eq!(set(&spec, "seed", " 9 ").unwrap().seed, 9);
    assert_eq!(set(&spec, "seed", "1e3").unwrap().seed, 1000);
    assert!(!set(&spec, "engine.chunked_prefill", "off").unwrap().engine.chunked_prefill);
    assert_eq!(set(&spec, "execution.mode", "tinygpt").unwrap().execution.mode, ExecutionMode::Tinygpt);
    let unit = set(&spec, "workload.rate_unit", "per_second").unwrap();
    assert!(matches!(unit.workload, WorkloadSpec::MultiTenant(w) if w.rate_unit == RateUnit::PerSecond));
    let costs = set(&spec, "execution.coefficients.step_us", "2.5").unwrap().execution.coefficients.unwrap();
    assert_eq!(costs.step_us, 2.5);
    assert_eq!(set(&spec, "policies.2.params.guard", "0").unwrap().policies[2].params["guard"], 0.0);
    assert_eq!(set(&spec, "policies.1.name", "random").unwrap().policies[1].name, "random");
    assert_eq!(set(&spec, "workload.kind", "book_trace").unwrap().workload, WorkloadSpec::BookTrace);
}

#[test]
fn policies_have_a_readable_form() {
    let text = "round_robin,prefix_affinity(guard=0,tokens=64)";
    let policies = parse_policies(text).unwrap();
    assert_eq!(policies[1], PolicySpec::named("prefix_affinity").with("guard", 0.0).with("tokens", 64.0));
    assert_eq!(policies_text(&policies), text);
    assert_eq!(parse_policies(" a , b ( x = 1 ) ").unwrap(), parse_policies("a,b(x=1)").unwrap());
    for wrong in ["", ",", "a,", "a(", "a(x)", "a(x=y)", "a)b", "a(x=1)b", "a(x=1,x=2)", "a(x=nan)", "A", "a,a"] {
        parse_policies(wrong).expect_err(wrong);
    }
}

#[test]
fn scripts_travel_as_they_are() {
    let text = "// a, (b) = c\nfn route(request, replicas) {\n    `\u{2713} & %`\n}\n";
    let spec = set(&Spec::default(), "policies", "round_robin,script(tier=1)").unwrap();
    let spec = set(&spec, "policies.1.script", text).unwrap();
    assert_eq!(spec.policies[1], PolicySpec::scripted(text).with("tier", 1.0));
    assert_eq!(parse_policies(&policies_text(&spec.policies)).unwrap(), spec.policies);
    let address = encode(&spec, &Spec::default());
    assert!(address.ends_with("policies=round_robin,script(tier=1,script=Ly8gYSwgKGIpID0gYwpmbiByb3V0ZShyZXF1ZXN0LCByZXBsaWNhcykgewogICAgYOKckyAmICVgCn0K)"), "{address}");
    assert_eq!(decode(&address, &presets()), (spec.clone(), vec![]));
    assert_eq!(set(&spec, "policies.1.script", " ").unwrap().policies[1].script, None);
    // Six of the greatest length still open.
    let long = |at: usize| PolicySpec::scripted(&format!("{at}{}", "\u{1f980}".repeat(validate::MAX_SCRIPT / 4 - 1)));
    let all = Spec { policies: (0..6).map(long).collect(), ..Spec::default() };
    assert_eq!(decode(&encode(&all, &Spec::default()), &presets()), (all, vec![]));
    let wrong = |key: &str, text: &str| set(&spec, key, text).expect_err(text).to_string();
    assert!(
        wrong("policies.0.script", text)
            .contains("policies.0.script: a script is not accepted; only the policy script")
    );
    assert!(wrong("policies.9.script", text).contains("policies"));
    assert!(wrong("policies.1.script", &"x".repeat(20_000)).contains("16384 bytes"));
    for policies in
        ["script(script=a)", "script(script=YQ==)", "script(script=_w)", "script(script=YQ,script=YQ)", "a(script=YQ)"]
    {
        assert!(wrong("policies", policies).contains("accepted") || policies.starts_with("a("), "{policies}");
    }
}

#[test]
fn refusals_say_what_would_do() {
    let spec = Spec::default();
    let message = |key: &str, value: &str| set(&spec, key, value).expect_err(key).to_string();
    assert!(message("workload.rte", "1").contains("workload.rate,"), "{}", message("workload.rte", "1"));
    assert!(message("nonsense", "1").contains("seed, replicas, policies"));
    assert!(message("seed", "seven").contains("accepted is a number"));
    assert!(message("replicas", "0").contains("from 1 to 512"));
    assert!(message("replicas", "2.5").contains("whole number"));
    assert!(
        message("execution.mode", "fast").contains("one of priced, tinygpt, tick"),
        "{}",
        message("execution.mode", "fast")
    );
    assert!(message("engine", "1").contains("group"));
    assert!(message("engine.prefix_cache", "maybe").contains("on and off"));
    assert!(message("policies.9.params.guard", "1").contains("policies"));
    assert!(message("preset", "other").contains("not a setting"));
    // A workload without settings takes none.
    let book = set(&spec, "workload.kind", "book_trace").unwrap();
    set(&book, "workload.rate", "12").expect_err("the fixed trace has no rate");
}

#[test]
fn addresses_are_short_and_readable() {
    let base = Spec::default();
    let mut spec = set(&base, "seed", "9").unwrap();
    spec = set(&spec, "workload.rate", "12").unwrap();
    spec = set(&spec, "policies", "round_robin,prefix_affinity(guard=0)").unwrap();
    let address = encode(&spec, &base);
    assert_eq!(
        address,
        "v=1&preset=multi-tenant&seed=9&policies=round_robin,prefix_affinity(guard=0)&workload.rate=12"
    );
    assert_eq!(decode(&format!("#{address}"), &presets()), (spec, vec![]));
    assert_eq!(decode("", &presets()), (base, vec![]));
}

#[test]
fn what_cannot_be_used_is_said() {
    let warnings = |fragment: &str| decode(fragment, &presets()).1;
    assert!(warnings("v=7")[0].contains("newer ServeLab"));
    assert!(warnings("v=x")[0].contains("not a version"));
    assert!(warnings("preset=lost")[0].contains("known are multi-tenant, book-trace"));
    assert!(warnings("seed=1&seed=2")[0].contains("twice"));
    assert!(warnings("replicas=9999")[0].contains("from 1 to 512"));
    let alone = &warnings("execution.coefficients.step_us=5")[0];
    assert!(alone.contains("execution.cost=custom"), "{alone}");
    assert!(warnings("execution.coefficients.step_us=5&execution.cost=custom").is_empty());
    assert!(warnings("workload.user_min=40")[0].contains("does not fit together"));
    assert!(warnings(&"a".repeat(200_000))[0].contains("longer than"));
    // The rest of the address still counts.
    let (spec, said) = decode("v=1&seed=11&replicas=x", &presets());
    assert_eq!((spec.seed, spec.replicas, said.len()), (11, 4, 1));
    // The kind may stand last.
    let (spec, said) = decode("preset=book-trace&workload.rate=3&workload.kind=multi_tenant", &presets());
    assert!(said.is_empty(), "{said:?}");
    assert!(matches!(spec.workload, WorkloadSpec::MultiTenant(w) if w.rate == 3.0));
}

#[test]
fn files_are_read_with_care() {
    let text = serde_json::to_string(&Spec::default()).unwrap();
    assert_eq!(from_json(&text).unwrap(), Spec::default());
    assert_eq!(from_json(&format!("{{\"spec\":{text},\"policies\":[]}}")).unwrap(), Spec::default());
    let newer = from_json(r#"{"version": 2, "new_field": 1}"#).expect_err("newer");
    assert_eq!(newer.field, "version");
    let book = r#"{"workload":{"kind":"book_trace"}}"#;
    let workload = from_json(book).unwrap().workload;
    assert_eq!(workload, WorkloadSpec::BookTrace);
    assert_eq!(serde_json::to_string(&workload).unwrap(), r#"{"kind":"book_trace"}"#);
    let ignored = from_json(r#"{"workload":{"kind":"book_trace","rate":3}}"#).expect_err("it has no rate");
    assert!(ignored.to_string().contains("rate"), "{ignored}");
    for wrong in ["", "[]", "3", "{\"seed\":-1}", "{\"seeed\":1}", "{\"version\":\"x\"}", "{\"workload\":{}}"] {
        from_json(wrong).expect_err(wrong);
    }
}

prop_compose! {
    fn engines()(
        block_tokens in 1u32..64, blocks in 1u32..4096, max_batch in 1u32..64, extra in 0u32..4096,
        max_context in 1000u32..100_000, switches in any::<[bool; 3]>(), watermark in 0.0..0.5f64,
        adapters in (0u32..64, 0u32..9, 0.0..9.0f64), queue in (0u32..99, any::<bool>(), 0u32..9999, 0.0..9.0f64, 0.0..9.0f64),
    ) -> EngineSpec {
        EngineSpec {
            block_tokens, blocks, max_batch, token_budget: max_batch + extra, max_context,
            chunked_prefill: switches[0], one_prefill: switches[1], prefix_cache: switches[2], watermark,
            // What the slots take must leave something of the pool.
            adapter_slots: adapters.0, adapter_blocks: adapters.1.min((blocks - 1) / adapters.0.max(1)), adapter_load_s: adapters.2,
            max_queued: queue.0, queued_count_running: queue.1, max_queued_tokens: queue.2, queue_ttl_s: queue.3, max_wait_s: queue.4,
        }
    }
}

prop_compose! {
    fn workloads()(
        requests in 1u32..10_000, tenants in 1u32..100, skew in 0.0..5.0f64, low in 1u32..50,
        widths in any::<[u8; 3]>(), few in 1u32..4, seconds in 0.0..100.0f64, rate in 0.001..1000.0f64,
        per_second in any::<bool>(), kind in 0usize..5,
    ) -> WorkloadSpec {
        let rate_unit = if per_second { RateUnit::PerSecond } else { RateUnit::OfCapacity };
        let (system_min, system_max) = (low, low + u32::from(widths[0]));
        let (user_min, user_max) = (low, low + u32::from(widths[1]) / 2);
        let (output_min, output_max) = (low, low + u32::from(widths[2]) / 2);
        match WorkloadSpec::KINDS[kind] {
            "multi_tenant" => WorkloadSpec::MultiTenant(MultiTenantSpec {
                requests, tenants, skew, noisy: 1.0 + seconds, adapters: few, system_min, system_max, user_min, user_max,
                output_min, output_max, rate, rate_unit,
            }),
            "sessions" => WorkloadSpec::Sessions(SessionsSpec {
                requests, tenants, skew, turns_min: 1, turns_max: few, think_s: seconds, answer_s: seconds / 8.0,
                system_min, system_max: low, user_min, user_max: low, output_min, output_max: low, rate, rate_unit,
            }),
            "agent_tree" => WorkloadSpec::AgentTree(AgentTreeSpec {
                requests, tenants, skew, depth: few, branches: few, burst_s: seconds, answer_s: seconds / 8.0,
                system_min, system_max, task_min: low, task_max: low, user_min, user_max: low, output_min, output_max,
                rate, rate_unit,
            }),
            "long_short" => WorkloadSpec::LongShort(LongShortSpec {
                requests, long_share: skew / 5.0, documents: tenants, document_min: low,
                document_max: low + u32::from(widths[0]), user_min, user_max, output_min, output_max, rate, rate_unit,
            }),
            _ => WorkloadSpec::BookTrace,
        }
    }
}

#[test]
fn every_kind_can_be_chosen_and_starts_afresh() {
    for kind in WorkloadSpec::KINDS {
        let spec = set(&Spec::default(), "workload.kind", kind).unwrap();
        assert_eq!(spec.workload.kind(), kind);
        assert_eq!(Some(&spec.workload), WorkloadSpec::of_kind(kind).as_ref());
        spec.validate().unwrap();
        let text = serde_json::to_string(&spec.workload).unwrap();
        assert!(text.contains(kind), "{text}");
    }
    let faster = set(&Spec::default(), "workload.rate", "3").unwrap();
    assert_eq!(set(&faster, "workload.kind", "multi_tenant").unwrap(), faster, "the kind it has keeps its settings");
    let error = set(&faster, "workload.kind", "weather").expect_err("unknown");
    assert!(error.accepted.contains("book_trace") && error.accepted.contains("long_short"), "{error}");
}

prop_compose! {
    fn policy_lists()(
        list in prop::collection::btree_map("[a-z][a-z_]{0,8}", prop::collection::btree_map("[a-z]{1,6}", any::<i32>(), 0..3), 1..5),
        scripts in prop::collection::btree_set(any::<String>(), 0..3),
    ) -> Vec<PolicySpec> {
        list.into_iter()
            .map(|(name, params)| PolicySpec {
                name,
                params: params.into_iter().map(|(name, value)| (name, f64::from(value) / 8.0)).collect(),
                script: None,
            })
            .chain(scripts.into_iter().map(|text| PolicySpec::scripted(&text).with("tier", 1.0)))
            .collect()
    }
}

prop_compose! {
    fn specs()(
        seed in 0..=crate::MAX_SEED, replicas in 1u32..64, policies in policy_lists(), workload in workloads(),
        engine in engines(), ttft in 0.001..10.0f64, measured in any::<bool>(),
        costs in prop::option::of([0.0..1e6f64, 0.0..1e6, 0.0..1e6, 0.0..1e6, 0.001..1e6]),
    ) -> Spec {
        let mut spec = Spec { seed, replicas, policies, workload, engine, ..Spec::default() };
        spec.slo.ttft_s = ttft;
        if measured {
            spec.execution.charge = Charge::Measured;
        }
        if let Some([a, b, c, d, e]) = costs {
            spec.execution.cost = "custom".into();
            spec.execution.coefficients = Some(Coefficients {
                step_us: a, prefill_token_us: b, prefill_context_us: c, decode_sequence_us: d, decode_context_us: e,
            });
        }
        spec
    }
}

proptest! {
    #[test]
    fn any_valid_spec_survives_the_address_bar(spec in specs(), base in specs(), name in "[a-z-]{1,12}") {
        prop_assert_eq!(spec.validate(), Ok(()));
        let base = Spec { preset: name.clone(), ..base };
        let spec = Spec { preset: name.clone(), ..spec };
        let (back, warnings) = decode(&encode(&spec, &base), &[preset(&name, base)]);
        prop_assert_eq!(warnings, Vec::<String>::new());
        prop_assert_eq!(back, spec);
    }

    #[test]
    fn any_valid_spec_survives_a_file(spec in specs()) {
        let text = serde_json::to_string(&spec).unwrap();
        prop_assert_eq!(from_json(&text).unwrap(), spec);
    }

    #[test]
    fn no_text_makes_a_panic(text in any::<String>()) {
        let (spec, _) = decode(&text, &presets());
        prop_assert_eq!(spec.validate(), Ok(()));
        let _ = parse_policies(&text);
        let _ = from_json(&text);
        let _ = set(&Spec::default(), &text, &text);
    }

    #[test]
    fn no_address_makes_a_panic(
        pairs in prop::collection::vec((prop::sample::select(vec![
            "v", "preset", "seed", "replicas", "policies", "policies.0", "policies.1.params.x", "workload", "workload.kind",
            "workload.rate", "engine.blocks", "engine.max_batch", "execution.coefficients", "execution.coefficients.step_us", "execution.cost", "slo.ttft_s",
        ]), "[-0-9a-z_.,()=%&e]{0,16}"), 0..8),
    ) {
        let address: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (spec, _) = decode(&address.join("&"), &presets());
        prop_assert_eq!(spec.validate(), Ok(()));
    }
}
