//! Replicas that start for real, and the trained model as the model of a live run.
#![cfg(all(feature = "flex", feature = "files", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use pollster::block_on;
use servelab_engine::{ExecuteError, Executor, PlanItem, Sampling, SequenceId, StepPlan};
use servelab_spec::experiment::{ModelChoice, Stage};
use servelab_tinygpt::trained::{self, Get};
use servelab_tinygpt::{Alphabet, CpuKernels, KvShape, TinyGptConfig, TinyGptExecutor, Weights};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

const SHAPE: KvShape = KvShape { blocks: 16, block_tokens: 16 };

/// A prompt of `tokens` at the start of a sequence.
fn prefill(tokens: &[u32]) -> StepPlan {
    let blocks = (tokens.len() as u32).div_ceil(SHAPE.block_tokens);
    let item = PlanItem {
        sequence: SequenceId(0),
        start: 0,
        len: tokens.len() as u32,
        sample: true,
        decode: false,
        output_index: 0,
        sampling: Sampling::default(),
        tokens_at: 0,
        table_at: 0,
        table_len: blocks,
    };
    StepPlan {
        repeat: 1,
        items: vec![item],
        tokens: tokens.to_vec(),
        tables: (0..blocks).collect(),
        ..StepPlan::default()
    }
}

/// Files from the page's folder, and how often one was asked for.
fn folder(asked: &Rc<Cell<u32>>) -> Get {
    let asked = asked.clone();
    Rc::new(move |file, _| {
        asked.set(asked.get() + 1);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/model").join(file);
        Box::pin(std::future::ready(std::fs::read(path).map_err(|error| error.to_string())))
    })
}

fn small() -> TinyGptExecutor<CpuKernels> {
    let weights = Weights::random(&TinyGptConfig::small(), trained::WEIGHTS_SEED).unwrap();
    let get: Get = Rc::new(|file, _| Box::pin(std::future::ready(Err(format!("{file}: random weights need no file")))));
    TinyGptExecutor::new(CpuKernels::new(&weights), SHAPE, Some(Box::new(|| 1.0)))
        .fetching(trained::fetch(ModelChoice::Small, get))
}

const STAGES: [Stage; 3] = [Stage::WeightsToHost, Stage::WeightsToDevice, Stage::WarmUp];

#[test]
fn a_started_replica_has_weights_of_its_own_and_says_the_same() {
    let mut executor = small();
    let plan = prefill(&[1, 2, 3, 4, 5]);
    let shared = block_on(executor.logits(0, &plan)).unwrap().to_vec();
    for (done, stage) in STAGES.into_iter().enumerate() {
        assert_eq!(executor.started(), usize::from(done > 1), "before {stage:?}");
        block_on(executor.boot(3, stage)).unwrap();
    }
    assert_eq!(executor.started(), 1);
    assert_eq!(block_on(executor.logits(3, &plan)).unwrap(), shared, "to the bit");
    executor.released(3);
    assert_eq!(executor.started(), 0);
    assert_eq!(block_on(executor.logits(3, &plan)).unwrap(), shared, "it shares again");
}

#[test]
fn stages_that_another_executor_did_are_done_first() {
    let mut executor = small();
    block_on(executor.boot(1, Stage::WarmUp)).unwrap();
    assert_eq!(executor.started(), 1);
}

#[test]
fn what_can_not_be_started_is_refused() {
    let mut executor = small();
    let refused = block_on(executor.boot(2, Stage::Compile)).unwrap_err();
    assert_eq!(refused, ExecuteError::NoStart { replica: 2, stage: Stage::Compile });
    // Weights of another model than the fleet's.
    let get: Get = Rc::new(|_, _| Box::pin(std::future::ready(Err("gone".into()))));
    let mut other = small().fetching(trained::fetch(ModelChoice::Reference, get.clone()));
    assert!(matches!(block_on(other.boot(0, Stage::WeightsToHost)), Err(ExecuteError::Weights { replica: 0, .. })));
    // A folder that is not there any more.
    let mut other = small().fetching(trained::fetch(ModelChoice::Trained, get));
    let error = block_on(other.boot(0, Stage::WeightsToHost)).unwrap_err();
    assert!(error.to_string().contains("replica 0 does not start: gone"), "{error}");
    let weights = Weights::random(&TinyGptConfig::small(), 0).unwrap();
    let mut bare = TinyGptExecutor::new(CpuKernels::new(&weights), SHAPE, None);
    assert!(matches!(block_on(bare.boot(0, Stage::WarmUp)), Err(ExecuteError::NoStart { .. })));
}

/// The model that comes with the page reads bytes and is fetched anew by each replica that starts.
#[test]
fn the_trained_model_serves_byte_prompts() {
    let asked = Rc::default();
    let get = folder(&asked);
    let (weights, alphabet) = block_on(trained::open(ModelChoice::Trained, &get)).unwrap();
    let alphabet: Alphabet = alphabet.unwrap();
    assert_eq!(asked.replace(0), 3, "manifest, tokenizer, weights");
    let mut executor = TinyGptExecutor::new(CpuKernels::new(&weights), SHAPE, Some(Box::new(|| 0.0)))
        .fetching(trained::fetch(ModelChoice::Trained, get))
        .speaking(alphabet.clone());
    let mut ids: Vec<u32> = "The old man of the s".bytes().map(u32::from).collect();
    for _ in 0..12 {
        let next = block_on(executor.execute(0, &prefill(&ids))).unwrap().tokens[0];
        assert!((260..260 + alphabet.vocabulary()).contains(&next), "no byte, no special: {next}");
        ids.push(next);
    }
    let text = alphabet.text(&ids);
    println!("{text:?}");
    assert!(text.starts_with("The old man of the s") && text.len() > 30);
    let letters = text.chars().filter(|c| c.is_ascii_alphabetic() || c.is_ascii_whitespace()).count();
    assert!(letters * 10 >= text.len() * 8, "words, not noise: {text:?}");
    for stage in STAGES {
        block_on(executor.boot(1, stage)).unwrap();
    }
    assert_eq!(asked.get(), 2, "manifest and weights, once more");
    assert_eq!(block_on(executor.execute(1, &prefill(&ids))), block_on(executor.execute(0, &prefill(&ids))));
}
