//! The waiting queue's limits, worked by hand.
#![allow(clippy::unwrap_used, missing_docs)]

use servelab_engine::{
    Engine, EngineConfig, EngineEvent, Nanos, Prompt, QueueConfig, Refusal, Sampling, SequenceId, SequenceRequest,
    StepOutput,
};

// The same cases run in a browser, as part of `web.rs`.
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// One place in the batch, so that everybody but the first waits.
fn engine(queue: QueueConfig) -> Engine {
    Engine::new(EngineConfig { block_tokens: 4, blocks: 64, max_batch: 1, queue, ..EngineConfig::default() }).unwrap()
}

fn request(id: u64, prompt: u32, output: u32) -> SequenceRequest {
    let tokens: Vec<u32> = (0..prompt).map(|at| id as u32 * 1000 + at).collect();
    SequenceRequest {
        id: SequenceId(id),
        prompt: Prompt::from_tokens(&tokens, 4, 0),
        max_tokens: output,
        output_tokens: output,
        ignore_eos: true,
        sampling: Sampling::default(),
        adapter: None,
        tenant: 0,
        output_seed: 0,
    }
}

fn step(engine: &mut Engine, from: u64, to: u64) -> Vec<EngineEvent> {
    assert!(engine.plan(Nanos(from), 1).is_some());
    let mut events = Vec::new();
    engine.commit(Nanos(to), &StepOutput::default(), &mut events).unwrap();
    engine.expire(Nanos(to), &mut events);
    events
}

#[test]
fn sglang_counts_who_waits_and_vllm_who_runs_as_well() {
    for (count_running, most) in [(false, 2), (true, 3)] {
        let mut engine = engine(QueueConfig { max_requests: most, count_running, ..QueueConfig::default() });
        engine.submit(Nanos(0), request(0, 8, 4)).unwrap();
        step(&mut engine, 0, 10);
        // One runs. Two more may wait either way.
        for id in 1..3 {
            engine.submit(Nanos(10), request(id, 8, 4)).unwrap();
        }
        let refused = engine.submit(Nanos(10), request(3, 8, 4)).unwrap_err();
        assert_eq!(refused, Refusal::QueueFull { requests: most, most });
        assert!(refused.is_for_now());
        assert_eq!(engine.stats().refused, 1);
    }
}

#[test]
fn tokens_count_until_the_first_token() {
    let mut engine = engine(QueueConfig { max_tokens: 30, ..QueueConfig::default() });
    // Alone, a prompt longer than the limit is taken: it would never be otherwise.
    engine.submit(Nanos(0), request(0, 40, 4)).unwrap();
    let refused = engine.submit(Nanos(0), request(1, 8, 4)).unwrap_err();
    assert_eq!(refused, Refusal::QueueTokens { tokens: 48, most: 30 });
    step(&mut engine, 0, 10);
    assert_eq!(engine.stats().prefill_backlog, 0);
    engine.submit(Nanos(10), request(2, 20, 4)).unwrap();
    engine.submit(Nanos(10), request(3, 10, 4)).unwrap();
    assert_eq!(engine.stats().prefill_backlog, 30);
    let refused = engine.submit(Nanos(10), request(4, 1, 4)).unwrap_err();
    assert_eq!(refused, Refusal::QueueTokens { tokens: 31, most: 30 });
    assert!(engine.cancel(Nanos(10), SequenceId(2)));
    assert_eq!(engine.stats().prefill_backlog, 10);
}

#[test]
fn who_waits_too_long_is_dropped_between_steps() {
    let mut engine = engine(QueueConfig { ttl: Nanos(25), ..QueueConfig::default() });
    engine.submit(Nanos(0), request(0, 8, 9)).unwrap();
    step(&mut engine, 0, 10);
    engine.submit(Nanos(4 + 10), request(1, 8, 1)).unwrap();
    engine.submit(Nanos(16), request(2, 8, 1)).unwrap();
    assert_eq!(engine.next_expiry(), Some(Nanos(39)));
    let expired = |events: &[EngineEvent]| -> Vec<u64> {
        let of = |event: &EngineEvent| match event {
            EngineEvent::Expired { id } => Some(id.0),
            _ => None,
        };
        events.iter().filter_map(of).collect()
    };
    assert!(expired(&step(&mut engine, 20, 38)).is_empty());
    // In the middle of a step nobody looks at the queue.
    assert!(engine.plan(Nanos(38), 1).is_some());
    let mut events = Vec::new();
    engine.expire(Nanos(40), &mut events);
    assert!(events.is_empty());
    engine.commit(Nanos(50), &StepOutput::default(), &mut events).unwrap();
    engine.expire(Nanos(50), &mut events);
    assert_eq!(expired(&events), [1, 2]);
    assert_eq!((engine.stats().expired, engine.stats().waiting, engine.next_expiry()), (2, 0, None));
}

/// The wait of the last of the queue: places in it times the time at its head.
#[test]
fn a_wait_is_predicted_from_how_the_queue_moved() {
    let mut engine = engine(QueueConfig { max_wait: Nanos(100), ..QueueConfig::default() });
    let mut now = 0;
    // Nobody has been admitted, so nothing is known and everybody is taken.
    for id in 0..3 {
        engine.submit(Nanos(now), request(id, 8, 1)).unwrap();
    }
    // Each is one step of 40: at once, after 40, after 80. At the head: 0, which says nothing yet, then 40 and 40.
    for _ in 0..3 {
        step(&mut engine, now, now + 40);
        now += 40;
    }
    // Admitted at the instant of arrival, with nobody at the head for any time: 40 − 40/8 + 0 = 35.
    engine.submit(Nanos(now), request(3, 8, 1)).unwrap();
    step(&mut engine, now, now + 40);
    now += 40;
    // Alone at 35, behind one at 70, behind two at 105.
    engine.submit(Nanos(now), request(4, 8, 1)).unwrap();
    engine.submit(Nanos(now), request(5, 8, 1)).unwrap();
    let refused = engine.submit(Nanos(now), request(6, 8, 1)).unwrap_err();
    assert_eq!(refused, Refusal::TooLate { wait: Nanos(105), most: Nanos(100) });
}
