//! What is found in published traces, against values that another program computed. They are no part of this project: where they do not lie beside the
//! checkout, in `shared/traces`, or where `SERVELAB_SHARED` says, these tests say so and check nothing.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use servelab_lab::replay::TouchOrder;
use servelab_lab::run_priced;
use servelab_lab::traffic::findings::findings;
use servelab_lab::traffic::fit::fit;
use servelab_lab::traffic::view::{Look, view};
use servelab_lab::traffic::{Analysis, Traffic, propose};
use servelab_spec::experiment::{GeneratedSpec, LengthLaw, PolicySpec, Spec, WorkloadSpec};
use servelab_workload::trace::{ReadOptions, Reader, Reading, Trace, shelf};
use servelab_workload::{Source, Workload};
use std::path::PathBuf;
use std::sync::Arc;

fn read(bytes: &[u8]) -> Reading {
    let mut reader = Reader::new(ReadOptions::default());
    bytes.chunks(10_000).for_each(|piece| reader.push(piece).unwrap());
    reader.finish().unwrap()
}

fn published(name: &str) -> Option<Reading> {
    let shared = std::env::var_os("SERVELAB_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")));
    let path = shared.join("traces").join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Some(read(&bytes)),
        Err(_) => {
            println!("NOT CHECKED: no trace at {}", path.display());
            None
        }
    }
}

fn analysed(trace: Trace, order: TouchOrder, sizes: &[u32]) -> (Arc<Trace>, Traffic) {
    let name = shelf::put(trace);
    let trace = shelf::find(&name).unwrap();
    let mut analysis = Analysis::ordered(trace.clone(), order, Some(sizes));
    while analysis.advance(77) < 1.0 {}
    (trace, analysis.report())
}

const SIZES: [u32; 5] = [500, 1000, 2000, 5000, 10_000];

fn digits(ratio: f64) -> i64 {
    (ratio * 1e4).round() as i64
}

/// Blocks, tokens, last time, and hits at every size to four digits, in both orders.
#[test]
fn the_conversation_trace_gives_its_check_values() {
    let Some(reading) = published("mooncake_fast25_conversation_2000.jsonl") else { return };
    assert!(reading.remarks.is_empty(), "{:?}", reading.remarks);
    for (order, expected) in [
        (TouchOrder::RootFirst, [383, 411, 493, 1134, 2128, 2941]),
        (TouchOrder::LeafFirst, [383, 414, 495, 1179, 2128, 2941]),
    ] {
        let (_, traffic) = analysed(reading.trace.clone(), order, &SIZES);
        let sharing = traffic.sharing.as_ref().unwrap();
        assert_eq!((sharing.blocks, sharing.unique_blocks, sharing.block_tokens), (54_559, 38_788, 512));
        assert_eq!((traffic.prompt_tokens, traffic.output_tokens), (27_441_774, 704_602));
        assert_eq!((traffic.span_s, traffic.arrivals.step_s, traffic.requests), (669.0, 3.0, 2000));
        let at = |size| sharing.curve.iter().find(|point| point.blocks == size).unwrap().ratio;
        let got: Vec<i64> = SIZES.map(at).into_iter().chain([sharing.unlimited]).map(digits).collect();
        assert_eq!(got, expected, "{order:?}");
        assert_eq!((sharing.first_block_share, sharing.first_blocks, sharing.common_blocks), (1.0, 1, 1));
        let said = findings(&traffic);
        assert!(said[0].starts_with("Every request shares block 0: hashing"), "{said:?}");
        assert!(said.iter().any(|finding| finding.contains("recorded every 3 s")), "{said:?}");
    }
}

#[test]
fn the_synthetic_trace_agrees_with_a_second_program() {
    let Some(reading) = published("mooncake_fast25_synthetic_2000.jsonl") else { return };
    let (_, traffic) = analysed(reading.trace, TouchOrder::LeafFirst, &SIZES);
    let sharing = traffic.sharing.unwrap();
    let at = |size| sharing.curve.iter().find(|point| point.blocks == size).unwrap().ratio;
    let got: Vec<i64> = SIZES.map(at).into_iter().chain([sharing.unlimited]).map(digits).collect();
    assert_eq!(got, [126, 198, 401, 875, 1763, 3363]);
}

/// Sums, and the first and last row by their times: 18:22:50.9400470 − 18:15:46.6805900 = 424.259 457 s.
#[test]
fn the_azure_trace_gives_its_check_values() {
    let Some(reading) = published("azure_llm_2023_conv_2000.csv") else { return };
    assert!(reading.remarks.is_empty(), "{:?}", reading.remarks);
    let rows = reading.trace.rows();
    let ends = [rows[0], rows[1999]].map(|row| (row.at.0, row.prompt, row.output));
    assert_eq!(ends, [(0, 374, 44), (424_259_457_000, 424, 96)]);
    let (_, traffic) = analysed(reading.trace, TouchOrder::LeafFirst, &[]);
    assert_eq!((traffic.prompt_tokens, traffic.output_tokens, traffic.requests), (2_209_565, 529_807, 2000));
    // Another program's CV of the same gaps.
    assert!((traffic.arrivals.gap_cv - AZURE_CV).abs() < 1e-9, "{}", traffic.arrivals.gap_cv);
    assert_eq!(traffic.sharing, None);
    assert!(findings(&traffic)[0].contains("nothing of what prompts share"));
}

/// Standard deviation over mean of the 1999 gaps, by a few lines of Python.
const AZURE_CV: f64 = 1.138_330_952_065_462;

/// The question of the page: the proposed fleet serves every request under every policy, and the same file gives the same bytes.
#[test]
fn a_proposed_fleet_serves_the_trace() {
    let Some(reading) = published("mooncake_fast25_conversation_2000.jsonl") else { return };
    let (trace, traffic) = analysed(reading.trace, TouchOrder::LeafFirst, &[]);
    let mut spec = propose(&traffic);
    spec.validate().unwrap();
    spec.policies = ["round_robin", "prefix_affinity"].map(PolicySpec::named).into();
    let WorkloadSpec::Trace(changes) = &mut spec.workload else { panic!("a trace") };
    // Its beginning, on pools that hold three of the longest prompts: every block of a pool is checked again and again.
    (changes.requests, changes.prompt_cap, spec.engine.blocks) = (100, 16_000, 3200);
    let report = run_priced(&spec).unwrap();
    for policy in &report.policies {
        assert_eq!((policy.requests.total, policy.requests.finished), (100, 100), "{}", policy.label);
        assert!(policy.reuse.ratio > 0.0 && policy.reuse.ratio < 0.35, "{}", policy.reuse.ratio);
    }
    let again = serde_json::to_string(&run_priced(&spec).unwrap()).unwrap();
    assert_eq!(again, serde_json::to_string(&report).unwrap());
    let look = Look { width: 640, height: 300, dark: false };
    let view = view(&trace, &traffic, vec![], look).unwrap();
    assert_eq!(view.charts.len(), 3);
    assert!(view.charts.iter().all(|chart| chart.svg.starts_with("<svg") && !chart.series.is_empty()));
    assert!(
        view.facts.iter().any(|(name, value)| name == "blocks" && value.contains("54\u{202f}559")),
        "{:?}",
        view.facts
    );
}

/// By hand: three turns of one conversation in a table, 100 + 20 ≤ 150 and 150 + 10 ≤ 200: of 450 + 50 prompt tokens a cache finds 100 and then 150.
#[test]
fn conversations_without_keys_are_inferred() {
    let table = "ts,prompt_tokens,output_tokens,session_id\n0,100,20,a\n5,150,10,a\n6,50,10,b\n20,200,10,a\n";
    let (_, traffic) = analysed(read(table.as_bytes()).trace, TouchOrder::LeafFirst, &[]);
    let sharing = traffic.sharing.as_ref().unwrap();
    assert!(sharing.inferred && (sharing.unlimited - 0.5).abs() < 1e-12, "{sharing:?}");
    let sessions = traffic.sessions.as_ref().unwrap();
    assert_eq!((sessions.count, sessions.requests, sessions.turns.max), (2, 4, 3.0));
    assert_eq!((sessions.gap_s.n, sessions.gap_s.p50, sessions.gap_s.max), (2, 5.0, 15.0));
    assert!(findings(&traffic)[0].contains("at most 50 %"), "{:?}", findings(&traffic));
}

/// What so few requests, or so few instants, can not tell is not said.
#[test]
fn nothing_is_made_of_a_handful_of_requests() {
    let said = |rows: &[(u32, u32)]| {
        let table: String = rows.iter().map(|(at, prompt)| format!("{at},{prompt},5\n")).collect();
        let table = format!("ts,prompt_tokens,output_tokens\n{table}");
        findings(&analysed(read(table.as_bytes()).trace, TouchOrder::LeafFirst, &[]).1).join(" ")
    };
    let few: Vec<(u32, u32)> = (0..19).map(|at| (at, 10)).collect();
    assert!(said(&few).contains("19 requests are too few to tell bursts from chance"), "{}", said(&few));
    assert!(said(&[&few[..], &[(19, 11)]].concat()).contains("more even than chance"));
    assert!(said(&[(7, 12); 30]).contains("All 30 requests have the same time"), "{}", said(&[(7, 12); 30]));
}

/// By hand: 30 requests, ten in each of the first, second and fourth of four seconds; a row a tenth of a second apart, so that nothing is on a grid.
#[test]
fn rates_and_lengths_are_counted() {
    let mut table = "arrival_ms,prompt_tokens,output_tokens,tenant\n".to_owned();
    for second in [0, 1, 3] {
        (0..10).for_each(|i| {
            table.push_str(&format!("{},{},{},{}\n", 1000 * second + 99 * i, 10 + i, 5, if i < 3 { "x" } else { "y" }))
        });
    }
    let (trace, traffic) = analysed(read(table.as_bytes()).trace, TouchOrder::LeafFirst, &[]);
    assert_eq!((traffic.requests, traffic.span_s, traffic.prompt.p50, traffic.prompt.max), (30, 3.891, 14.0, 19.0));
    let arrivals = &traffic.arrivals;
    assert_eq!((arrivals.bin_s, arrivals.bins.len(), arrivals.bins.iter().sum::<u32>()), (0.5, 8, 30));
    assert_eq!(
        traffic.tenants.iter().map(|of| (of.name.as_str(), of.requests)).collect::<Vec<_>>(),
        [("y", 21), ("x", 9)]
    );
    let chart = view(&trace, &traffic, vec![], Look { width: 500, height: 300, dark: true }).unwrap().charts.remove(1);
    let prompts = &chart.series[0];
    assert_eq!((prompts.label.as_str(), prompts.x.first(), prompts.y.first()), ("prompt", Some(&10.0), Some(&10.0)));
    assert_eq!((prompts.x.last(), prompts.y.last()), (Some(&19.0), Some(&100.0)));
}

/// A trace of what a generator with known figures made, as a table.
fn recorded(spec: &GeneratedSpec, rate: f64, seed: u64) -> Trace {
    let mut source = Source::new(&WorkloadSpec::Generated(spec.clone()), seed, 16, rate).unwrap();
    let mut table = "arrival_time_ns,prompt_tokens,output_tokens,prefix,prefix_tokens\n".to_owned();
    while let Some(request) = source.next_request() {
        let (at, prompt, output) = (request.arrival.0, request.prompt.len, request.output_tokens);
        table.push_str(&format!("{at},{prompt},{output},t{},{}\n", request.tenant, request.user_at));
    }
    read(table.as_bytes()).trace
}

/// What is fitted to what was generated has the figures it was generated with: the rate and mean lengths to a few per cent, the CV to a tenth.
#[test]
fn a_fit_finds_the_figures_that_a_trace_was_made_with() {
    for (cv, curve) in [(1.0, ""), (2.5, ""), (0.5, "0:1,1:1,1.001:4,2:4")] {
        let figures = GeneratedSpec {
            requests: 8000,
            cv,
            curve: curve.into(),
            hour_s: 200.0,
            system_min: 1,
            system_max: 1,
            user_mean: 300.0,
            output_mean: 80.0,
            prompt_cap: 100_000,
            output_cap: 10_000,
            ..GeneratedSpec::default()
        };
        let (trace, traffic) = analysed(recorded(&figures, 20.0, 3), TouchOrder::LeafFirst, &[]);
        let fitted = fit(&trace, &traffic, LengthLaw::Lognormal);
        let near =
            |got: f64, wanted: f64, by: f64| assert!((got / wanted - 1.0).abs() < by, "{got} for {wanted}: {fitted:?}");
        near(fitted.rate, 20.0, 0.1);
        near(fitted.cv, cv, 0.1);
        near(fitted.user_mean, 300.0, 0.05);
        near(fitted.user_cv, 1.0, 0.15);
        near(fitted.output_mean, 80.0, 0.05);
        assert_eq!(fitted.curve.is_empty(), curve.is_empty(), "{}", fitted.curve);
        // And what it makes in turn looks like it, gaps and all.
        let (_, again) = analysed(recorded(&fitted, fitted.rate, 4), TouchOrder::LeafFirst, &[]);
        near(again.arrivals.gap_cv, traffic.arrivals.gap_cv, 0.15);
        let spec = Spec { workload: WorkloadSpec::Generated(fitted.clone()), ..propose(&traffic) };
        spec.validate().unwrap();
    }
}
