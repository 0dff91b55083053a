//! The trainer computes what is served, its gradients are slopes, a run resumes to the bit, and learning learns.
#![cfg(all(feature = "train", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used)]

use crate::common::oracle::Oracle;
use burn::tensor::Device;
use pollster::block_on;
use servelab_tinygpt::train::adamw::AdamW;
use servelab_tinygpt::train::corpus::Corpus;
use servelab_tinygpt::train::graph::Graph;
use servelab_tinygpt::train::schedule::Schedule;
use servelab_tinygpt::train::trainer::{Settings, State};
use servelab_tinygpt::train::{checkpoint, measure};
use servelab_tinygpt::{ByteTokenizer, CpuKernels, KvShape, TinyGptConfig, TinyGptExecutor, Weights};

fn config() -> TinyGptConfig {
    TinyGptConfig {
        width: 64,
        heads: 4,
        kv_heads: 2,
        hidden: 96,
        layers: 2,
        vocabulary: 270,
        ..TinyGptConfig::default()
    }
}

fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * i + seed * 31 + i / 3) % 270).collect()
}

fn settings(steps: u64) -> Settings {
    Settings {
        seed: 3,
        batch: 4,
        length: 16,
        micro: 1,
        dropout: 26,
        schedule: Schedule { peak: 3e-3, floor: 0.1, warm_up: 4, steps },
        optimiser: AdamW::default(),
    }
}

fn corpus() -> Corpus {
    let text: String = (0..3000).map(|i| if i % 7 == 3 { "abc " } else { "fox. " }).collect();
    Corpus::new(&text, &ByteTokenizer, 16).unwrap()
}

#[test]
fn the_graph_computes_what_is_served() {
    let weights = Weights::random(&config(), 5).unwrap();
    let (length, sequences) = (37, 2);
    let tokens = tokens(length * sequences, 1);
    for device in [Device::flex(), Device::flex().autodiff()] {
        let logits = Graph::new(&weights, length, &device).logits(&tokens, None);
        let logits: Vec<f32> = logits.without_autodiff().into_data().iter::<f32>().collect();
        let rows: Vec<&[f32]> = logits.chunks(270).collect();
        for sequence in 0..sequences {
            let mut oracle = Oracle::new(&weights);
            for position in 0..length {
                let history = &tokens[sequence * length..sequence * length + position + 1];
                let expected = oracle.logits(history);
                let row = rows[sequence * length + position];
                let worst = row.iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
                assert!(
                    worst < crate::common::suite::CPU_TOLERANCE,
                    "sequence {sequence}, position {position}: {worst:.1e}"
                );
            }
        }
    }
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    let weights = Weights::random(&config(), 6).unwrap();
    let length = 12;
    let (inputs, targets) = (tokens(2 * length, 1), tokens(2 * length, 2));
    // The loss in f64, by the oracle.
    let loss = |weights: &Weights| -> f64 {
        let mut sum = 0.0;
        for (inputs, targets) in inputs.chunks(length).zip(targets.chunks(length)) {
            let mut oracle = Oracle::new(weights);
            for position in 0..length {
                let logits = oracle.logits(&inputs[..=position]);
                let exps: f64 = logits.iter().map(|logit| logit.exp()).sum();
                sum += exps.ln() - logits[targets[position] as usize];
            }
        }
        sum
    };
    let graph = Graph::new(&weights, length, &Device::flex().autodiff());
    let losses = graph.losses(&inputs, &targets, None);
    let total: f64 = losses.clone().without_autodiff().into_data().iter::<f64>().sum();
    assert!((total - loss(&weights)).abs() < 1e-3, "{total} against {}", loss(&weights));
    let gradients = graph.gradients(losses.sum().backward());
    for (index, (name, _)) in Weights::shapes(&config()).iter().enumerate() {
        let gradient: Vec<f64> = gradients[index].clone().unwrap().into_data().iter::<f64>().collect();
        let largest = (0..gradient.len()).max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs())).unwrap();
        for element in [largest, gradient.len() / 3] {
            let at = |by: f32| {
                let mut moved = weights.clone();
                moved.tensors_mut()[index][element] += by;
                (f64::from(moved.tensors()[index].1[element]), loss(&moved))
            };
            let ((low, below), (high, above)) = (at(-1e-2), at(1e-2));
            let slope = (above - below) / (high - low);
            let allowed = 1e-3 + 2e-2 * slope.abs();
            assert!(
                (slope - gradient[element]).abs() < allowed,
                "{name}[{element}]: {slope} against {}",
                gradient[element]
            );
        }
    }
}

#[test]
fn a_run_that_resumes_goes_on_to_the_bit() {
    let (corpus, settings) = (corpus(), settings(20));
    let mut straight = State::new(&TinyGptConfig::small(), 1).unwrap();
    for _ in 0..3 {
        straight.advance(&corpus, &settings, 2).unwrap();
    }
    let mut stopped = State::new(&TinyGptConfig::small(), 1).unwrap();
    stopped.advance(&corpus, &settings, 2).unwrap();
    let bytes = checkpoint::save(&stopped, &settings).unwrap();
    let (mut resumed, read) = checkpoint::load(&bytes).unwrap();
    assert_eq!((&resumed, &read), (&stopped, &settings));
    for _ in 0..2 {
        resumed.advance(&corpus, &settings, 2).unwrap();
    }
    assert!(resumed == straight, "weights or moments differ");
    // A checkpoint cut short is refused.
    assert!(checkpoint::load(&bytes[..bytes.len() / 2]).is_err());
}

#[test]
fn learning_lowers_the_loss_on_text_that_was_held_out() {
    let (corpus, settings) = (corpus(), settings(60));
    let mut state = State::new(&TinyGptConfig::small(), 1).unwrap();
    let before = state.glance(&corpus.held_out, &settings, 2);
    // Nearly uniform at first, as the small head promises.
    assert!((before - 260f64.ln()).abs() < 0.1, "{before}");
    for _ in 0..60 {
        state.advance(&corpus, &settings, 2).unwrap();
    }
    let after = state.glance(&corpus.held_out, &settings, 2);
    assert!(after < 1.0, "two words in a fixed order: {after} nats a byte");
}

#[test]
fn held_out_loss_is_the_sum_of_what_each_token_costs() {
    let weights = Weights::random(&config(), 8).unwrap();
    let (text, length) = (tokens(53, 4), 12);
    let shape = KvShape { blocks: measure::blocks(length, 4), block_tokens: 4 };
    let mut executor = TinyGptExecutor::new(CpuKernels::new(&weights), shape, None);
    let loss = block_on(measure::held_out(&mut executor, &text, length, |_| {})).unwrap();
    // By the definition: token t is predicted from the start of the last window, begun every six tokens, that predicts it first.
    let mut bits = 270f64.log2();
    for target in 1..text.len() {
        let start = if target < length { 0 } else { (target - length) / 6 * 6 + 6 };
        let mut oracle = Oracle::new(&weights);
        let logits = oracle.logits(&text[start..target]);
        let exps: f64 = logits.iter().map(|logit| logit.exp()).sum();
        bits += (exps.ln() - logits[text[target] as usize]) / std::f64::consts::LN_2;
    }
    assert_eq!(loss.tokens, text.len());
    assert!((loss.bits - bits).abs() < 1e-2, "{} against {bits}", loss.bits);
}
