//! Scripts decide what their text says, by hand-worked tables; what they may read is what the reference says; and whatever goes wrong in
//! one is a fault with a line, never a panic or a wait.
#![allow(clippy::unwrap_used)]

use super::super::registry;
use super::super::testing::{Bench, prompt};
use super::*;
use servelab_engine::Prompt;
use servelab_spec::validate::MAX_SCRIPT;

fn spec(text: &str, tier: u32) -> PolicySpec {
    PolicySpec::scripted(text).with("tier", tier.into())
}

fn bench(text: &str, replicas: u32) -> Bench {
    Bench::new(spec(text, 2), replicas)
}

/// A script whose `route` is this.
fn body(text: &str) -> String {
    format!("fn route(request, replicas) {{\n{text}\n}}")
}

/// What goes wrong at the first decision among three replicas.
fn fault(text: &str) -> String {
    let mut bench = bench(text, 3);
    bench.pick(&prompt(&[1, 2, 3]));
    let fault = bench.policy.fault().unwrap_or_else(|| panic!("{text}: chose {:?}", bench.choice)).clone();
    assert_eq!(bench.choice.why, "the script failed");
    fault.to_string()
}

/// What is wrong with a script before it is asked anything.
fn refused(text: &str) -> String {
    let error = registry::build(&spec(text, 2)).err().unwrap_or_else(|| panic!("{text}: accepted"));
    assert_eq!(error.field, FIELD);
    error.found
}

fn example(at: usize) -> PolicySpec {
    spec(examples::EXAMPLES[at].text, examples::EXAMPLES[at].tier as u32)
}

fn of_session(prompt: &Prompt, session: u64) -> RequestView<'_> {
    RequestView { session: Some(session), ..Bench::request(prompt) }
}

#[test]
fn sticky_stays_while_there_is_room_and_moves_with_its_session() {
    let asked = prompt(&[1; 32]);
    let mut bench = Bench::new(PolicySpec::named(NAME), 3).tokens(&[90, 40, 60]);
    // One request on each: 4 with this one, room for ⌈1.25 · 4 ÷ 3⌉ = 2.
    assert_eq!(bench.choose(of_session(&asked, 7)), 1, "new: the fewest tokens");
    bench.local[1].tokens = 500;
    assert_eq!(bench.choose(of_session(&asked, 7)), 1, "at home, whatever its tokens: 1 + 1 ≤ 2");
    assert_eq!(bench.choose(of_session(&asked, 8)), 2, "another session");
    // 1, 2, 1 in flight: 5 with this one, room for ⌈2.08⌉ = 3.
    bench.set_requests(&[1, 2, 1]);
    assert_eq!(bench.choose(of_session(&asked, 7)), 1, "2 + 1 ≤ 3");
    // 1, 3, 1: 6, room for ⌈2.5⌉ = 3, and home would have 4.
    bench.set_requests(&[1, 3, 1]);
    assert_eq!(bench.choose(of_session(&asked, 7)), 2, "overflow, to 60 tokens against 90 and 500");
    bench.set_requests(&[0, 0, 0]);
    bench.local[2].tokens = 1000;
    assert_eq!(bench.choose(of_session(&asked, 7)), 2, "its new home");
    // Without a session, the tenant's; tenant 0 has none yet.
    bench.local.iter_mut().for_each(|local| local.tokens = 5);
    assert_eq!(bench.pick(&asked), 0, "equal tokens: the lowest index");
    bench.local[0].tokens = 9;
    assert_eq!(bench.pick(&asked), 0);
    bench.reload(PolicySpec::named(NAME));
    assert_eq!((bench.choose(of_session(&asked, 7)), bench.pick(&asked)), (2, 0), "homes are remembered");
    bench.replicas(&[0, 1]);
    assert_eq!(bench.choose(of_session(&asked, 7)), 1, "home is gone: 5 tokens against 9");
    assert!(bench.policy.fault().is_none());
}

#[test]
fn sticky_forgets_when_it_is_full() {
    let asked = prompt(&[1; 32]);
    let mut bench = Bench::new(PolicySpec::named(NAME), 2).tokens(&[1, 2]);
    (0..1000).for_each(|session| assert_eq!(bench.choose(of_session(&asked, session)), 0));
    bench.local[0].tokens = 9;
    assert_eq!(bench.choose(of_session(&asked, 0)), 0, "a thousand are remembered");
    assert_eq!(bench.choose(of_session(&asked, 1000)), 1);
    assert_eq!(bench.choose(of_session(&asked, 0)), 1, "one more, and all are placed anew");
    assert!(bench.policy.fault().is_none());
}

#[test]
fn prefix_minus_load_weighs_what_is_held_against_load() {
    let ids: Vec<u32> = (0..64).collect();
    let asked = prompt(&ids);
    let mut bench = Bench::new(example(1), 3).tokens(&[300, 100, 200]);
    bench.stored(0, &asked, 3);
    // Held 48, 0, 0 of 64; loads 0.5, −0.5, 0 of the mean of 200; β = 0.5.
    assert_eq!(bench.pick(&asked), 0);
    assert_eq!(bench.scores, [0.5, 0.25, 0.0]);
    assert_eq!(bench.choice.expected_hit, 48);
    // 600 of 300: 0.75 − 0.5 · 1 against 0 + 0.5 · 2/3.
    bench.local[0].tokens = 600;
    assert_eq!(bench.pick(&asked), 1, "a cached prefix that is not worth the queue");
    assert_eq!(bench.scores, [0.25, 0.5 * 200.0 / 300.0, 0.5 * 100.0 / 300.0]);
    // One token is always computed, so 63 of 64 is all that can be held.
    bench.stored(2, &asked, 4);
    bench.local.iter_mut().for_each(|local| *local = Default::default());
    assert_eq!(bench.pick(&asked), 2);
    assert_eq!(bench.scores, [0.75, 0.0, 63.0 / 64.0]);
    // A fresh fleet: all alike, the lowest index.
    assert_eq!(bench.pick(&prompt(&[9; 40])), 0);
    assert_eq!(bench.scores, [0.0; 3]);
}

#[test]
fn ids_and_scores_are_read_and_ties_fall_by_the_parameter() {
    let asked = prompt(&[1, 2, 3]);
    let mut bench = bench(&body("replicas[1].id"), 5);
    bench.replicas(&[2, 4]);
    assert_eq!((bench.pick(&asked), bench.scores.len()), (4, 0), "ids, not positions");
    let scores = body("let s = []; for r in replicas { s.push(if r.id == 1 { 3 } else { 5.5 }); } s");
    let mut lowest = Bench::new(spec(&scores, 0), 4);
    assert_eq!(lowest.pick(&asked), 0);
    assert_eq!(lowest.scores, [5.5, 3.0, 5.5, 5.5]);
    let counts = Bench::new(spec(&scores, 0).with("ties", 1.0), 4).counts(&asked, 300);
    assert!(counts[1] == 0 && [0, 2, 3].iter().all(|&at| counts[at] > 60), "{counts:?}");
}

#[test]
fn a_script_reads_what_the_reference_says_in_its_tier_and_no_other() {
    let asked = prompt(&[1; 40]);
    let names = values::reference();
    let read = |expression: &str, tier: u32| {
        let text = body(&format!("let replica = replicas[0]; let x = {expression}; replica.id"));
        let mut bench = Bench::new(spec(&text, tier), 2);
        bench.pick(&asked);
        bench.policy.fault().map(ToString::to_string)
    };
    let mut seen = 0;
    for value in names.iter().filter(|value| value.name.starts_with("re") && !value.name.contains('(')) {
        let from = match value.tier.as_str() {
            "" | "router-local" => 0,
            "polled" => 1,
            "event-fed" => 2,
            other => panic!("{other}"),
        };
        for tier in 0..3 {
            let fault = read(&value.name, tier);
            assert_eq!(fault.is_none(), tier >= from, "{} in tier {tier}: {fault:?}", value.name);
            if let Some(fault) = fault {
                assert!(
                    fault.starts_with("line 2: ") && fault.contains(&value.tier) && fault.contains("tokens,"),
                    "{fault}"
                );
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 18);
    for call in [
        "now_s",
        "state",
        "random()",
        "request.prefix(16)",
        "hash(\"a\")",
        "hash(1, \"a\")",
        "to_int(2.9)",
        "pow(2, 0.5)",
    ] {
        assert_eq!(read(call, 0), None, "{call}");
        let name = call.split('(').next().unwrap();
        assert!(names.iter().any(|value| value.name.starts_with(name)), "{name}");
    }
    assert!(read("replica.waitin", 2).unwrap().contains("a replica has no waitin; it has id, requests"));
    assert!(read("request.output_tokens", 2).unwrap().contains("a request has no output_tokens"));
}

#[test]
fn values_are_what_the_fleet_says() {
    let ids: Vec<u32> = (0..100).collect();
    let asked = prompt(&ids);
    let text = body(
        "let r = replicas[1];
        state.seen = [request.tenant, request.session, request.adapter, request.prompt_tokens, request.system_tokens,
            request.max_tokens, request.attempt, r.id, r.requests, r.tokens, r.prompt_tokens, r.prefill_tokens, r.waiting,
            r.running, r.kv_usage, r.age_s, r.holds_adapter, r.cached_tokens, now_s];
        0",
    );
    let mut bench = bench(&text, 2);
    bench.now = Nanos(3_500_000_000);
    bench.local[1] = crate::telemetry::LocalSignals { requests: 2, tokens: 70, prompt_tokens: 50, prefill_tokens: 30 };
    bench.polled[1] = crate::telemetry::PolledSignals {
        at: Some(Nanos(3_000_000_000)),
        waiting: 4,
        running: 5,
        kv_usage: 0.25,
        adapters: vec![2, 9],
        ..Default::default()
    };
    bench.stored(1, &asked, 2);
    let view = RequestView {
        tenant: 6,
        session: Some(77),
        adapter: Some(9),
        user_at: 40,
        attempt: 2,
        ..Bench::request(&asked)
    };
    bench.choose(view);
    assert_eq!(bench.policy.fault(), None);
    let seen: Vec<String> =
        bench.policy.save()["map"]["seen"]["array"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let expected = [
        r#"{"integer":6}"#,
        r#"{"text":"77"}"#,
        r#"{"integer":9}"#,
        r#"{"number":100.0}"#,
        r#"{"number":40.0}"#,
        r#"{"number":8.0}"#,
        r#"{"integer":2}"#,
        r#"{"integer":1}"#,
        r#"{"number":2.0}"#,
        r#"{"number":70.0}"#,
        r#"{"number":50.0}"#,
        r#"{"number":30.0}"#,
        r#"{"number":4.0}"#,
        r#"{"number":5.0}"#,
        r#"{"number":0.25}"#,
        r#"{"number":0.5}"#,
        r#"{"switch":true}"#,
        r#"{"number":32.0}"#,
        r#"{"number":3.5}"#,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn prefixes_hashes_and_draws_repeat() {
    let (a, b): (Vec<u32>, Vec<u32>) = ((0..40).collect(), (0..32).chain(90..98).collect());
    let text = body("state.seen = [request.prefix(32), request.prefix(33), hash(5, \"x\"), random(), random()]; 0");
    let seen = |ids: &[u32]| {
        let mut bench = bench(&text, 2);
        bench.pick(&prompt(ids));
        assert_eq!(bench.policy.fault(), None);
        bench.policy.save()["map"]["seen"]["array"].as_array().unwrap().clone()
    };
    let (one, other) = (seen(&a), seen(&b));
    assert_eq!(seen(&a), one);
    assert_eq!(one[0], other[0]);
    assert_ne!(one[1], other[1]);
    assert_eq!(one[2..], other[2..], "draws are the decision's own");
    assert_ne!(one[3], one[4]);
    let mut stream = Stream::new(1, b"test").split(0);
    assert_eq!(one[3]["number"].as_f64(), Some(stream.unit()));
}

#[test]
fn memory_lasts_is_saved_and_refused_when_damaged() {
    let text = "const STEP = 2; state.turn = 0; state.by = #{};
        fn route(request, replicas) { state.turn += STEP; state.by[request.tenant.to_string()] = now_s; state.turn % replicas.len() }
        fn ended(request, replica) { state.turn += 1; state.last = replica; }";
    let asked = prompt(&[1, 2, 3]);
    let mut bench = Bench::new(spec(text, 0), 5);
    assert_eq!([bench.send(&asked), bench.send(&asked), bench.send(&asked)], [2, 4, 1]);
    bench.end(&asked, 4);
    assert_eq!(bench.pick(&asked), 4, "6 + 1 + 2 is 9");
    bench.reload(spec(text, 0));
    assert_eq!(bench.pick(&asked), 1);
    let saved = bench.policy.save();
    assert_eq!(saved["map"]["last"], serde_json::json!({"integer": 4}));
    for damaged in ["null", "3", r#"{"map":{"a":{"integer":1.5}}}"#, r#"{"integer":1}"#, r#"{"map":{"a":{"fn":"x"}}}"#]
    {
        assert!(bench.policy.restore(&serde_json::from_str(damaged).unwrap()).is_err(), "{damaged}");
    }
    let deep = (0..20).fold(serde_json::json!("nothing"), |inner, _| serde_json::json!({"array": [inner]}));
    assert!(bench.policy.restore(&serde_json::json!({"map": {"a": deep}})).is_err());
    assert_eq!(bench.policy.save(), saved);
}

#[test]
fn what_can_not_be_read_is_refused_with_its_line() {
    for (text, found) in [
        ("", "a script without fn route(request, replicas)"),
        ("fn route(request) { 0 }", "a script without fn route"),
        ("fn route(request, replicas) {\n  let x = ;\n}", "line 2 ("),
        ("fn route(request, replicas) { 0 }\nlet x = 1;", "line 2 (x would not last"),
        ("fn route(request, replicas) { 0 }\nlet state = #{};", "line 2 (state would not last"),
        ("state = 3; fn route(request, replicas) { 0 }", "state is an integer now"),
        ("fn route(request, replicas) { 0 }\n\nstate.x = random();", "line 3 (random() is for decisions"),
        ("\nfn route(request, replicas) { eval(\"0\") }", "line 2 ("),
        ("\nfn route(request, replicas) { 2 ** 3 }", "line 2 ("),
        ("import \"x\" as y; fn route(request, replicas) { 0 }", "line 1 ("),
        ("loop { }\nfn route(request, replicas) { 0 }", "more than 50000 operations"),
    ] {
        assert!(refused(text).contains(found), "{text}: {}", refused(text));
    }
    let nested = format!("fn route(request, replicas) {{ {}0{} }}", "(".repeat(5000), ")".repeat(5000));
    assert!(refused(&nested).starts_with("line 1 ("));
    let error = registry::build(&PolicySpec { script: Some("x".into()), ..PolicySpec::named("round_robin") });
    assert_eq!(error.err().unwrap().field, "policies.round_robin.script");
    let long = format!("{}//{}", body("0"), "x".repeat(MAX_SCRIPT));
    assert!(registry::build(&PolicySpec::scripted(&long)).is_err());
}

#[test]
fn what_goes_wrong_in_a_decision_is_a_fault_with_its_line() {
    for (text, found) in [
        ("let x = 0;\nloop { x += 1; }", "line 3: more than 50600 operations in one call; does it loop for ever?"),
        ("let a = [];\nloop { a.push(1); }", "line 3: size of array/blob exceeds what a script may hold"),
        ("let a = \"xxxxxxxx\";\nloop { a += a; }", "line 3: length of string exceeds"),
        ("let a = [1];\nloop { a = [a, a]; }", "line 3: size of array/blob exceeds"),
        ("let m = #{};\nfor i in 0..100000 { m[i.to_string()] = i; }", "line 3: "),
        ("for i in 0..100000 { state[i.to_string()] = `a text of some length ${i}`; } 0", "line 2: "),
        ("\"one\"", "line 1: route returned a text; it returns a replica's id, an integer, or an array"),
        ("()", "line 1: route returned nothing"),
        ("3", "line 1: route returned 3, which is none of the replicas it was given (0, 1, 2)"),
        ("-1", "line 1: route returned -1"),
        ("0.0", "line 1: route returned a number with decimals"),
        ("[1.0, 2.0]", "line 1: route returned 2 scores for 3 replicas"),
        ("[1.0, \"2\", 3.0]", "line 1: the score of replica 1 is a text, not a number"),
        ("[1.0, 2.0, 0.0 / 0.0]", "line 1: the score of replica 2 is NaN; scores are finite"),
        ("[1.0 / 0.0, 2.0, 1.0]", "line 1: the score of replica 0 is inf"),
        ("let x = 1;\nx / 0", "line 3: "),
        ("\n\nreplicas[3].id", "line 4: "),
        ("\nthrow \"no idea\"", "line 3: no idea"),
        ("let a = []; for i in 0..500 { a.push(i); }\nthrow a", "line 3: Runtime error"),
        ("\nnobody", "line 3: there is no nobody here"),
        ("\nreplicas.fold(0)", "line 3: "),
        ("state = 7; 0", "state is an integer now; it must stay a map"),
        ("state.x = replicas[0]; 0", "state holds a replica; it keeps numbers"),
        ("state.x = 0.0 / 0.0; 0", "state holds NaN"),
        ("let a = 1; for i in 0..20 { a = [a]; } state.x = a; 0", "state is nested more than 8 deep"),
        ("\nsleep(10)", "line 3: "),
        ("\nnow_s = 3.0; 0", "line 3: "),
        ("let t = timestamp(); 0", "line 2: "),
    ] {
        let said = fault(&body(text));
        assert!(said.contains(found), "{text}: {said}");
        assert!(said.len() < 400, "{said}");
    }
    // A function that calls itself; a fault inside a helper is told where it stands.
    let said = fault("fn deep(n) { deep(n + 1) }\nfn route(request, replicas) { deep(0) }");
    assert!(said.contains("functions call each other more than 12 deep"), "{said}");
    let said = fault("const B = 2;\nfn helper(x) {\n  x + B\n}\nfn route(request, replicas) {\n  helper(1)\n}");
    assert!(said.starts_with("line 3: there is no B here; only route and ended see constants"), "{said}");
    // Catching does not help.
    let said = fault(&body("loop { try { loop { } } catch { } }"));
    assert!(said.contains("operations"), "{said}");
}

#[test]
fn a_fault_in_ended_counts_and_the_first_one_is_told() {
    let text = "fn route(request, replicas) { 0 }\nfn ended(request, replica) {\n  nobody\n}";
    let asked = prompt(&[1, 2, 3]);
    let mut bench = Bench::new(spec(text, 0), 2);
    bench.send(&asked);
    assert_eq!(bench.policy.fault(), None);
    bench.end(&asked, 0);
    assert_eq!(bench.policy.fault().unwrap().line, Some(3));
}

/// A worker in a browser has a stack of one megabyte; whatever a script nests, copying, comparing, writing and dropping it must fit.
#[test]
fn nesting_fits_a_browsers_stack() {
    let scripts = [
        body("let a = [0]; loop { a = [a]; }"),
        body("let a = [0]; for i in 0..2050 { a = [a]; } let b = a; let c = `${b}`; 0"),
        body("let a = #{}; for i in 0..2050 { a = #{a: a}; } let b = a; let c = `${b}`; 0"),
        body("let a = [0]; for i in 0..2050 { a = [a]; } let b = a; if a == b { 0 } else { 0 }"),
        body("let a = [0]; for i in 0..2050 { a = [a]; } switch a { 1 => 0, _ => 0 }"),
        body("let a = [0]; for i in 0..2050 { a = [a]; } a in [a]; 0"),
        body("let a = [0]; for i in 0..2050 { a = [a]; } state.a = a; 0"),
        body("let a = [0]; for i in 0..2050 { a = [a]; } throw a;"),
        "fn deep(n) { if n > 0 { 1 + deep(n - 1) } else { 0 } } fn route(request, replicas) { deep(100) }".to_owned(),
    ];
    let nested = (1..30).map(|n| body(&format!("{}0{}", "if true { [".repeat(n), "][0] } else { 0 }".repeat(n))));
    for text in scripts.into_iter().chain(nested) {
        let run = move || {
            // Nested too deep to be read is well, too.
            registry::build(&spec(&text, 2)).ok()?;
            let mut bench = bench(&text, 3);
            bench.pick(&prompt(&[1, 2, 3]));
            bench.policy.fault().map(ToString::to_string)
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    }
}
