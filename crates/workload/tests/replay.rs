//! A trace played again: what its prompts share, and what each transform does. The traces are written out here, so that expected values can be counted
//! by hand.
#![allow(clippy::unwrap_used)]

use servelab_engine::{BlockKey, Nanos};
use servelab_spec::experiment::{TraceSpec, WorkloadSpec};
use servelab_workload::trace::{ReadOptions, Reader, shelf};
use servelab_workload::{Request, Source, Workload, mean_request, survey};

/// Rows of (ms, prompt, output, keys of 512 tokens), on the shelf.
fn shelved(rows: &[(u64, u32, u32, &[u64])]) -> TraceSpec {
    let line = |(at, prompt, output, keys): &(u64, u32, u32, &[u64])| {
        format!("{{\"timestamp\":{at},\"input_length\":{prompt},\"output_length\":{output},\"hash_ids\":{keys:?}}}\n")
    };
    let text: String = rows.iter().map(line).collect();
    put(&text)
}

fn put(text: &str) -> TraceSpec {
    let mut reader = Reader::new(ReadOptions::default());
    reader.push(text.as_bytes()).unwrap();
    let trace = shelf::put(reader.finish().unwrap().trace);
    TraceSpec { trace, prompt_cap: 100_000, output_cap: 1000, tenants: 1, ..TraceSpec::default() }
}

fn requests(spec: &TraceSpec, seed: u64, block_tokens: u32) -> Vec<Request> {
    let mut source = Source::new(&WorkloadSpec::Trace(spec.clone()), seed, block_tokens, 1.0).unwrap();
    let all: Vec<Request> = std::iter::from_fn(|| source.next_request()).collect();
    assert_eq!(all.len() as u32, source.total());
    assert!(all.is_sorted_by_key(|request| request.arrival));
    assert!(
        (0..)
            .zip(&all)
            .all(|(index, request)| request.index == index && source.request_again(index).as_ref() == Some(request))
    );
    all
}

fn keys(request: &Request) -> Vec<BlockKey> {
    (0..request.prompt.full_blocks()).map(|block| request.prompt.key(block).unwrap()).collect()
}

fn shared(a: &Request, b: &Request) -> usize {
    keys(a).iter().zip(keys(b)).take_while(|(a, b)| **a == *b).count()
}

/// Two prompts that share two recorded blocks of 512 tokens: 1024 tokens of 1100 and 1700, whatever the engine's block is; one that ends beyond
/// the second is not shared.
#[test]
fn prompts_share_what_their_recorded_blocks_say() {
    let spec = shelved(&[(0, 1100, 5, &[1, 2, 3]), (1000, 1700, 5, &[1, 2, 4, 5]), (2000, 1100, 5, &[1, 2, 3])]);
    for block in [1, 16, 100, 512, 700, 1024] {
        let all = requests(&spec, 1, block);
        assert_eq!(all[0].prompt.full_blocks(), 1100 / block);
        assert_eq!(shared(&all[0], &all[1]), (1024 / block) as usize, "blocks of {block}");
        assert_eq!(shared(&all[0], &all[2]), (1100 / block) as usize);
        assert_eq!(all[0].prompt.tail, all[2].prompt.tail);
        assert_ne!(all[0].prompt.tail, all[1].prompt.tail);
        // Every block has a name of its own.
        let distinct: std::collections::BTreeSet<BlockKey> = keys(&all[1]).into_iter().collect();
        assert_eq!(distinct.len(), keys(&all[1]).len());
    }
}

/// 512 tokens counted as 16: 1100 become ⌈34.375⌉ = 35 and 1700 ⌈53.125⌉ = 54; they share 2 blocks of 16. Capped at 20 tokens, one block is left.
#[test]
fn blocks_shrink_and_lengths_with_them() {
    let spec = shelved(&[(0, 1100, 40, &[1, 2, 3]), (1000, 1700, 7, &[1, 2, 4, 5])]);
    let small = TraceSpec { trace_block: 16, ..spec.clone() };
    let all = requests(&small, 1, 16);
    assert_eq!((all[0].prompt.len, all[1].prompt.len, shared(&all[0], &all[1])), (35, 54, 2));
    let mean = mean_request(&WorkloadSpec::Trace(small.clone()));
    assert_eq!((mean.prompt_tokens, mean.output_tokens), (44.5, 23.5));
    let capped = requests(&TraceSpec { prompt_cap: 20, output_cap: 10, ..small }, 1, 16);
    assert_eq!((capped[0].prompt.len, capped[0].output_tokens, shared(&capped[0], &capped[1])), (20, 10, 1));
    assert!(capped.iter().all(|request| request.max_tokens == 10));
    // Half as long: 1024 shared tokens become 512, which are 32 blocks of 16.
    let halved = requests(&TraceSpec { prompt_scale: 0.5, output_scale: 0.5, ..spec }, 1, 16);
    assert_eq!((halved[0].prompt.len, halved[0].output_tokens, halved[1].output_tokens), (550, 20, 4));
    assert_eq!(shared(&halved[0], &halved[1]), 32);
}

/// Rows at 0, 1, … 9 s. From 2 s until 6 s four are left; twice as fast they come every half second; played three times, fresh, nothing is shared between
/// rounds, which begin a mean gap after the last arrival.
#[test]
fn cuts_speed_and_repetitions() {
    let rows: Vec<(u64, u32, u32, &[u64])> = (0..10).map(|i| (i * 1000, 512, 3, &[7][..])).collect();
    let spec = TraceSpec { from_s: 2.0, until_s: 6.0, speed: 2.0, ..shelved(&rows) };
    let seconds = |all: &[Request]| all.iter().map(|request| request.arrival.as_secs()).collect::<Vec<_>>();
    assert_eq!(seconds(&requests(&spec, 1, 16)), [0.0, 0.5, 1.0, 1.5]);
    let played = requests(&TraceSpec { repeat: 3, ..spec.clone() }, 1, 16);
    assert_eq!(seconds(&played), (0..12).map(|i| f64::from(i) * 0.5).collect::<Vec<_>>());
    assert_eq!((shared(&played[0], &played[3]), shared(&played[0], &played[4])), (32, 0));
    let again = requests(&TraceSpec { repeat: 3, repeat_fresh: false, ..spec.clone() }, 1, 16);
    assert_eq!(shared(&again[0], &again[4]), 32);
    assert_eq!(requests(&TraceSpec { requests: 2, ..spec.clone() }, 1, 16).len(), 2);
    let nothing = TraceSpec { from_s: 20.0, until_s: 0.0, ..spec };
    let error = Source::new(&WorkloadSpec::Trace(nothing), 1, 16, 1.0).unwrap_err();
    assert_eq!(error.field, "workload.from_s");
}

/// Conversations of three turns in a table. Thinned to a half, those that stay are whole.
#[test]
fn thinning_keeps_conversations_whole() {
    let mut text = "timestamp,prompt_tokens,output_tokens,session_id\n".to_owned();
    for row in 0..600 {
        text.push_str(&format!("{row},{},{},s{}\n", 100 + 100 * (row / 200), 20, row % 200));
    }
    let spec = TraceSpec { share: 0.5, ..put(&text) };
    let all = requests(&spec, 5, 16);
    let mut turns = std::collections::BTreeMap::new();
    all.iter().for_each(|request| *turns.entry(request.session.unwrap()).or_insert(0) += 1);
    assert!(turns.values().all(|&turns| turns == 3), "whole conversations");
    // Binomial of 200 at a half: 100 ± 4 · 7.1.
    assert!((72..=128).contains(&turns.len()), "{}", turns.len());
    // A turn's prompt begins with the one before: 100 of 200 tokens, of which six blocks of 16 are full.
    let of = |session| all.iter().filter(move |request| request.session == Some(session)).collect::<Vec<_>>();
    let first = of(*turns.keys().next().unwrap());
    assert_eq!((shared(first[0], first[1]), shared(first[1], first[2])), (6, 12));
    let other = of(*turns.keys().nth(1).unwrap());
    assert_eq!(shared(first[0], other[0]), 0);
    assert_ne!(requests(&spec, 6, 16).len(), 0);
}

/// 400 rows, four at each of a hundred instants three seconds apart. Spread, each stays within its step, and instants are no longer shared; as recorded, they are.
#[test]
fn arrivals_of_a_coarse_clock_are_spread_over_its_step() {
    let rows: Vec<(u64, u32, u32, &[u64])> = (0..400).map(|i| (i / 4 * 3000, 100, 3, &[][..])).collect();
    let spec = shelved(&rows);
    let spread = requests(&spec, 3, 16);
    for (index, request) in spread.iter().enumerate() {
        let step = Nanos::from_secs(3.0 * (index / 4) as f64);
        assert!(request.arrival >= step && request.arrival < step + Nanos::from_secs(3.0), "{index}");
    }
    assert!(spread.windows(2).all(|pair| pair[0].arrival < pair[1].arrival));
    // Uniform over the step: the mean is a half of it, ± 4 · 3 ÷ √12 ÷ √400.
    let mean = spread.iter().map(|request| request.arrival.as_secs() % 3.0).sum::<f64>() / 400.0;
    assert!((mean - 1.5).abs() < 4.0 * 3.0 / 12f64.sqrt() / 20.0, "{mean}");
    assert_ne!(spread, requests(&spec, 4, 16), "the seed decides");
    let recorded = requests(&TraceSpec { spread: false, ..spec }, 3, 16);
    assert!(recorded.chunks(4).all(|four| four.iter().all(|request| request.arrival == four[0].arrival)));
}

/// A request a second for 99 s; a spike of ten seconds at three times the mean adds 2 · 10 · 100 ÷ 99 ≈ 20. They share what others share and nothing else.
#[test]
fn a_spike_adds_copies_with_ends_of_their_own() {
    let keys: Vec<[u64; 2]> = (0..100).map(|i| [1, 100 + i]).collect();
    let rows: Vec<(u64, u32, u32, &[u64])> = (0..100).map(|i| (i * 1000, 1024, 3, &keys[i as usize][..])).collect();
    let plain = shelved(&rows);
    let spec = TraceSpec { spike_at_s: 40.0, spike_for_s: 10.0, spike_factor: 3.0, ..plain.clone() };
    let all = requests(&spec, 9, 512);
    assert_eq!(all.len(), 120);
    let inside = all.iter().filter(|request| (40.0..50.0).contains(&request.arrival.as_secs())).count();
    assert_eq!(inside, 30);
    let mut ends: Vec<BlockKey> = all.iter().map(|request| request.prompt.key(1).unwrap()).collect();
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), 120, "no two ends are alike");
    assert!(all.iter().all(|request| request.prompt.key(0) == all[0].prompt.key(0)), "the beginning is everybody's");
    // What an oracle may plan for.
    let source = Source::new(&WorkloadSpec::Trace(spec), 9, 512, 1.0).unwrap();
    assert!(source.peak_rate(Nanos::from_secs(40.0), Nanos::from_secs(50.0)) > 2.0);
    let source = Source::new(&WorkloadSpec::Trace(plain), 9, 512, 1.0).unwrap();
    assert!(source.peak_rate(Nanos::from_secs(40.0), Nanos::from_secs(50.0)) <= 2.0);
}

/// Prompts with a beginning that they share by name: 40 tokens, two blocks of 16.
#[test]
fn named_beginnings_are_shared() {
    let text = "ts,prompt_tokens,output_tokens,prefix,prefix_tokens\n0,100,5,manual,40\n1,90,5,manual,40\n2,100,5,other,40\n3,100,5,,\n";
    let all = requests(&put(text), 1, 16);
    assert_eq!((shared(&all[0], &all[1]), shared(&all[0], &all[2]), shared(&all[2], &all[3])), (2, 0, 0));
}

#[test]
fn a_trace_that_is_not_open_is_told_and_the_sample_always_is() {
    let missing = TraceSpec { trace: "0123456789abcdef".into(), ..TraceSpec::default() };
    let error = Source::new(&WorkloadSpec::Trace(missing), 1, 16, 1.0).unwrap_err();
    assert!(error.field == "workload.trace" && error.accepted.contains("--trace"), "{error}");
    let sample = Source::new(&WorkloadSpec::Trace(TraceSpec::default()), 1, 16, 1.0).unwrap();
    let found = survey(&sample);
    assert_eq!((found.requests, sample.tenant_names()), (96, vec!["search".to_owned(), "assistant".to_owned()]));
    // Its beginnings of 256 and 448 tokens are in every prompt: at least what they are, less the first two.
    let least: u64 =
        (0..96).map(|index| if sample.request_again(index).unwrap().tenant == 0 { 448 } else { 256 }).sum();
    assert!(found.ceiling_hit_tokens >= least - 704, "{found:?}");
    let spec = shelved(&[(0, 7, 7, &[])]);
    shelf::remove(&spec.trace);
    assert!(shelf::find(&spec.trace).is_none());
}
