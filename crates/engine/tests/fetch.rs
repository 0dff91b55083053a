//! What comes from outside while a sequence waits.
#![allow(clippy::unwrap_used, missing_docs)]

use servelab_engine::{
    BlockKey, Engine, EngineConfig, EngineEvent, Nanos, Prompt, Sampling, SequenceId, SequenceRequest, StepOutput,
};

const LATER: Nanos = Nanos(100);

fn engine(blocks: u32) -> Engine {
    let config = EngineConfig {
        blocks,
        max_batch: 4,
        token_budget: 64,
        max_context: 256,
        write_through: true,
        ..EngineConfig::default()
    };
    Engine::new(config).unwrap()
}

/// A prompt of `len` tokens of its own.
fn request(id: u64, len: u32) -> SequenceRequest {
    let own_keys = (0..len / 16).map(|block| BlockKey(1000 * id + u64::from(block))).collect();
    let prompt = Prompt { len, shared_keys: [].into(), own_keys, tail: BlockKey(id), tokens: None };
    SequenceRequest {
        id: SequenceId(id),
        prompt,
        max_tokens: 40,
        output_tokens: 2,
        ignore_eos: true,
        sampling: Sampling::default(),
        adapter: None,
        tenant: 0,
        output_seed: id,
    }
}

fn commit(engine: &mut Engine, now: Nanos) -> Vec<EngineEvent> {
    let mut events = Vec::new();
    engine.commit(now, &StepOutput::default(), &mut events).unwrap();
    events
}

fn admitted(events: &[EngineEvent]) -> Vec<(u64, u32, u32)> {
    let each = events.iter().filter_map(|event| match event {
        EngineEvent::Admitted { id, cached_tokens, fetched_tokens, .. } => {
            Some((id.0, *cached_tokens, *fetched_tokens))
        }
        _ => None,
    });
    each.collect()
}

#[test]
fn a_sequence_waits_for_its_fetch_and_others_pass() {
    let mut engine = engine(32);
    engine.submit(Nanos::ZERO, request(1, 50)).unwrap();
    assert!(engine.fetch(SequenceId(1), 0, 32, LATER));
    assert!(engine.plan(Nanos::ZERO, 1).is_none(), "all that is here waits");
    assert_eq!(engine.next_fetch(), Some(LATER));
    assert!(engine.only_fetches(Nanos(99)) && !engine.only_fetches(LATER));
    engine.submit(Nanos(10), request(2, 20)).unwrap();
    let plan = engine.plan(Nanos(10), 1).unwrap();
    assert_eq!(plan.items.iter().map(|item| (item.sequence.0, item.start, item.len)).collect::<Vec<_>>(), [(2, 0, 20)]);
    assert_eq!(admitted(&commit(&mut engine, Nanos(60))), [(2, 0, 0)]);
    // The fetch ends in the middle of this step.
    assert_eq!(engine.plan(Nanos(60), 1).unwrap().items.len(), 1);
    commit(&mut engine, Nanos(120));
    let plan = engine.plan(Nanos(120), 1).unwrap();
    assert_eq!(
        plan.items.iter().map(|item| (item.sequence.0, item.start, item.len)).collect::<Vec<_>>(),
        [(1, 32, 18)]
    );
    assert_eq!(plan.work.prefill_tokens, 18);
    // What came is shared like anything else.
    assert_eq!(engine.cached_tokens(&request(1, 50).prompt), 48);
    assert_eq!(admitted(&commit(&mut engine, Nanos(130))), [(1, 0, 32)]);
    let stats = engine.stats();
    assert_eq!((stats.hit_tokens, stats.fetched_tokens, stats.prompt_tokens, stats.prefill_tokens), (0, 32, 70, 38));
    // Only what was computed is told to whoever keeps it.
    let mut filled = Vec::new();
    engine.drain_filled(&mut filled);
    assert_eq!(filled, [2000, 1002].map(BlockKey));
}

#[test]
fn at_least_one_token_is_computed_and_whole_blocks_count() {
    let mut engine = engine(32);
    engine.submit(Nanos::ZERO, request(1, 48)).unwrap();
    assert!(!engine.fetch(SequenceId(1), 0, 15, LATER), "no whole block");
    assert!(!engine.fetch(SequenceId(1), 8, 32, LATER), "from the middle of a block");
    assert!(!engine.fetch(SequenceId(2), 0, 32, LATER), "nobody of that name");
    assert!(engine.fetch(SequenceId(1), 0, 48, Nanos::ZERO), "there at once");
    let plan = engine.plan(Nanos::ZERO, 1).unwrap();
    assert_eq!((plan.items[0].start, plan.items[0].len), (32, 16));
    assert!(!engine.fetch(SequenceId(1), 0, 32, LATER), "it runs already");
}

/// Blocks that were cached when the fetch was asked for, and are gone when it ends, leave a gap before what came.
#[test]
fn a_gap_makes_a_fetch_vain() {
    let mut engine = engine(8);
    engine.submit(Nanos::ZERO, SequenceRequest { output_tokens: 1, ..request(1, 34) }).unwrap();
    engine.plan(Nanos::ZERO, 1).unwrap();
    commit(&mut engine, Nanos(1));
    let longer = |id| {
        let mut longer = request(1, 66);
        longer.id = SequenceId(id);
        longer
    };
    assert_eq!(engine.cached_tokens(&longer(2).prompt), 32);
    engine.submit(Nanos(1), longer(2)).unwrap();
    assert!(engine.fetch(SequenceId(2), 32, 64, LATER));
    // Another one takes the whole pool meanwhile.
    engine.submit(Nanos(1), SequenceRequest { output_tokens: 1, max_tokens: 8, ..request(3, 120) }).unwrap();
    engine.plan(Nanos(1), 1).unwrap();
    commit(&mut engine, Nanos(2));
    engine.plan(Nanos(2), 1).unwrap();
    commit(&mut engine, Nanos(3));
    let plan = engine.plan(LATER, 1).unwrap();
    assert_eq!((plan.items[0].sequence, plan.items[0].start), (SequenceId(2), 0));
    assert_eq!(admitted(&commit(&mut engine, Nanos(101))), [(2, 0, 0)]);
}

#[test]
fn an_aborted_step_gives_back_what_came_and_a_preemption_loses_it() {
    let mut engine = engine(32);
    engine.submit(Nanos::ZERO, request(1, 50)).unwrap();
    engine.fetch(SequenceId(1), 0, 32, Nanos(5));
    let before = *engine.stats();
    engine.plan(Nanos(5), 1).unwrap();
    engine.abort();
    assert_eq!(engine.cached_tokens(&request(1, 50).prompt), 0, "it was never shared");
    assert_eq!((engine.stats().fetched_tokens, engine.stats().admitted), (before.fetched_tokens, before.admitted));
    assert_eq!(engine.plan(Nanos(6), 1).unwrap().items[0].start, 32, "it still lies beside the pool");
    commit(&mut engine, Nanos(7));
    engine.forget_kv();
    assert_eq!(engine.plan(Nanos(8), 1).unwrap().items[0].start, 0);
}

#[test]
fn who_leaves_takes_its_fetch_along_and_a_saved_engine_waits_on() {
    let mut engine = engine(32);
    for id in 1..=2 {
        engine.submit(Nanos::ZERO, request(id, 50)).unwrap();
        engine.fetch(SequenceId(id), 0, 32, Nanos(100 * id));
    }
    assert!(engine.plan(Nanos::ZERO, 1).is_none());
    let text = serde_json::to_string(&engine).unwrap();
    let mut again: Engine = serde_json::from_str(&text).unwrap();
    assert_eq!(again.next_fetch(), Some(Nanos(100)));
    assert!(engine.cancel(Nanos(1), SequenceId(1)));
    assert_eq!(engine.next_fetch(), Some(Nanos(200)));
    assert!(again.plan(Nanos(100), 1).is_some());
    // A fetch of more than its prompt is no state to go on from.
    let damaged = text.replacen("\"to\":32", "\"to\":64", 1);
    assert!(damaged != text && serde_json::from_str::<Engine>(&damaged).is_err());
}
