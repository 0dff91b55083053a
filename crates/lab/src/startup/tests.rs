#![allow(clippy::unwrap_used)]
use super::*;
use presets::find;
use servelab_spec::coldstart::{ColdStart, ColdStartQuery, Fate};
use servelab_spec::experiment::{Readiness, Spec};

fn seconds(spec: &StartupSpec) -> f64 {
    config(spec).nominal().as_secs()
}

fn startup(name: &str) -> StartupSpec {
    find(name).unwrap().startup
}

fn answer(startup: StartupSpec) -> ColdStart {
    cold_start(&ColdStartQuery { startup, ..ColdStartQuery::default() }).unwrap()
}

fn stage(startup: StartupSpec, stage: Stage) -> f64 {
    answer(startup).stages.iter().find(|part| part.stage == stage).unwrap().seconds
}

/// What a stage took before and after a switch, and that no other stage has changed.
fn changes(before: StartupSpec, switch: fn(&mut StartupSpec), stages: &[Stage]) -> Vec<(f64, f64)> {
    let mut after = before;
    switch(&mut after);
    let (before, after) = (answer(before).stages, answer(after).stages);
    let mut out = Vec::new();
    for (before, after) in before.iter().zip(&after) {
        if stages.contains(&before.stage) {
            out.push((before.seconds, after.seconds));
        } else {
            assert_eq!(before.seconds, after.seconds, "{:?}", before.stage);
        }
    }
    out
}

/// 61 + 33 + 52 + 54 + 94 = 294 and 0 + 18 + 23 + 7 + 34 = 82, in seconds, as published.
#[test]
fn the_published_start_of_an_8b_comes_out() {
    let bare = startup("l40s_8b");
    for (of, expected) in [
        (Stage::WeightsToHost, 61.0),
        (Stage::WeightsToDevice, 33.0),
        (Stage::Process, 94.0),
        (Stage::Compile, 52.0),
        (Stage::GraphCapture, 54.0),
    ] {
        assert!((stage(bare, of) - expected).abs() < 0.05, "{of:?}");
    }
    assert!((seconds(&bare) - 294.0).abs() < 0.1, "{}", seconds(&bare));
    assert!((seconds(&startup("l40s_8b_cached")) - 82.0).abs() < 0.1);
    assert!((seconds(&startup("image_8b")) - 60.0 * (5.5 + 3.5 + 2.0)).abs() < 1.0);
}

/// Four times fewer bytes are not a start four times as fast: 94 of the 294 s are bytes, so 23.5 + 200 are left.
#[test]
fn int4_is_not_four_times_faster() {
    let int4 = StartupSpec { bits: 4.0, ..startup("l40s_8b") };
    assert!((seconds(&int4) - 223.5).abs() < 0.1, "{}", seconds(&int4));
    for name in ["l40s_8b", "l40s_8b_cached", "h100_70b"] {
        let whole = startup(name);
        let weights = |spec| stage(spec, Stage::WeightsToHost) + stage(spec, Stage::WeightsToDevice);
        let int4 = StartupSpec { bits: 4.0, ..whole };
        assert!((weights(whole) / weights(int4) - 4.0).abs() < 0.001, "the bytes are");
        assert!(seconds(&whole) / seconds(&int4) < 2.5, "{name}: {} to {}", seconds(&whole), seconds(&int4));
    }
}

/// A start in round numbers: 30 + 10 + 20 + 16 + 4 + 12 + 3 + 40 + 50 + 5 = 190 s.
fn round() -> StartupSpec {
    StartupSpec {
        parameters_b: 8.0,
        node_s: 30.0,
        image_gb: 10.0,
        registry_gb_s: 1.0,
        unpack_gb_s: 0.5,
        store_gb_s: 1.0,
        nvme_gb_s: 2.0,
        device_gb_s: 4.0,
        process_s: 12.0,
        process_local_s: 9.0,
        allocator_s: 3.0,
        compile_s: 40.0,
        compile_cached_s: 15.0,
        graphs_s: 50.0,
        graphs_few_s: 8.0,
        warm_up_s: 5.0,
        ..StartupSpec::default()
    }
}

#[test]
fn every_optimisation_changes_its_own_stage() {
    use Stage::{Compile, GraphCapture, Image, Node, Process, WarmUp, WeightsToDevice, WeightsToHost};
    assert_eq!(seconds(&round()), 190.0);
    assert_eq!(changes(round(), |s| s.warm_node = true, &[Node]), [(30.0, 0.0)]);
    assert_eq!(changes(round(), |s| s.image_pulled = true, &[Image]), [(30.0, 0.0)]);
    // 16 GB at the smaller of 1 and 4 GB/s, the store's.
    assert_eq!(changes(round(), |s| s.streamed = true, &[WeightsToHost, WeightsToDevice]), [(16.0, 16.0), (4.0, 0.0)]);
    assert_eq!(
        changes(round(), |s| s.mapped = true, &[WeightsToHost, WeightsToDevice, WarmUp]),
        [(16.0, 0.0), (4.0, 0.0), (5.0, 21.0)]
    );
    assert_eq!(changes(round(), |s| s.nvme = true, &[WeightsToHost, Process]), [(16.0, 8.0), (12.0, 9.0)]);
    assert_eq!(changes(round(), |s| s.host_cache = true, &[WeightsToHost]), [(16.0, 0.0)]);
    assert_eq!(changes(round(), |s| s.compile_cache = true, &[Compile]), [(40.0, 15.0)]);
    assert_eq!(changes(round(), |s| s.few_graphs = true, &[GraphCapture]), [(50.0, 8.0)]);
    assert_eq!(changes(round(), |s| s.bits = 8.0, &[WeightsToHost, WeightsToDevice]), [(16.0, 8.0), (4.0, 2.0)]);
    assert_eq!(seconds(&StartupSpec { sleep: true, ..round() }), 4.0, "16 GB at 4 GB/s and nothing else");
    // A disk slower than the way to the GPU decides, and a faster one does not.
    let streamed_disk = |nvme_gb_s| StartupSpec { nvme: true, streamed: true, nvme_gb_s, ..round() };
    assert_eq!(stage(streamed_disk(2.0), WeightsToHost), 8.0);
    assert_eq!(stage(streamed_disk(40.0), WeightsToHost), 4.0);
    // Nothing is fetched, so nothing overlaps.
    let cached = StartupSpec { host_cache: true, streamed: true, ..round() };
    assert_eq!(stage(cached, WeightsToHost) + stage(cached, WeightsToDevice), 4.0);
}

/// 16 GB over 4 GPUs at 4 GB/s each, on two nodes with a disk of 2 GB/s each.
#[test]
fn a_group_of_gpus_loads_its_parts_at_once() {
    let group = StartupSpec { tensor_parallel: 4, nodes: 2, ..round() };
    assert_eq!(stage(group, Stage::WeightsToDevice), 1.0);
    assert_eq!(stage(group, Stage::WeightsToHost), 16.0, "the store is shared");
    assert_eq!(stage(StartupSpec { nvme: true, ..group }, Stage::WeightsToHost), 4.0);
    assert_eq!(stage(StartupSpec { reader_gb_s: 0.25, ..group }, Stage::WeightsToHost), 32.0);
    assert_eq!(config(&group).nodes, 2);
}

/// Eight at once: the image is pulled and the weights fetched at an eighth of the bandwidth, the rest takes what it took.
#[test]
fn replicas_that_start_together_share_what_they_share() {
    let ask = |startup, together| {
        cold_start(&ColdStartQuery { startup, together, ..ColdStartQuery::default() }).unwrap().together_s
    };
    assert_eq!(ask(round(), 1), 190.0);
    assert_eq!(ask(round(), 8), 190.0 + 7.0 * (10.0 + 16.0));
    // One reader takes no more than 0.25 GB/s, so four share the store without noticing.
    let slow_reader = StartupSpec { reader_gb_s: 0.25, image_gb: 0.0, ..round() };
    assert_eq!(ask(slow_reader, 4), ask(slow_reader, 1));
    assert_eq!(ask(slow_reader, 8) - ask(slow_reader, 4), 64.0);
    assert_eq!(ask(StartupSpec { nvme: true, image_pulled: true, ..round() }, 64), 30.0 + 8.0 + 4.0 + 9.0 + 98.0);
}

#[test]
fn savings_are_what_the_switch_changes() {
    let savings = answer(round()).savings;
    let of = |key: &str, with: &str| {
        savings.iter().find(|saving| saving.key == format!("startup.{key}") && saving.with == with).unwrap().saves_s
    };
    assert_eq!(of("warm_node", "on"), 30.0);
    assert_eq!(of("streamed", "on"), 4.0);
    assert_eq!(of("sleep", "on"), 186.0);
    assert_eq!(of("bits", "4"), 15.0);
    assert!(savings.iter().all(|saving| !saving.label.is_empty() && !saving.on));
    let streamed = answer(StartupSpec { streamed: true, ..round() }).savings;
    assert!(streamed.iter().any(|saving| saving.key == "startup.streamed" && saving.on && saving.saves_s == 4.0));
}

fn probed(startup: StartupSpec, in_flight: u32) -> ColdStart {
    cold_start(&ColdStartQuery { startup, in_flight, ..ColdStartQuery::default() }).unwrap()
}

fn fetching_140_gb(failures: u32) -> StartupSpec {
    let mut startup = StartupSpec { parameters_b: 70.0, store_gb_s: 1.0, process_s: 20.0, ..StartupSpec::default() };
    startup.probes.startup.on = true;
    startup.probes.startup.failures = failures;
    startup
}

/// 140 GB at 1 GB/s and 20 s more are 160 s, and 5.6 to the GPU; three failures 10 s apart are 20.
#[test]
fn a_startup_probe_that_is_too_short_kills_for_ever() {
    let killed = probed(fetching_140_gb(3), 0);
    assert_eq!(killed.fate, Fate::KilledForEver);
    let kills: Vec<(u32, f64)> = killed
        .probes
        .iter()
        .filter(|mark| mark.verdict.as_deref() == Some("kill"))
        .map(|mark| (mark.life, mark.back_s))
        .collect();
    assert_eq!(kills, [(0, 20.0), (1, 40.0)]);
    assert!(killed.sentence.contains("20 s") && killed.sentence.contains("for ever"), "{}", killed.sentence);
    // Seventeen failures last until the probe at 160 s, eighteen until 170.
    assert_eq!(probed(fetching_140_gb(17), 0).fate, Fate::KilledForEver);
    let saved = probed(fetching_140_gb(18), 0);
    assert_eq!(saved.fate, Fate::Serves);
    assert_eq!(saved.probes.last().unwrap().back_s, 170.0);
}

/// A node and an image are not the container's: probes count from after them.
#[test]
fn probes_count_from_the_start_of_the_container() {
    let late = StartupSpec { node_s: 200.0, image_gb: 10.0, ..fetching_140_gb(18) };
    let answer = probed(late, 0);
    assert_eq!(answer.container_s, 400.0);
    assert_eq!(answer.probes[0].sent_s, 400.0);
    assert_eq!(answer.fate, Fate::Serves);
}

#[test]
fn readiness_before_the_warm_up_makes_the_first_users_wait() {
    for (readiness, fate, ready_s) in [
        (Readiness::Process, Fate::TooEarly, 92.0),
        (Readiness::Health, Fate::TooEarly, 185.0),
        (Readiness::Generation, Fate::Serves, 190.0),
    ] {
        let answer = answer(StartupSpec { readiness, ..round() });
        assert_eq!((answer.fate, answer.ready_s, answer.serves_s), (fate, ready_s, 190.0));
    }
    // With a probe it is noticed at the next tick: container at 60 s, ticks every 10, the engine is there at 185.
    let mut startup = StartupSpec { readiness: Readiness::Health, ..round() };
    startup.probes.readiness.on = true;
    let answer = answer(startup);
    let ready = answer.probes.iter().find(|mark| mark.verdict.is_some()).unwrap();
    assert_eq!((ready.back_s, ready.verdict.as_deref()), (190.0, Some("ready")));
    assert_eq!(answer.fate, Fate::Serves);
}

/// A health answer of 10 ms and 20 more a request: 128 in flight make 2.57 s. With a second to wait it is out 2 periods and a time-out after the first
/// probe that it misses; with fifteen it stays. A liveness probe kills.
#[test]
fn a_saturated_replica_answers_too_late() {
    let mut startup = StartupSpec::default();
    startup.probes.answer_s = 0.01;
    startup.probes.answer_per_request_s = 0.02;
    startup.probes.readiness.on = true;
    startup.probes.readiness.period_s = 5.0;
    assert_eq!(probed(startup, 0).fate, Fate::Serves);
    // Asked under load from the first probe on, it never gets into rotation.
    let never = probed(startup, 128);
    assert_eq!(never.fate, Fate::NeverReady);
    let mut startup = StartupSpec { process_s: 1.0, warm_up_s: 21.0, readiness: Readiness::Health, ..startup };
    let out = probed(startup, 128);
    assert_eq!(out.fate, Fate::OutUnderLoad);
    let verdict = out.probes.iter().find(|mark| mark.verdict.as_deref() == Some("not_ready")).unwrap();
    assert_eq!(verdict.back_s, 36.0, "serves at 22, misses 25, 30 and 35");
    (startup.probes.readiness.timeout_s, startup.probes.readiness.failures) = (15.0, 10);
    assert_eq!(probed(startup, 128).fate, Fate::TooEarly, "it stays, as early as it came");
    startup.probes.liveness.on = true;
    let killed = probed(startup, 128);
    assert_eq!(killed.fate, Fate::KilledUnderLoad);
    assert!(killed.sentence.contains("2.57 s"), "{}", killed.sentence);
}

#[test]
fn every_named_start_is_valid_and_says_its_source() {
    let names: std::collections::BTreeSet<String> = presets::all().into_iter().map(|info| info.name).collect();
    assert_eq!(names.len(), presets::all().len());
    for info in presets::all() {
        Spec { startup: info.startup, ..Spec::default() }.validate().unwrap();
        assert!(!info.label.is_empty() && !info.source.is_empty());
    }
    assert!(config(&StartupSpec::default()).is_instant() && config(&StartupSpec::default()).stages.is_empty());
}

#[test]
fn nonsense_is_refused_at_its_field() {
    let refused = |query: ColdStartQuery| cold_start(&query).unwrap_err().field;
    assert_eq!(refused(ColdStartQuery { together: 0, ..ColdStartQuery::default() }), "together");
    assert_eq!(refused(ColdStartQuery { in_flight: u32::MAX, ..ColdStartQuery::default() }), "in_flight");
    let startup = StartupSpec { node_s: -1.0, ..StartupSpec::default() };
    assert_eq!(refused(ColdStartQuery { startup, ..ColdStartQuery::default() }), "startup.node_s");
}
