//! Findings say what a run allows to say: nothing about policies that were not run, no difference where there is none.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use servelab_lab::{Session, presets, run_priced};
use servelab_spec::{Spec, patch};

fn spec(preset: &str, changes: &[(&str, &str)]) -> Spec {
    let start = presets::find(preset).unwrap().spec;
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

fn findings(changes: &[(&str, &str)]) -> Vec<String> {
    run_priced(&spec("multi-tenant", changes)).unwrap().findings
}

/// Advances until `finished` policies are done and the next one has served somebody.
fn stopped(finished: u32) -> Session {
    let mut session = Session::new(spec("multi-tenant", &[])).unwrap();
    while session.progress().policy < finished || session.report().policies[finished as usize].requests.finished < 20 {
        assert!(!session.advance(20).unwrap().done);
    }
    session
}

#[test]
fn a_stopped_run_crowns_nobody_it_has_not_run() {
    for finished in 0..3 {
        let report = stopped(finished).report();
        let said = &report.findings;
        let part = report.policies[finished as usize].requests.finished;
        let label = &report.policies[finished as usize].label;
        assert!((20..300).contains(&part));
        assert!(said[0].starts_with("The run was stopped before its end: finished are "), "{}", said[0]);
        assert!(
            said[0].contains(&format!("{part} of 300")) && said[0].contains(&format!("with {label}")),
            "{}",
            said[0]
        );
        assert_eq!(said[0].matches(" of 300").count(), 3);
        for later in &said[1..] {
            assert!(!later.contains(label.as_str()), "{later}");
        }
        match finished {
            0 => assert_eq!(said.len(), 1, "{said:?}"),
            1 => assert!(said[1].starts_with("Round-robin, which finished, gave half"), "{}", said[1]),
            _ => assert!(said[1].starts_with("Of the policies that finished, "), "{}", said[1]),
        }
    }
    let mut whole = stopped(2);
    while !whole.advance(u32::MAX).unwrap().done {}
    assert!(whole.report().findings[0].starts_with("Prefix affinity gave first tokens soonest"));
}

/// Counted from the requests' own stories.
#[test]
fn refused_requests_are_counted_and_explained() {
    let mut session = Session::new(spec("multi-tenant", &[("engine.blocks", "28")])).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    let report = session.report();
    let stories = (0..300).map(|request| session.story(0, request, &|_| String::new()).unwrap().unwrap());
    let refused = stories.filter(|story| story.ttft_s.is_none()).count();
    assert!((100..300).contains(&refused), "{refused}");
    let said = &report.findings;
    assert!(said[0].starts_with(&format!("Refused were {refused} of 300 requests with every policy: ")), "{}", said[0]);
    assert!(said[0].contains("28 blocks × 16 = 448 tokens") && said[0].contains("times to first token"), "{}", said[0]);
    assert!(said[1].contains("gave first tokens soonest"));
}

#[test]
fn when_nobody_is_served_it_says_so_and_why() {
    let said = findings(&[("engine.blocks", "1")]);
    assert_eq!(
        said,
        ["No request was served: prompt and output do not fit into a replica's KV pool of 1 block × 16 = 16 tokens."]
    );
}

#[test]
fn differences_of_nothing_are_none() {
    let one = findings(&[("workload.requests", "1")]);
    assert_eq!(one.len(), 1, "{one:?}");
    assert!(
        one[0].starts_with("The policies do not differ here: with each, the one first token came after "),
        "{one:?}"
    );
    let alone = findings(&[("replicas", "1")]);
    assert!(alone[0].starts_with("The policies do not differ here: with each, half of all first tokens"), "{alone:?}");
    for changes in [[("workload.requests", "1")], [("workload.requests", "7")], [("replicas", "1")]] {
        for said in findings(&changes) {
            assert!(!said.contains("times the mean") && !said.contains("0 % against 0 %"), "{said}");
        }
    }
}

/// No sentence of any preset or of small variations compares two figures that read alike.
#[test]
fn no_sentence_compares_a_figure_with_itself() {
    for requests in ["1", "2", "3", "8", "60"] {
        for replicas in ["1", "2", "8"] {
            for preset in ["multi-tenant", "hot-tenant", "tiny-cache"] {
                let spec = spec(preset, &[("workload.requests", requests), ("replicas", replicas)]);
                for said in run_priced(&spec).unwrap().findings {
                    let soonest = said.split_once(" on average, against ").map(|(before, after)| {
                        let fast = before.rsplit(": after ").next().unwrap();
                        (fast.to_owned(), after.split(" with ").next().unwrap().to_owned())
                    });
                    assert!(soonest.is_none_or(|(fast, slow)| fast != slow), "{said}");
                    if let Some((why, _)) =
                        said.strip_prefix("Reuse does not explain it (").and_then(|s| s.split_once(')'))
                    {
                        assert!(why.split_once(" against ").is_none_or(|(high, low)| high != low), "{said}");
                    }
                }
            }
        }
    }
}

/// Against the same difference worked from the policies' own means: over all requests the mean of differences is the difference of means.
#[test]
fn every_policy_is_compared_with_the_best() {
    for seed in ["7", "8", "9"] {
        let report = run_priced(&spec("multi-tenant", &[("seed", seed)])).unwrap();
        let means: Vec<f64> = report.policies.iter().map(|policy| policy.ttft_s.mean).collect();
        let best = (0..3).min_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap();
        for (at, policy) in report.policies.iter().enumerate() {
            if at == best {
                assert_eq!(policy.versus_best, None);
                continue;
            }
            let versus = policy.versus_best.unwrap();
            let means = policy.ttft_s.mean - report.policies[best].ttft_s.mean;
            assert_eq!(versus.n, 300);
            assert!((versus.mean_s - means).abs() < 1e-9, "{versus:?} {means}");
            assert!(versus.low_s < versus.mean_s && versus.mean_s < versus.high_s);
            assert_eq!(versus.significant, versus.low_s > 0.0 || versus.high_s < 0.0);
        }
        assert!(report.policies[0].versus_best.unwrap().significant, "round-robin against affinity");
    }
    // Two names for the same thing differ by nothing, and nothing is not more than noise.
    let alike = run_priced(&spec("multi-tenant", &[("replicas", "1")])).unwrap();
    for policy in &alike.policies[1..] {
        assert!(!policy.versus_best.unwrap().significant && policy.versus_best.unwrap().mean_s == 0.0);
    }
    // A policy that was stopped is not compared.
    let stopped = stopped(2).report();
    assert!(stopped.policies[2].versus_best.is_none());
    assert_eq!(stopped.policies[..2].iter().filter(|policy| policy.versus_best.is_some()).count(), 1);
    let nobody = run_priced(&spec("multi-tenant", &[("engine.blocks", "1")])).unwrap();
    assert!(nobody.policies.iter().all(|policy| policy.versus_best.is_none()));
}

/// Replicas that come when the last request has gone change nothing; in particular not how evenly requests were spread.
#[test]
fn who_never_served_makes_nothing_uneven() {
    let plain = run_priced(&spec("multi-tenant", &[])).unwrap();
    let late = plain.workload.last_arrival_s.ceil().to_string();
    let joined = run_priced(&spec("multi-tenant", &[("events.join", "4"), ("events.join_at_s", &late)])).unwrap();
    for (before, after) in plain.policies.iter().zip(&joined.policies) {
        assert_eq!(before.imbalance, after.imbalance, "{}", before.label);
        assert_eq!(after.replicas.len(), 8);
    }
    // One that was there from the start and got nothing is what uneven means: one tenant, one home of four.
    let one = [("workload.tenants", "1"), ("policies", "prefix_affinity(guard=0)")];
    let home = run_priced(&spec("multi-tenant", &one)).unwrap();
    assert_eq!(home.policies[0].imbalance.assignments, 4.0);
}

/// Headline, table and verdict name the same policy, and who is within noise of it is said.
#[test]
fn headline_table_and_verdict_agree() {
    for preset in ["multi-tenant", "tiny-cache", "slow-replica", "scale-in", "sessions"] {
        for seed in ["1", "2", "3", "4"] {
            let report = run_priced(&spec(preset, &[("seed", seed)])).unwrap();
            let best = report.policies.iter().find(|policy| policy.versus_best.is_none()).unwrap();
            let tied: Vec<&str> = (report.policies.iter())
                .filter(|policy| policy.versus_best.is_some_and(|versus| !versus.significant))
                .map(|policy| policy.label.as_str())
                .collect();
            let said = report.findings.join(" ");
            if let Some((soonest, _)) = said.split_once(" gave first tokens soonest") {
                assert!(soonest.ends_with(&best.label), "{preset} {seed}: {said}");
            }
            for label in &tied {
                assert!(said.contains("within noise") && said.contains(label), "{preset} {seed} {label}: {said}");
            }
            let verdict = report.verdict.unwrap();
            let named = verdict.because.split(" gave first tokens soonest").next().unwrap();
            assert!(named == best.label || verdict.because.contains(" are within noise of each other"), "{said}");
        }
    }
}

/// Two of four client policies answer one request in fifteen, and those at once: their times are the best and say nothing.
#[test]
fn nobody_is_best_because_the_slow_gave_up() {
    let report = run_priced(&spec("backoff-or-budget", &[])).unwrap();
    let [immediate, _, budget, bucket] = &report.policies[..] else { panic!("four policies") };
    assert!(immediate.ttft_s.mean < budget.ttft_s.mean && 5 * immediate.requests.finished < budget.requests.finished);
    assert!(budget.versus_best.is_none() || bucket.versus_best.is_none(), "one of the two that answer is the best");
    assert!(immediate.versus_best.is_some());
    let said = report.findings.join(" ");
    assert!(!said.contains("gave first tokens soonest") && !said.contains("do not differ here"), "{said}");
    for policy in [immediate, budget] {
        let (answered, total) = (policy.ttft_s.n, policy.requests.total);
        let lost = total - policy.requests.finished;
        assert!(said.contains(&format!("{lost} of {total} requests with {}", policy.label)), "{lost} {said}");
        assert!(said.contains(&answered.to_string()), "{answered} {said}");
    }
    assert!(said.contains("only of those that got one"), "{said}");
    // One policy alone: its times are of few, and that stands before them.
    let report = run_priced(&spec("metastable", &[])).unwrap();
    let (policy, said) = (&report.policies[0], report.findings.join(" "));
    let lost = policy.requests.total - policy.requests.finished;
    assert!(said.starts_with(&format!("Without an answer to the end were {lost} of 3000 requests (")), "{said}");
    assert!(said.contains(&format!("gave {} of 3000 requests a first token", policy.ttft_s.n)), "{said}");
    assert!(!said.contains("reused"), "a server has nothing to reuse: {said}");
}

/// What is compared request by request is compared over requests that both answered, and says so.
#[test]
fn a_difference_names_the_requests_it_is_over() {
    let report = run_priced(&spec("retry-storm", &[])).unwrap();
    let (counted, said) = (report.policies[0].versus_best.unwrap(), report.findings.join(" "));
    assert!(
        counted.n < 3000 && said.contains(&format!("over the {} requests that both answered", counted.n)),
        "{said}"
    );
}

/// A retry finds what its own earlier attempt left; that is no reuse, and no cache could give as much.
#[test]
fn retries_do_not_lift_reuse_above_what_can_be_reused() {
    let changes = [
        ("workload.rate", "2.5"),
        ("clients.on", "on"),
        ("clients.policies", "immediate(timeout_s=0.5)"),
        ("policies", "prefix_affinity,round_robin"),
    ];
    let report = run_priced(&spec("multi-tenant", &changes)).unwrap();
    let ceiling = report.workload.ceiling.ratio;
    for policy in &report.policies {
        assert!(policy.requests.attempts > policy.requests.total + 20, "{:?}", policy.requests);
        let (hits, computed) = policy
            .replicas
            .iter()
            .fold((0, 0), |(hits, computed), replica| (hits + replica.hit_tokens, computed + replica.uncached_tokens));
        let by_attempts = hits as f64 / (hits + computed) as f64;
        println!("{}: {} of requests, {by_attempts} of attempts, ceiling {ceiling}", policy.label, policy.reuse.ratio);
        assert!(policy.reuse.ratio <= ceiling && policy.reuse.ratio < by_attempts, "{:?}", policy.reuse);
        assert_eq!(policy.computed_tokens(), computed);
    }
}
