#![allow(clippy::unwrap_used)]

use super::*;

fn fault(text: &str) -> SpecError {
    spec(text).map(|spec| panic!("{text} is taken: {spec:?}")).unwrap_err()
}

#[test]
fn an_object_says_what_differs_from_its_preset() {
    let preset = presets::find("multi-tenant").unwrap().spec;
    let wanted = [("seed", "9"), ("workload.rate", "0.9"), ("policies.2.params.guard", "0")];
    let wanted = wanted.iter().fold(preset.clone(), |spec, (key, value)| patch::set(&spec, key, value).unwrap());
    let dotted = r#"{"preset": "multi-tenant", "seed": 9, "workload.rate": 0.9, "policies.2.params.guard": 0}"#;
    assert_eq!(spec(dotted).unwrap(), wanted);
    let changed = spec(r#"{"preset": "multi-tenant", "seed": 9, "workload": {"rate": 0.9}}"#).unwrap();
    let wanted = [("seed", "9"), ("workload.rate", "0.9")];
    let wanted = wanted.iter().fold(preset.clone(), |spec, (key, value)| patch::set(&spec, key, value).unwrap());
    assert_eq!(changed, wanted);
    assert_eq!(spec(r#"{"preset": "multi-tenant"}"#).unwrap(), preset);
    assert_eq!(spec("multi-tenant").unwrap(), preset);
}

#[test]
fn lists_are_replaced_and_may_be_written_as_in_an_address() {
    let text = spec(
        r#"{"preset": "multi-tenant", "policies": ["round_robin", {"name": "prefix_affinity", "params": {"guard": 0}}]}"#,
    );
    let list = spec(r#"{"preset": "multi-tenant", "policies": "round_robin,prefix_affinity(guard=0)"}"#);
    assert_eq!(text.unwrap(), list.unwrap());
    let storm =
        spec(r#"{"preset": "retry-storm", "clients": {"policies": ["openai_sdk", "full_jitter(attempts=30)"]}}"#);
    assert_eq!(storm.unwrap().clients.policies.len(), 2);
}

#[test]
fn another_kind_of_workload_starts_afresh_wherever_the_kind_stands() {
    let changed = spec(r#"{"workload": {"turns_min": 3, "kind": "sessions"}}"#).unwrap();
    assert_eq!(changed.workload.kind(), "sessions");
}

#[test]
fn a_whole_spec_and_a_report_are_taken_as_they_are() {
    for preset in presets::all() {
        if preset.spec.execution.mode == ExecutionMode::Tinygpt {
            continue;
        }
        let text = serde_json::to_string(&preset.spec).unwrap();
        assert_eq!(spec(&text).unwrap(), preset.spec, "{}", preset.name);
        assert_eq!(spec(&format!(r#"{{"spec": {text}, "policies": []}}"#)).unwrap(), preset.spec);
        let address = format!("https://example.org/lab/#{}", patch::encode(&preset.spec, &preset.spec));
        assert_eq!(spec(&address).unwrap(), preset.spec);
    }
}

#[test]
fn errors_name_the_field_and_what_is_accepted() {
    for (text, field, says) in [
        (r#"{"preset": "nonsense"}"#, "preset", "multi-tenant"),
        ("nonsense", "preset", "multi-tenant"),
        (r#"{"preset": "multi-tenant", "workload": {"rate": "fast"}}"#, "workload.rate", "number"),
        (r#"{"preset": "multi-tenant", "workload": {"rate": -1}}"#, "workload.rate", "from 0.001"),
        (r#"{"preset": "multi-tenant", "workload": {"rat": 1}}"#, "workload.rat", "workload.rate"),
        (r#"{"preset": "multi-tenant", "replicas": 0}"#, "replicas", "from 1 to 512"),
        (r#"{"preset": "multi-tenant", "replicas": null}"#, "replicas", "leave it out"),
        (r#"{"preset": "multi-tenant", "replicas": [1]}"#, "replicas", "policies"),
        (r#"{"preset": "multi-tenant", "policies": [{"nam": "round_robin"}]}"#, "policies.0", "name"),
        (r#"{"preset": "multi-tenant", "policies": ["round_robin", 7]}"#, "policies.1", "name"),
        (r#"{"preset": "multi-tenant", "execution": {"mode": "tinygpt"}}"#, "execution.mode", "priced"),
        (r#"{"version": 99}"#, "version", "accepted"),
        (r#"{"version": 1, "engine": {"blocks": "many"}}"#, "engine.blocks", "number"),
        (r#"{"version": 1, "engine": {"block": 3}}"#, "engine.block", "engine.blocks"),
        ("#preset=multi-tenant&replicas=0", "replicas", "from 1 to 512"),
        ("#preset=nonsense&replicas=2", "preset", "multi-tenant"),
        ("[1, 2]", "spec", "object"),
    ] {
        let error = fault(text);
        assert_eq!(error.field, field, "{text}: {error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn pieces_of_any_size_give_the_same_report() {
    let whole = |events: u32| {
        let mut run = crate::work::Run::new("book-trace").unwrap();
        while !run.advance(events).unwrap().done {}
        run.report().unwrap()
    };
    assert_eq!(whole(7), whole(u32::MAX));
}
