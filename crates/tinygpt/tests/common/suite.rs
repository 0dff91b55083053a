//! What every device promises, against the oracle.

use super::desk::{Desk, Line};
use super::oracle::Oracle;
use servelab_engine::random::{Stream, mix};
use servelab_tinygpt::sampling::greedy;
use servelab_tinygpt::{Kernels, KvShape, TinyGptConfig, Weights};

/// Largest difference ÷ largest magnitude that a device may show.
pub const CPU_TOLERANCE: f64 = 1e-4;
/// The same for WebGPU, whose shaders may fuse and reorder.
pub const GPU_TOLERANCE: f64 = 1e-3;

/// Enough blocks for every test, few enough for any device.
pub const SHAPE: KvShape = KvShape { blocks: 97, block_tokens: 16 };

pub fn weights(config: &TinyGptConfig, seed: u64) -> Weights {
    Weights::random(config, seed).unwrap()
}

/// Token ids that look like nothing in particular.
pub fn prompt(seed: u64, len: usize) -> Vec<u32> {
    let mut stream = Stream::new(seed, b"test prompt");
    (0..len).map(|_| stream.below(256) as u32).collect()
}

/// Largest difference ÷ largest magnitude.
pub fn deviation(logits: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(logits.len(), wanted.len());
    assert!(logits.iter().all(|logit| logit.is_finite()), "a logit is not a number");
    let largest = wanted.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let difference = logits.iter().zip(wanted).fold(0.0, |most: f64, (&a, b)| most.max((f64::from(a) - b).abs()));
    difference / largest
}

/// Prefills and decodes, comparing logits at every sampled position. Gives the largest deviation.
pub async fn logits_agree<K: Kernels>(
    desk: &mut Desk<K>,
    weights: &Weights,
    prompt: &[u32],
    steps: usize,
    tolerance: f64,
) -> f64 {
    let mut oracle = Oracle::new(weights);
    let mut lines = [Line::new(prompt)];
    let mut worst: f64 = 0.0;
    for _ in 0..=steps {
        let work = [(0, lines[0].left())];
        let (_, logits) = desk.step(&mut lines, &work).await.unwrap().remove(0);
        let off = deviation(&logits, oracle.logits(&lines[0].tokens));
        assert!(off <= tolerance, "logits differ by {off:.2e} of the largest after {} tokens", lines[0].tokens.len());
        worst = worst.max(off);
        lines[0].tokens.push(greedy(&logits));
    }
    worst
}

/// How a continuation is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each prompt by itself, in one piece.
    Alone,
    /// Seven tokens at a time.
    Chunked,
    /// The common prefix is computed by the first prompt and read by the others.
    CachedPrefix,
    /// The same, all in one step: the others read what the first one fills.
    SharedWithinStep,
    /// Prefill chunks of some beside decodes of others.
    Batched,
    /// After half the output the K and V are gone: prompt and output so far are computed again, elsewhere.
    Preempted,
}

pub const WAYS: [Way; 6] =
    [Way::Alone, Way::Chunked, Way::CachedPrefix, Way::SharedWithinStep, Way::Batched, Way::Preempted];

/// What comparing continuations showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Continuations {
    /// Tokens compared.
    pub tokens: usize,
    /// Tokens that differ from the oracle's although allowed: its two best are closer than the tolerance.
    pub exceptions: usize,
    /// Logits of every sampled row, in a fixed order for each way.
    pub logits: Vec<(Way, Vec<Vec<f32>>)>,
}

/// Continues three prompts with a common prefix greedily, in every way; each token must be the oracle's wherever its two best
/// logits are further apart than the tolerance, and all logits within it.
pub async fn continuations_agree<K: Kernels>(
    mut make: impl FnMut() -> Desk<K>,
    weights: &Weights,
    ways: &[Way],
    output: usize,
    tolerance: f64,
) -> Continuations {
    let common = prompt(1, 32);
    let prompts: Vec<Vec<u32>> =
        [(2, 5), (3, 32), (4, 58)].map(|(seed, len)| [common.clone(), prompt(seed, len)].concat()).to_vec();
    let mut oracles: Vec<Oracle> = prompts.iter().map(|_| Oracle::new(weights)).collect();
    let mut seen = Continuations::default();
    for &way in ways {
        let mut desk = make();
        let mut lines: Vec<Line> = prompts.iter().map(|prompt| Line::new(prompt)).collect();
        let mut rows: Vec<Vec<Vec<f32>>> = vec![vec![]; prompts.len()];
        let mut step = 0;
        while lines.iter().any(|line| line.output().len() < output) {
            let work = work(way, &mut desk, &mut lines, step, output);
            step += 1;
            for (index, logits) in desk.step(&mut lines, &work).await.unwrap() {
                let line = &mut lines[index];
                let wanted = oracles[index].logits(&line.tokens);
                let off = deviation(&logits, wanted);
                assert!(off <= tolerance, "{way:?}: logits differ by {off:.2e} of the largest");
                let token = greedy(&logits);
                seen.tokens += 1;
                if token != best(wanted) {
                    let gap = gap(wanted);
                    assert!(gap <= tolerance, "{way:?}: token {token} instead of {}, gap {gap:.2e}", best(wanted));
                    seen.exceptions += 1;
                }
                line.tokens.push(token);
                rows[index].push(logits);
            }
        }
        seen.logits.push((way, rows.concat()));
    }
    seen
}

/// The next step's work: lines and how many of their tokens.
fn work<K: Kernels>(
    way: Way,
    desk: &mut Desk<K>,
    lines: &mut [Line],
    step: usize,
    output: usize,
) -> Vec<(usize, usize)> {
    let open: Vec<usize> = (0..lines.len()).filter(|&index| lines[index].output().len() < output).collect();
    let first = open[0];
    match way {
        Way::Alone => vec![(first, lines[first].left())],
        Way::Chunked => vec![(first, lines[first].left().min(7))],
        Way::CachedPrefix => {
            if lines[first].computed == 0 && first > 0 {
                let prompt = lines[first].tokens.clone();
                lines[first] = Line::after(&prompt, &lines[0], 32, desk.block_tokens());
            }
            vec![(first, lines[first].left())]
        }
        Way::SharedWithinStep => {
            if step == 0 {
                let (one, others) = lines.split_at_mut(1);
                desk.reserve(&mut one[0], 37);
                for other in others {
                    let prompt = other.tokens.clone();
                    *other = Line::after(&prompt, &one[0], 32, desk.block_tokens());
                }
                // The readers stand before the one that fills: the order of items must not matter.
                return vec![(2, lines[2].left()), (1, lines[1].left()), (0, lines[0].left())];
            }
            open.iter().map(|&index| (index, lines[index].left())).collect()
        }
        Way::Batched => {
            // A new line joins every third step, in chunks, beside the ones that decode already.
            let joined = open.iter().filter(|&&index| index <= step / 3);
            joined.map(|&index| (index, lines[index].left().min(19))).collect()
        }
        Way::Preempted => {
            let line = &mut lines[first];
            if line.output().len() == output / 2 && line.computed + 1 == line.tokens.len() {
                line.computed = 0;
                line.table.clear();
            }
            vec![(first, lines[first].left())]
        }
    }
}

/// The most likely token; the lowest id among equals.
pub fn best(logits: &[f64]) -> u32 {
    (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32
}

/// Distance of the two best ÷ largest magnitude.
pub fn gap(logits: &[f64]) -> f64 {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    (sorted[0] - sorted[1]) / sorted.iter().fold(0.0, |most: f64, x| most.max(x.abs()))
}

/// A cached block is really read, through the block table: overwriting it changes the logits, overwriting another does not.
pub async fn blocks_are_read<K: Kernels>(desk: &mut Desk<K>, tolerance: f64) {
    let mut lines = [Line::new(&prompt(5, 53))];
    desk.step(&mut lines, &[(0, 52)]).await.unwrap();
    let mut again = lines.clone();
    let before = desk.step(&mut again, &[(0, 1)]).await.unwrap().remove(0).1;
    let unused = desk.unused_block();
    desk.executor.cache(0).unwrap().overwrite_block(unused, 0.5);
    let mut again = lines.clone();
    let control = desk.step(&mut again, &[(0, 1)]).await.unwrap().remove(0).1;
    assert_eq!(before, control, "a block that is not in the table was read");
    let cached = lines[0].table[1];
    desk.executor.cache(0).unwrap().overwrite_block(cached, 0.5);
    let after = desk.step(&mut lines, &[(0, 1)]).await.unwrap().remove(0).1;
    let wanted: Vec<f64> = before.iter().map(|&x| f64::from(x)).collect();
    let change = deviation(&after, &wanted);
    assert!(change > 10.0 * tolerance, "overwriting a cached block changed the logits by {change:.2e} only");
}

/// [`fingerprint`] of the CPU kernels with the small model's weights of seed 29, on every host and in every browser.
pub const CPU_FINGERPRINT: u64 = 3_222_365_852_443_741_847;

/// All bits of some logits, mixed into one word.
pub async fn fingerprint<K: Kernels>(desk: &mut Desk<K>) -> u64 {
    let mut lines = [Line::new(&prompt(27, 50)), Line::new(&prompt(28, 21))];
    let mut state = 0;
    for _ in 0..4 {
        let work = [(0, lines[0].left()), (1, lines[1].left())];
        for (index, logits) in desk.step(&mut lines, &work).await.unwrap() {
            state = logits.iter().fold(state, |state, logit| mix(state, u64::from(logit.to_bits())));
            lines[index].tokens.push(greedy(&logits));
        }
    }
    state
}
