//! From logits to a token.
//!
//! On the host, in f64 and with `libm`, whatever the device: a few hundred numbers a sequence, and the same draw in every browser.
//! A draw is a pure function of the logits, the request's seed and the token's index in the output, so batching,
//! chunking and preemption leave it as it was.

use servelab_engine::Sampling;
use servelab_engine::random::Stream;

/// Chooses tokens; holds buffers that are reused from draw to draw.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    order: Vec<u32>,
    weight: Vec<f64>,
}

impl Sampler {
    /// The token for one row of logits.
    ///
    /// Temperature first, then top-k, then top-p on what is left, then one draw. A temperature that is not a positive
    /// finite number is greedy. Between equal logits the lower token id counts as the more likely one, everywhere.
    pub fn choose(&mut self, logits: &[f32], sampling: &Sampling, output_index: u32) -> u32 {
        if !(sampling.temperature > 0.0 && sampling.temperature.is_finite()) || logits.len() < 2 {
            return greedy(logits);
        }
        self.distribution(logits, sampling);
        let total: f64 = self.weight.iter().sum();
        let mut rest = total * Stream::new(sampling.seed, b"sampling").split(u64::from(output_index)).unit();
        for (&token, &weight) in self.order.iter().zip(&self.weight) {
            rest -= weight;
            if rest < 0.0 {
                return token;
            }
        }
        // Rounding may leave a crumb after the last token that has any weight.
        self.order.iter().zip(&self.weight).rev().find(|(_, weight)| **weight > 0.0).map_or(0, |(&token, _)| token)
    }

    /// Leaves the kept tokens in `order` and their weights, relative to the most likely one's 1, in `weight`.
    fn distribution(&mut self, logits: &[f32], sampling: &Sampling) {
        self.order.clear();
        self.order.extend(0..logits.len() as u32);
        let cut = sampling.top_k > 0 && (sampling.top_k as usize) < logits.len();
        let nucleus = sampling.top_p < 1.0;
        if cut || nucleus {
            // No two ids are equal, so the order is total and the unstable sort has one result.
            self.order.sort_unstable_by(|&a, &b| {
                // + 0.0 makes the two zeros one.
                (logits[b as usize] + 0.0).total_cmp(&(logits[a as usize] + 0.0)).then_with(|| a.cmp(&b))
            });
        }
        if cut {
            self.order.truncate(sampling.top_k as usize);
        }
        let best = f64::from(logits[greedy(logits) as usize]);
        let temperature = f64::from(sampling.temperature);
        self.weight.clear();
        self.weight.extend(
            self.order.iter().map(|&token| libm::exp((f64::from(logits[token as usize]) - best) / temperature)),
        );
        if nucleus {
            let wanted = self.weight.iter().sum::<f64>() * f64::from(sampling.top_p.max(0.0));
            let mut sum = 0.0;
            let kept = self.weight.iter().position(|weight| {
                sum += weight;
                sum >= wanted
            });
            let kept = kept.map_or(self.weight.len(), |last| last + 1);
            self.weight.truncate(kept);
            self.order.truncate(kept);
        }
    }
}

/// The most likely token; the lowest id among equals. 0 for an empty row.
pub fn greedy(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = token;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(temperature: f32, top_k: u32, top_p: f32, seed: u64) -> Sampling {
        Sampling { temperature, top_k, top_p, seed }
    }

    /// A softmax written down once more, in the order of the ids.
    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let exps: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
        let sum: f64 = exps.iter().sum();
        exps.iter().map(|exp| exp / sum).collect()
    }

    /// Draws 20 000 tokens and compares with `expected` by Pearson's statistic.
    fn assert_follows(logits: &[f32], sampling: Sampling, expected: &[f64]) {
        let draws = 20_000;
        let mut counts = vec![0.0; logits.len()];
        let mut sampler = Sampler::default();
        for index in 0..draws {
            counts[sampler.choose(logits, &sampling, index) as usize] += 1.0;
        }
        let mut statistic = 0.0;
        let mut cells = 0.0;
        for (token, (&count, &probability)) in counts.iter().zip(expected).enumerate() {
            if probability == 0.0 {
                assert_eq!(count, 0.0, "token {token} has no probability");
            } else {
                let wanted = probability * f64::from(draws);
                statistic += (count - wanted) * (count - wanted) / wanted;
                cells += 1.0;
            }
        }
        // Mean plus five standard deviations of chi-square with cells − 1 degrees of freedom.
        let freedom: f64 = cells - 1.0;
        assert!(statistic <= freedom + 5.0 * (2.0 * freedom).sqrt(), "{statistic} with {freedom} degrees of freedom");
    }

    const LOGITS: [f32; 7] = [0.3, -1.0, 2.0, 0.3, 1.5, -0.2, 0.9];

    #[test]
    fn temperature_draws_from_the_softmax() {
        for (temperature, seed) in [(0.5, 1), (1.0, 2), (3.0, 3)] {
            assert_follows(&LOGITS, sampling(temperature, 0, 1.0, seed), &softmax(&LOGITS, f64::from(temperature)));
        }
    }

    #[test]
    fn top_k_and_top_p_renormalise_what_they_keep() {
        let all = softmax(&LOGITS, 1.0);
        let kept = |tokens: &[usize]| {
            let sum: f64 = tokens.iter().map(|&token| all[token]).sum();
            (0..LOGITS.len()).map(|t| if tokens.contains(&t) { all[t] / sum } else { 0.0 }).collect::<Vec<_>>()
        };
        // By weight: 2, 4, 6, then 0 and 3 tie, so the lower id is kept.
        assert_follows(&LOGITS, sampling(1.0, 4, 1.0, 4), &kept(&[2, 4, 6, 0]));
        assert!(all[2] < 0.6 && all[2] + all[4] > 0.6);
        assert_follows(&LOGITS, sampling(1.0, 0, 0.6, 5), &kept(&[2, 4]));
        // Both: top-p works on the renormalised three, where the first two weigh 0.79.
        assert_follows(&LOGITS, sampling(1.0, 3, 0.75, 6), &kept(&[2, 4]));
        assert_follows(&LOGITS, sampling(1.0, 0, 0.0, 7), &kept(&[2]));
    }

    #[test]
    fn greedy_takes_the_lowest_id_among_equals() {
        let mut sampler = Sampler::default();
        assert_eq!(sampler.choose(&[1.0, 3.0, 3.0, -2.0], &Sampling::default(), 0), 1);
        assert_eq!(sampler.choose(&[-0.0, 0.0], &sampling(1.0, 1, 1.0, 9), 0), 0);
        assert_eq!(sampler.choose(&LOGITS, &sampling(f32::NAN, 0, 1.0, 9), 0), 2);
        assert_eq!(sampler.choose(&LOGITS, &sampling(1e-6, 0, 1.0, 9), 0), 2, "a tiny temperature does not overflow");
    }

    #[test]
    fn a_draw_depends_on_seed_and_index_alone() {
        let draws = |sampler: &mut Sampler, seed| {
            (0..64).map(|index| sampler.choose(&LOGITS, &sampling(1.0, 0, 1.0, seed), index)).collect::<Vec<_>>()
        };
        let mut used = Sampler::default();
        let first = draws(&mut used, 11);
        assert_eq!(first, draws(&mut used, 11));
        assert_eq!(first, draws(&mut Sampler::default(), 11));
        assert_ne!(first, draws(&mut used, 12));
        let late = used.choose(&LOGITS, &sampling(1.0, 0, 1.0, 11), 63);
        assert_eq!(late, first[63], "no draw depends on the ones before it");
    }
}
