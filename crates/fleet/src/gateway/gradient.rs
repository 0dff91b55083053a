//! A limit on requests in flight that finds itself: Envoy's gradient controller (after Netflix' concurrency-limits).
//!
//! While the latency sampled in a window is near the least there can be, the limit grows by about its square root; as latency grows, it shrinks in proportion:
//! `gradient = (minRTT + buffer) ÷ sampleRTT`, kept between 0.5 and 2; `limit ← limit · gradient + √(limit · gradient)`. The least latency is
//! measured again and again by letting only a few requests through. Defaults are Envoy's (`adaptive_concurrency.v3`): median, 50 requests at a limit of 3, buffer 25 %, at most
//! 1 000; its example measures every 60 s and updates every 100 ms. A limit that stays at its least for five windows has the least latency measured anew.
//!
//! Envoy's windows are closed by a timer, these by the first answer after their end: nothing can change without answers, and answers come at the same
//! instants whether runs of equal steps are taken at once or not. The measurement is not put off at random, since there is one gateway here.
//!
//! For language models it is a poor fit, and that is the lesson: the round trip of an answer varies with its tokens by two orders of magnitude, so a few long
//! answers look like congestion. With the time to first token as the round trip it works better; both can be chosen.

use super::ask::Ended;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// What counts as a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundTrip {
    /// Until the first token.
    FirstToken,
    /// Until the end of the answer.
    Answer,
}

/// A limit that finds itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientConfig {
    /// What is measured.
    pub round_trip: RoundTrip,
    /// Length of a sampling window.
    pub window: Nanos,
    /// Which quantile stands for a window, 0 to 1.
    pub quantile: f64,
    /// Time between two measurements of the least latency.
    pub min_every: Nanos,
    /// Answers that such a measurement takes, at least 1.
    pub min_samples: u32,
    /// The limit during it, and the least there is; at least 1.
    pub least: u32,
    /// The largest limit.
    pub most: u32,
    /// What is added to the least latency, as a share of it.
    pub buffer: f64,
}

impl GradientConfig {
    /// Envoy's defaults, and where there are none the values of its example; the time to first token as the round trip.
    pub const ENVOY: GradientConfig = GradientConfig {
        round_trip: RoundTrip::FirstToken,
        window: Nanos(100_000_000),
        quantile: 0.5,
        min_every: Nanos(60_000_000_000),
        min_samples: 50,
        least: 3,
        most: 1000,
        buffer: 0.25,
    };
}

/// Windows at the least limit after which the least latency is measured anew.
const STUCK: u32 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gradient {
    pub(crate) config: GradientConfig,
    limit: u32,
    /// Least latency; `None` while it is measured.
    least_rtt: Option<Nanos>,
    /// When it was measured.
    measured: Nanos,
    /// When the window began.
    since: Nanos,
    /// Round trips of the window.
    samples: Vec<Nanos>,
    /// Windows in a row at the least limit.
    stuck: u32,
}

impl Gradient {
    pub(crate) fn new(config: GradientConfig) -> Self {
        Gradient {
            config,
            limit: config.least,
            least_rtt: None,
            measured: Nanos::ZERO,
            since: Nanos::ZERO,
            samples: Vec::new(),
            stuck: 0,
        }
    }

    /// Most attempts in flight now.
    pub(crate) fn limit(&self) -> u32 {
        match self.least_rtt {
            None => self.config.least,
            Some(_) => self.limit,
        }
    }

    pub(crate) fn ended(&mut self, ended: &Ended) {
        let until = match self.config.round_trip {
            RoundTrip::FirstToken => ended.first_token,
            RoundTrip::Answer => Some(ended.now).filter(|_| ended.ok),
        };
        let Some(until) = until else { return };
        // Of answers that were sent before a measurement began nothing is learnt about a quiet system.
        if self.least_rtt.is_none() && ended.sent < self.measured {
            return;
        }
        self.samples.push(until.since(ended.sent));
        match self.least_rtt {
            None if self.samples.len() >= self.config.min_samples as usize => {
                self.least_rtt = Some(self.summary());
                (self.measured, self.since) = (ended.now, ended.now);
            }
            None => {}
            Some(least) if ended.now >= self.since + self.config.window => {
                let sampled = self.summary();
                self.update(least, sampled);
                self.since = ended.now;
                let due = ended.now >= self.measured + self.config.min_every;
                if due || self.stuck >= STUCK {
                    (self.least_rtt, self.measured, self.stuck) = (None, ended.now, 0);
                }
            }
            Some(_) => {}
        }
    }

    /// The window's quantile (nearest rank); the window is empty afterwards.
    fn summary(&mut self) -> Nanos {
        self.samples.sort_unstable();
        let rank = libm::ceil(self.config.quantile * self.samples.len() as f64) as usize;
        let summary = self.samples.get(rank.max(1) - 1).copied().unwrap_or(Nanos(1));
        self.samples.clear();
        summary
    }

    fn update(&mut self, least: Nanos, sampled: Nanos) {
        let buffered = least.0 as f64 * (1.0 + self.config.buffer);
        let gradient = (buffered / sampled.0.max(1) as f64).clamp(0.5, 2.0);
        let scaled = f64::from(self.limit) * gradient;
        let limit = (scaled + libm::sqrt(scaled)) as u32;
        self.limit = limit.clamp(self.config.least, self.config.most);
        self.stuck = if self.limit == self.config.least { self.stuck + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::answered;
    use super::*;

    const MS: u64 = 1_000_000;

    fn answer(at_ms: u64, rtt_ms: u64) -> Ended {
        Ended { sent: Nanos((at_ms - rtt_ms) * MS), first_token: Some(Nanos(at_ms * MS)), ..answered(0, at_ms * MS) }
    }

    fn small() -> Gradient {
        Gradient::new(GradientConfig { min_samples: 3, ..GradientConfig::ENVOY })
    }

    /// By hand, least latency 100 ms, buffer 25: at 100 ms the gradient is 1.25, at 250 ms 0.5, at 50 ms 2 (not 2.5), at 125 ms 1.
    #[test]
    fn the_limit_follows_the_gradient() {
        let mut gradient = small();
        for at in [200, 210, 220] {
            assert_eq!(gradient.limit(), 3);
            gradient.ended(&answer(at, if at == 210 { 100 } else { 60 + at / 2 - 20 }));
        }
        // 140, 100, 150: the median is 140, so say it again with the same three.
        assert_eq!(gradient.least_rtt, Some(Nanos(140 * MS)));
        gradient.least_rtt = Some(Nanos(100 * MS));
        let mut limits = Vec::new();
        for (window, rtt) in [100, 100, 125, 250, 50].into_iter().enumerate() {
            gradient.ended(&answer(320 + 100 * window as u64, rtt));
            limits.push(gradient.limit());
        }
        // 3·1.25 = 3.75 + 1.94 → 5; 5·1.25 = 6.25 + 2.5 → 8; 8 + 2.83 → 10; 10/2 = 5 + 2.24 → 7; 7·2 = 14 + 3.74 → 17.
        assert_eq!(limits, [5, 8, 10, 7, 17]);
    }

    #[test]
    fn a_window_is_told_by_its_quantile_and_closed_by_an_answer() {
        let mut gradient = small();
        (0..3).for_each(|at| gradient.ended(&answer(200 + at, 100)));
        // Within the window nothing happens; the fourth closes it, median of 100, 100, 300, 300 is 100.
        for (at, rtt) in [(250, 300), (280, 100), (290, 100)] {
            gradient.ended(&answer(at, rtt.min(at)));
            assert_eq!(gradient.limit(), 3);
        }
        gradient.ended(&answer(400, 300));
        assert_eq!(gradient.limit(), 5);
    }

    #[test]
    fn the_least_latency_is_measured_again() {
        let mut gradient = small();
        (0..3).for_each(|at| gradient.ended(&answer(200 + at, 100)));
        gradient.ended(&answer(59_000, 100));
        let limit = gradient.limit();
        assert!(limit > 3);
        gradient.ended(&answer(60_300, 100));
        assert_eq!(gradient.limit(), 3);
        // One that was sent before does not count.
        gradient.ended(&answer(60_350, 100));
        for at in [60_500, 60_501, 60_502] {
            gradient.ended(&answer(at, 80));
        }
        assert_eq!(gradient.least_rtt, Some(Nanos(80 * MS)));
        assert!(gradient.limit() >= limit, "and the limit is what it was");
    }

    #[test]
    fn five_windows_at_the_least_limit_measure_again() {
        let mut gradient = small();
        (0..3).for_each(|at| gradient.ended(&answer(200 + at, 100)));
        for window in 0..5 {
            assert!(gradient.least_rtt.is_some(), "window {window}");
            gradient.ended(&answer(20_000 + 200 * window, 10_000));
        }
        assert_eq!((gradient.least_rtt, gradient.limit()), (None, 3));
    }
}
