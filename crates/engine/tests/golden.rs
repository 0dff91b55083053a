//! Small cases worked by hand: block size 4, so that every table can be checked on paper.
#![allow(clippy::unwrap_used, missing_docs)]

use servelab_engine::{
    Engine, EngineConfig, EngineEvent, FinishReason, Nanos, Prompt, Refusal, Sampling, SequenceId, SequenceRequest,
    StepOutput, continuation_keys,
};

// The same cases run in a browser, as part of `web.rs`.
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn config(blocks: u32) -> EngineConfig {
    EngineConfig {
        block_tokens: 4,
        blocks,
        max_batch: 4,
        token_budget: 64,
        max_context: 256,
        materialise: true,
        ..EngineConfig::default()
    }
}

fn request(id: u64, tokens: &[u32], output: u32) -> SequenceRequest {
    SequenceRequest {
        id: SequenceId(id),
        prompt: Prompt::from_tokens(tokens, 4, 0),
        max_tokens: output,
        output_tokens: output,
        ignore_eos: true,
        sampling: Sampling::default(),
        adapter: None,
        tenant: id as u32,
        output_seed: 0,
    }
}

fn range(from: u32, to: u32) -> Vec<u32> {
    (from..to).collect()
}

/// Plans one step; its items as (sequence, start, len, sample, table).
fn plan(engine: &mut Engine) -> Vec<(u64, u32, u32, bool, Vec<u32>)> {
    match engine.plan(Nanos::ZERO, 1) {
        None => Vec::new(),
        Some(plan) => plan
            .items
            .iter()
            .map(|item| (item.sequence.0, item.start, item.len, item.sample, plan.item_table(item).to_vec()))
            .collect(),
    }
}

/// Commits the step in flight with token 100 for everybody.
fn commit(engine: &mut Engine) -> Vec<EngineEvent> {
    let sampled = engine.in_flight().unwrap().items.iter().filter(|item| item.sample).count();
    let mut events = Vec::new();
    let output = StepOutput { tokens: vec![100; sampled], seconds: None };
    engine.commit(Nanos::ZERO, &output, &mut events).unwrap();
    events
}

fn admitted(events: &[EngineEvent]) -> Vec<(u64, u32, bool)> {
    events
        .iter()
        .filter_map(|event| match *event {
            EngineEvent::Admitted { id, cached_tokens, first, .. } => Some((id.0, cached_tokens, first)),
            _ => None,
        })
        .collect()
}

fn run(engine: &mut Engine) -> Vec<EngineEvent> {
    let mut all = Vec::new();
    while !plan(engine).is_empty() {
        all.append(&mut commit(engine));
    }
    all
}

/// 8 tokens are exactly two blocks, both cached: the second is recomputed whole, into a block of its own.
#[test]
fn a_block_aligned_fully_cached_prompt_recomputes_its_last_block() {
    let mut engine = Engine::new(config(8)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 8), 1)).unwrap();
    assert_eq!(plan(&mut engine), [(1, 0, 8, true, vec![0, 1])]);
    let events = commit(&mut engine);
    assert_eq!(
        events[1..],
        [
            EngineEvent::FirstToken { id: SequenceId(1) },
            EngineEvent::Tokens { id: SequenceId(1), count: 1 },
            EngineEvent::Finished { id: SequenceId(1), output_tokens: 1, reason: FinishReason::Length },
        ]
    );
    engine.submit(Nanos::ZERO, request(2, &range(0, 8), 1)).unwrap();
    // Free queue after sequence 1 freed 1, then 0: [2, 3, 4, 5, 6, 7, 1, 0]. The hit takes 0 from its end.
    assert_eq!(plan(&mut engine), [(2, 4, 4, true, vec![0, 2])]);
    assert_eq!(admitted(&commit(&mut engine)), [(2, 4, true)]);
    // 9 tokens: both blocks may come from the cache, since a token is left to compute.
    engine.submit(Nanos::ZERO, request(3, &range(0, 9), 1)).unwrap();
    assert_eq!(plan(&mut engine), [(3, 8, 1, true, vec![0, 1, 3])]);
    assert_eq!(admitted(&commit(&mut engine)), [(3, 8, true)]);
    assert_eq!((engine.stats().hit_tokens, engine.stats().prompt_tokens), (12, 25));
}

/// Both arrive before the first step: the second reads the block that the first fills in the same step.
#[test]
fn a_block_is_shared_within_the_step_that_fills_it() {
    let mut engine = Engine::new(config(8)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 6), 2)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(0, 7), 2)).unwrap();
    assert_eq!(plan(&mut engine), [(1, 0, 6, true, vec![0, 1]), (2, 4, 3, true, vec![0, 2])]);
    let shared: Vec<u32> = engine.blocks().map(|block| block.refs).collect();
    assert_eq!(shared, [2, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(admitted(&commit(&mut engine)), [(1, 0, true), (2, 4, true)]);
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let mut engine = Engine::new(config(3)).unwrap();
    // 9 + 4 tokens, the last of which is never fed: 12 slots, three blocks.
    engine.submit(Nanos::ZERO, request(1, &range(0, 9), 4)).unwrap();
    let refused = engine.submit(Nanos::ZERO, request(2, &range(0, 9), 5));
    assert_eq!(refused, Err(Refusal::TooManyBlocks { needed: 4, blocks: 3 }));
    let refused = engine.submit(Nanos::ZERO, request(3, &range(0, 200), 57));
    assert_eq!(refused, Err(Refusal::TooLong { tokens: 257, max_context: 256 }));
    assert_eq!(engine.submit(Nanos::ZERO, request(1, &[1], 1)), Err(Refusal::Duplicate { id: SequenceId(1) }));
    let empty = SequenceRequest { prompt: Prompt { len: 0, ..request(4, &[1], 1).prompt }, ..request(4, &[1], 1) };
    assert_eq!(engine.submit(Nanos::ZERO, empty), Err(Refusal::EmptyPrompt));
    assert_eq!(engine.submit(Nanos::ZERO, request(5, &[1], 0)), Err(Refusal::NoOutput));
    let keys = SequenceRequest { prompt: Prompt::from_tokens(&range(0, 9), 2, 0), ..request(6, &[1], 1) };
    assert_eq!(engine.submit(Nanos::ZERO, keys), Err(Refusal::Keys { len: 9, keys: 4, expected: 2 }));
    let none = SequenceRequest { prompt: Prompt { tokens: None, ..request(7, &[1], 1).prompt }, ..request(7, &[1], 1) };
    assert_eq!(engine.submit(Nanos::ZERO, none), Err(Refusal::Tokens { len: 1, given: 0 }));
    assert_eq!((engine.stats().submitted, engine.stats().refused), (1, 7));
    run(&mut engine);
    assert_eq!(engine.stats().finished, 1);
    assert_eq!(engine.stats().peak_used_blocks, 3);
}

/// A finished chain is freed from its end, so its end is evicted first and its beginning last.
#[test]
fn the_end_of_a_chain_is_evicted_before_its_beginning() {
    let mut engine = Engine::new(config(4)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 13), 1)).unwrap();
    assert_eq!(plan(&mut engine), [(1, 0, 13, true, vec![0, 1, 2, 3])]);
    commit(&mut engine);
    // Free queue [3, 2, 1, 0]; 3 holds one token and is not cached. Two blocks of other content take 3 and 2.
    engine.submit(Nanos::ZERO, request(2, &range(50, 58), 1)).unwrap();
    assert_eq!(plan(&mut engine), [(2, 0, 8, true, vec![3, 2])]);
    assert!(commit(&mut engine).contains(&EngineEvent::Evicted { blocks: 1 }));
    // Free queue [1, 0, 2, 3]: of the first chain two blocks are left.
    engine.submit(Nanos::ZERO, request(3, &range(0, 13), 1)).unwrap();
    assert_eq!(plan(&mut engine), [(3, 8, 5, true, vec![0, 1, 2, 3])]);
    assert_eq!(admitted(&commit(&mut engine)), [(3, 8, true)]);
    assert_eq!(engine.stats().evictions, 3);
}

/// Two sequences of 4 + 6 tokens in four blocks: each wants three.
#[test]
fn the_newest_is_preempted_and_resumes_with_its_tokens() {
    let mut engine = Engine::new(EngineConfig { prefix_cache: false, ..config(4) }).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 4), 6)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(10, 14), 6)).unwrap();
    assert_eq!(plan(&mut engine), [(1, 0, 4, true, vec![0]), (2, 0, 4, true, vec![1])]);
    commit(&mut engine);
    for start in 4..8 {
        let one = (1, start, 1, true, vec![0, 2]);
        let two = (2, start, 1, true, vec![1, 3]);
        assert_eq!(plan(&mut engine), [one, two]);
        commit(&mut engine);
    }
    // Both have 9 tokens, 8 computed. The first wants a third block: the second gives up 3, then 1.
    assert_eq!(plan(&mut engine), [(1, 8, 1, true, vec![0, 2, 3])]);
    let events = commit(&mut engine);
    assert_eq!(events[0], EngineEvent::Preempted { id: SequenceId(2) });
    assert!(matches!(events.last(), Some(EngineEvent::Finished { id: SequenceId(1), .. })));
    // All nine tokens are recomputed, its own five among them, and the tenth is sampled.
    assert_eq!(plan(&mut engine), [(2, 0, 9, true, vec![1, 3, 2])]);
    assert_eq!(engine.in_flight().unwrap().tokens, [10, 11, 12, 13, 100, 100, 100, 100, 100]);
    assert_eq!(engine.in_flight().unwrap().items[0].output_index, 5);
    let events = commit(&mut engine);
    assert_eq!(admitted(&events), [(2, 0, false)]);
    assert!(!events.contains(&EngineEvent::FirstToken { id: SequenceId(2) }));
    assert!(engine.is_idle());
    assert_eq!((engine.stats().preemptions, engine.stats().generated_tokens), (1, 12));
    assert_eq!((engine.stats().admitted, engine.stats().prompt_tokens), (2, 8));
}

/// Budget 8: decodes first, then as much of the prompt as is left of the budget.
#[test]
fn chunks_fill_the_budget_and_whole_prompts_exceed_it() {
    let budget = |chunked_prefill| EngineConfig { token_budget: 8, chunked_prefill, ..config(16) };
    let mut engine = Engine::new(budget(true)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 4), 9)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(20, 40), 9)).unwrap();
    engine.submit(Nanos::ZERO, request(3, &range(60, 64), 9)).unwrap();
    assert_eq!(plan(&mut engine), [(1, 0, 4, true, vec![0]), (2, 0, 4, false, vec![1])]);
    commit(&mut engine);
    assert_eq!(plan(&mut engine), [(1, 4, 1, true, vec![0, 2]), (2, 4, 7, false, vec![1, 3, 4])]);
    commit(&mut engine);
    assert_eq!(plan(&mut engine), [(1, 5, 1, true, vec![0, 2]), (2, 11, 7, false, vec![1, 3, 4, 5, 6])]);
    commit(&mut engine);
    // Two tokens of the second are left, five of the budget: the third enters, with all it has.
    assert_eq!(
        plan(&mut engine),
        [(1, 6, 1, true, vec![0, 2]), (2, 18, 2, true, vec![1, 3, 4, 5, 6]), (3, 0, 4, true, vec![7])]
    );

    let mut engine = Engine::new(budget(false)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 4), 9)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(20, 40), 9)).unwrap();
    engine.submit(Nanos::ZERO, request(3, &range(60, 64), 9)).unwrap();
    // The second would exceed the budget beside another prefill, so it waits one step; the third waits behind it.
    assert_eq!(plan(&mut engine), [(1, 0, 4, true, vec![0])]);
    commit(&mut engine);
    assert_eq!(plan(&mut engine), [(1, 4, 1, true, vec![0, 1]), (2, 0, 20, true, vec![2, 3, 4, 5, 6])]);
    commit(&mut engine);
    let third: Vec<u64> = plan(&mut engine).iter().map(|item| item.0).collect();
    assert_eq!(third, [1, 2, 3]);
}

#[test]
fn one_prefill_admits_one_a_step() {
    let mut engine = Engine::new(EngineConfig { one_prefill: true, ..config(16) }).unwrap();
    for id in 1..=3 {
        engine.submit(Nanos::ZERO, request(id, &range(id as u32 * 10, id as u32 * 10 + 4), 5)).unwrap();
    }
    for step in 1..=3 {
        assert_eq!(plan(&mut engine).len(), step);
        commit(&mut engine);
    }
}

/// An aborted step leaves nothing in the cache, and who read from it starts again too.
#[test]
fn an_aborted_step_withdraws_what_it_would_have_filled() {
    let mut engine = Engine::new(config(8)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 9), 2)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(0, 9), 2)).unwrap();
    assert_eq!(plan(&mut engine), [(1, 0, 9, true, vec![0, 1, 2]), (2, 8, 1, true, vec![0, 1, 3])]);
    engine.abort();
    assert!(engine.blocks().all(|block| block.refs == 0 && !block.cached && block.tenant.is_none()));
    assert_eq!((engine.stats().hit_tokens, engine.stats().prompt_tokens, engine.stats().steps), (0, 0, 0));
    let waiting: Vec<u64> = engine.waiting().map(|sequence| sequence.id.0).collect();
    assert_eq!(waiting, [1, 2]);
    let again = plan(&mut engine);
    assert_eq!((again[0].1, again[1].1), (0, 8));
    assert_eq!(admitted(&commit(&mut engine)), [(1, 0, true), (2, 8, true)]);
}

/// What decode fills, the session's next turn finds: with token ids, and with keys only.
#[test]
fn the_next_turn_finds_what_decode_filled() {
    // 6 + 7 tokens, of which 12 are computed: blocks 0 to 2 are full, two of them by decode.
    let mut engine = Engine::new(config(16)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 6), 7)).unwrap();
    run(&mut engine);
    assert_eq!(engine.output(SequenceId(1)), Some([100; 7].as_slice()));
    let mut turn = range(0, 6);
    turn.extend([100; 7]);
    turn.extend(range(200, 205));
    engine.submit(Nanos::ZERO, request(2, &turn, 1)).unwrap();
    plan(&mut engine);
    assert_eq!(admitted(&commit(&mut engine)), [(2, 12, true)]);

    let mut engine = Engine::new(EngineConfig { materialise: false, ..config(16) }).unwrap();
    let keys_only = |id, tokens: &[u32], output| {
        let request = request(id, tokens, output);
        SequenceRequest { prompt: Prompt { tokens: None, ..request.prompt }, ..request }
    };
    let first = keys_only(1, &range(0, 6), 7);
    let mut next = keys_only(2, &turn, 1);
    let continued = continuation_keys(&first.prompt, first.output_seed, 7, 4);
    let keys: Vec<_> = first.prompt.own_keys.iter().copied().chain(continued).collect();
    assert_eq!(keys.len(), 3);
    let mut own = next.prompt.own_keys.to_vec();
    own[..3].copy_from_slice(&keys);
    next.prompt.own_keys = own.into();
    engine.submit(Nanos::ZERO, first).unwrap();
    let mut events = Vec::new();
    while engine.plan(Nanos::ZERO, 100).is_some() {
        engine.commit(Nanos::ZERO, &StepOutput::default(), &mut events).unwrap();
    }
    engine.submit(Nanos::ZERO, next).unwrap();
    engine.plan(Nanos::ZERO, 1).unwrap();
    events.clear();
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut events).unwrap();
    assert_eq!(admitted(&events), [(2, 12, true)]);
}

/// End-of-text ends a sequence unless it is ignored; either way it counts as a token.
#[test]
fn end_of_text() {
    for ignore_eos in [false, true] {
        let mut engine = Engine::new(config(8)).unwrap();
        let wanted = SequenceRequest { ignore_eos, ..request(1, &range(0, 4), 3) };
        engine.submit(Nanos::ZERO, wanted).unwrap();
        engine.plan(Nanos::ZERO, 1).unwrap();
        let mut events = Vec::new();
        let output = StepOutput { tokens: vec![257], seconds: None };
        engine.commit(Nanos::ZERO, &output, &mut events).unwrap();
        let finished = EngineEvent::Finished { id: SequenceId(1), output_tokens: 1, reason: FinishReason::EndOfText };
        assert_eq!(events.contains(&finished), !ignore_eos);
        assert_eq!(engine.is_idle(), !ignore_eos);
    }
}

/// The watermark keeps two blocks free of newcomers, but not for ever: into an empty batch everyone may go.
#[test]
fn the_watermark_concerns_admission_beside_others_only() {
    let mut engine = Engine::new(EngineConfig { watermark_blocks: 2, ..config(4) }).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 8), 4)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(20, 24), 4)).unwrap();
    engine.submit(Nanos::ZERO, request(3, &range(40, 56), 1)).unwrap();
    // Two blocks are left beside the first: not one more than the watermark.
    assert_eq!(plan(&mut engine).len(), 1);
    commit(&mut engine);
    run(&mut engine);
    assert_eq!(engine.stats().finished, 3);
}

/// A request that takes the place of a cancelled one does not inherit that the other did not fit.
#[test]
fn a_newcomer_is_not_blocked_by_a_cancelled_head() {
    let mut engine = Engine::new(EngineConfig { prefix_cache: false, ..config(4) }).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 6), 3)).unwrap();
    assert_eq!(plan(&mut engine).len(), 1);
    engine.submit(Nanos::ZERO, request(2, &range(0, 12), 1)).unwrap();
    commit(&mut engine);
    // Three blocks beside two of four.
    assert_eq!(plan(&mut engine).len(), 1);
    assert!(engine.cancel(Nanos::ZERO, SequenceId(2)));
    engine.submit(Nanos::ZERO, request(3, &range(0, 4), 1)).unwrap();
    commit(&mut engine);
    assert_eq!(plan(&mut engine).len(), 2);
}

/// Sharing saves memory, not attention reads: two sequences over the same blocks read twice their context.
#[test]
fn context_is_counted_logically() {
    let mut engine = Engine::new(config(8)).unwrap();
    engine.submit(Nanos::ZERO, request(1, &range(0, 6), 2)).unwrap();
    engine.submit(Nanos::ZERO, request(2, &range(0, 6), 2)).unwrap();
    plan(&mut engine);
    let work = engine.in_flight().unwrap().work;
    // Six tokens over 1 to 6, then two over 5 and 6.
    assert_eq!((work.prefill_tokens, work.prefill_context), (8, 21 + 11));
    assert_eq!((work.decode_sequences, work.decode_context), (0, 0));
    commit(&mut engine);
    plan(&mut engine);
    let work = engine.in_flight().unwrap().work;
    assert_eq!((work.prefill_tokens, work.prefill_context), (0, 0));
    assert_eq!((work.decode_sequences, work.decode_context), (2, 7 + 7));
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |change: fn(&mut EngineConfig)| {
        let mut config = EngineConfig::default();
        change(&mut config);
        Engine::new(config).unwrap_err().to_string()
    };
    assert_eq!(refused(|c| c.blocks = 0), "engine.blocks is 0; accepted is 1 to 67108864");
    assert_eq!(refused(|c| c.token_budget = 7), "engine.token_budget is 7; accepted is 8 to 1073741824");
    assert_eq!(refused(|c| c.watermark_blocks = 384), "engine.watermark_blocks is 384; accepted is 0 to 383");
    assert!(refused(|c| c.block_tokens = 0).contains("block_tokens"));
    assert!(refused(|c| c.max_batch = 0).contains("max_batch"));
    assert!(refused(|c| c.max_context = 1).contains("max_context"));
    let spec = servelab_spec::experiment::EngineSpec { watermark: 0.01, ..Default::default() };
    assert_eq!(EngineConfig::from_spec(&spec, true).watermark_blocks, 3);
}

/// Each invariant notices when it is broken.
#[test]
fn every_invariant_can_fail() {
    let mut engine = Engine::new(EngineConfig { max_batch: 2, ..config(8) }).unwrap();
    for id in 1..=3 {
        engine.submit(Nanos::ZERO, request(id, &range(0, 6), 9)).unwrap();
    }
    plan(&mut engine);
    commit(&mut engine);
    plan(&mut engine);
    let state = serde_json::to_value(&engine).unwrap();
    let damage = [
        ("/kv/pool/free", serde_json::json!(4), "E1"),
        ("/kv/pool/entries/3/next", serde_json::json!(3), "E1"),
        ("/kv/pool/entries/0/refs", serde_json::json!(3), "invariant E2"),
        ("/kv/cache/entries/5/cached", serde_json::json!(true), "E1/E3"),
        ("/kv/reusable", serde_json::json!(1), "E1/E3"),
        ("/sequences/places/2/table", serde_json::json!([0]), "invariant E4"),
        ("/waiting", serde_json::json!([2, 2]), "invariant E5"),
        ("/waiting", serde_json::json!([]), "invariant E5"),
        ("/sequences/places/2/request/id", serde_json::json!(1), "invariant E5"),
        ("/config/max_batch", serde_json::json!(1), "invariant E6"),
        ("/sequences/places/1/table", serde_json::json!([0, 2, 3]), "invariant E7"),
        ("/kv/cache/entries/0/key", serde_json::json!(7), "invariant E8"),
        ("/sequences/places/0/outputs", serde_json::json!(9), "invariant E9"),
        ("/sequences/places/2/request/max_tokens", serde_json::json!(500), "invariant E9"),
        ("/flight/plan/items/0/start", serde_json::json!(5), "invariant E10"),
        ("/flight/flying", serde_json::json!(false), "invariant E10"),
        ("/stats/waiting", serde_json::json!(0), "invariant E11"),
        ("/stats/submitted", serde_json::json!(4), "invariant E11"),
        ("/adapters", serde_json::json!([1, 1]), "invariant E12"),
        ("/sequences/places/2/fetch", serde_json::json!({"from": 0, "to": 8, "until": 0}), "invariant E13"),
        ("/sequences/places/0/fetch", serde_json::json!({"from": 0, "to": 4, "until": 99}), "invariant E13"),
    ];
    for (field, value, invariant) in damage {
        let mut damaged = state.clone();
        *damaged.pointer_mut(field).expect(field) = value;
        let error = serde_json::from_value::<Engine>(damaged).expect_err(field).to_string();
        assert!(error.contains(invariant), "{field}: {error}");
    }
}

/// Three blocks are free, and the second request lacks four, until the first one's decode fills a block they share.
#[test]
fn who_waits_for_blocks_enters_when_decode_fills_one_to_share() {
    let first = request(1, &range(0, 4), 9);
    let mut prompt = range(0, 4);
    prompt.extend([100; 4]);
    prompt.extend(range(20, 30));
    let second = request(2, &prompt, 1);
    let mut engine = Engine::new(config(5)).unwrap();
    engine.submit(Nanos::ZERO, first.clone()).unwrap();
    plan(&mut engine);
    commit(&mut engine);
    engine.submit(Nanos::ZERO, second.clone()).unwrap();
    for start in 4..7 {
        assert_eq!(plan(&mut engine), [(1, start, 1, true, vec![0, 1])]);
        commit(&mut engine);
    }
    assert_eq!(plan(&mut engine), [(1, 7, 1, true, vec![0, 1]), (2, 8, 10, true, vec![0, 1, 2, 3, 4])]);

    // The same with keys only: the run ends before the step that fills the block.
    let mut second = second;
    let name = continuation_keys(&first.prompt, 0, 4, 4).next().unwrap();
    second.prompt.own_keys[1] = name;
    let mut engine = Engine::new(EngineConfig { materialise: false, ..config(5) }).unwrap();
    engine.submit(Nanos::ZERO, first).unwrap();
    engine.plan(Nanos::ZERO, 9).unwrap();
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut Vec::new()).unwrap();
    engine.submit(Nanos::ZERO, second).unwrap();
    let run = engine.plan(Nanos::ZERO, 9).unwrap();
    assert_eq!((run.items.len(), run.items[0].start, run.repeat), (1, 4, 3));
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut Vec::new()).unwrap();
    let both = engine.plan(Nanos::ZERO, 9).unwrap();
    assert_eq!((both.items.len(), both.items[1].start, both.repeat), (2, 8, 1));
}
