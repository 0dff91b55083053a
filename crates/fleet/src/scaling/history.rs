//! What scrapes found, as far back as anybody looks.
//!
//! Gauges are kept as they were read, counters as totals since the replica came into being: a rate is a difference of two scrapes, as in every
//! monitoring system, so a short window sees noise and a long one sees late. A replica that a scrape did not reach has no value there.

use super::signal::{Over, Signal};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use std::collections::VecDeque;

/// Upper ends of the TTFT histogram's buckets, seconds: vLLM's `vllm:time_to_first_token_seconds`. What is longer than the last goes to one
/// more bucket.
pub const TTFT_BUCKETS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

/// Counts by bucket, the last one for what is longer.
pub type TtftCounts = [u32; TTFT_BUCKETS.len() + 1];

/// One replica at one scrape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSample {
    /// Its index.
    pub replica: u32,
    /// Which life of that index: values of different lives are not compared.
    pub life: u32,
    /// Requests waiting.
    pub waiting: u32,
    /// Requests running.
    pub running: u32,
    /// Share of KV blocks in use.
    pub kv_usage: f64,
    /// Seconds of virtual time since it can run.
    pub up_s: f64,
    /// Of those, spent in steps.
    pub busy_s: f64,
    /// Of those, spent by the host's cores, summed over cores and divided by their number.
    pub cpu_s: f64,
    /// Seconds that the arithmetic of all computed tokens takes at full speed.
    pub compute_s: f64,
    /// Preemptions so far.
    pub preemptions: u64,
    /// Requests sent to it so far.
    pub arrivals: u64,
    /// Tokens generated so far.
    pub tokens: u64,
    /// Requests admitted so far.
    pub admitted: u64,
    /// Σ of their waiting, seconds.
    pub queue_s: f64,
    /// First tokens delivered so far, by TTFT. Boxed: a sample is moved more often than read.
    pub ttft: Box<TtftCounts>,
}

/// One scrape of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// Requests that the gateway holds.
    pub held: u32,
    /// Requests that have arrived at the gateway so far, repeats included.
    pub arrivals: u64,
    /// The replicas that were reached, by index.
    pub pods: Vec<PodSample>,
}

/// Samples, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Takes in a scrape and drops what is older than `window` before it, but for the last one beyond (differences start there). Answers with a
    /// dropped sample, to be filled again.
    pub fn push(&mut self, sample: Sample, window: Nanos) -> Option<Sample> {
        let from = Nanos(sample.at.0.saturating_sub(window.0));
        self.samples.push_back(sample);
        let mut dropped = None;
        while self.samples.len() > 2 && self.samples[1].at <= from {
            dropped = self.samples.pop_front();
        }
        dropped
    }

    /// The newest scrape.
    pub fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The newest value of `signal` at one replica; `None` when the latest scrape did not reach it, or when nothing was counted yet.
    pub fn pod(&self, replica: u32, signal: Signal, over: Over) -> Option<f64> {
        let newest = self.latest()?;
        let last = newest.pod(replica)?;
        let samples = || self.within(over).filter_map(|sample| sample.pod(replica).filter(|pod| pod.life == last.life));
        if signal.is_gauge() {
            return reduce(samples().map(|pod| pod.gauge(signal)), over);
        }
        match over {
            Over::Max(_) => {
                let mut before: Option<&PodSample> = None;
                let values = samples().filter_map(|pod| {
                    let value = before.and_then(|before| pod.since(before, signal));
                    before = Some(pod);
                    value
                });
                values.reduce(f64::max)
            }
            Over::Latest | Over::Mean(_) => {
                let mut samples = samples();
                last.since(samples.next()?, signal)
            }
        }
    }

    /// The samples of one replica, in one life, at both ends of what `over` spans: what was counted lies between them. The same one twice when there is no
    /// earlier one.
    pub fn ends(&self, replica: u32, over: Over) -> Option<(&PodSample, &PodSample)> {
        let last = self.latest()?.pod(replica)?;
        let first = self.within(over).filter_map(|sample| sample.pod(replica)).find(|pod| pod.life == last.life);
        Some((first.unwrap_or(last), last))
    }

    /// The newest value of `signal` of the whole fleet: a sum or a mean over the replicas that have one, as [`Signal::adds_up`] says. Queues
    /// include what the gateway holds; arrivals are counted there.
    pub fn fleet(&self, signal: Signal, over: Over) -> Option<f64> {
        let newest = self.latest()?;
        match signal {
            Signal::ArrivalRate => {
                let rate = |from: &Sample, to: &Sample| {
                    let seconds = to.at.since(from.at).as_secs();
                    (seconds > 0.0).then(|| (to.arrivals - from.arrivals) as f64 / seconds)
                };
                match over {
                    Over::Max(_) => {
                        let later = self.within(over).skip(1);
                        self.within(over).zip(later).filter_map(|(from, to)| rate(from, to)).reduce(f64::max)
                    }
                    Over::Latest | Over::Mean(_) => rate(self.within(over).next()?, newest),
                }
            }
            Signal::QueueDepth | Signal::InFlight | Signal::Running => {
                let held = |sample: &Sample| if signal == Signal::Running { 0.0 } else { f64::from(sample.held) };
                let total =
                    |sample: &Sample| held(sample) + sample.pods.iter().map(|pod| pod.gauge(signal)).sum::<f64>();
                reduce(self.within(over).map(total), over)
            }
            _ => {
                let (mut sum, mut n) = (0.0, 0u32);
                for pod in &newest.pods {
                    if let Some(value) = self.pod(pod.replica, signal, over) {
                        (sum, n) = (sum + value, n + 1);
                    }
                }
                let divisor = if signal.adds_up() { 1.0 } else { f64::from(n) };
                (n > 0).then(|| sum / divisor)
            }
        }
    }

    /// The samples that `over` spans, the oldest first. What is counted needs one before the first value.
    fn within(&self, over: Over) -> impl Iterator<Item = &Sample> {
        let newest = self.latest().map_or(Nanos::ZERO, |sample| sample.at);
        let count = self.samples.len();
        let first = match over {
            Over::Latest => count.saturating_sub(2),
            Over::Mean(window) | Over::Max(window) => {
                let from = Nanos(newest.0.saturating_sub(window.0));
                // The last one that is not younger than the window, else the oldest there is.
                self.samples.partition_point(|sample| sample.at <= from).saturating_sub(1).min(count.saturating_sub(2))
            }
        };
        self.samples.range(first.min(count)..)
    }
}

/// Mean, maximum or last of the values of gauges. The value at the window's start belongs to the time before it.
fn reduce(values: impl Iterator<Item = f64>, over: Over) -> Option<f64> {
    match over {
        Over::Latest => values.last(),
        Over::Max(_) => values.reduce(f64::max),
        Over::Mean(_) => {
            let (mut first, mut sum, mut n) = (None, 0.0, 0u32);
            for value in values {
                match first {
                    None => first = Some(value),
                    Some(_) => (sum, n) = (sum + value, n + 1),
                }
            }
            if n == 0 { first } else { Some(sum / f64::from(n)) }
        }
    }
}

impl Sample {
    /// The sample of one replica, if it was reached.
    pub fn pod(&self, replica: u32) -> Option<&PodSample> {
        self.pods.binary_search_by_key(&replica, |pod| pod.replica).ok().map(|at| &self.pods[at])
    }
}

impl PodSample {
    fn gauge(&self, signal: Signal) -> f64 {
        match signal {
            Signal::QueueDepth => self.waiting.into(),
            Signal::Running => self.running.into(),
            Signal::KvUsage => self.kv_usage,
            _ => f64::from(self.waiting) + f64::from(self.running),
        }
    }

    /// What was counted since `before`, per second where it is a rate; `None` where that is no number.
    fn since(&self, before: &PodSample, signal: Signal) -> Option<f64> {
        let per_second = |amount: f64| {
            let seconds = self.up_s - before.up_s;
            (seconds > 0.0).then(|| amount / seconds)
        };
        match signal {
            Signal::CpuUtilisation => per_second(self.cpu_s - before.cpu_s),
            Signal::ComputeUtilisation => per_second(self.compute_s - before.compute_s),
            Signal::GpuUtilisation => per_second(self.busy_s - before.busy_s),
            Signal::Preemptions => per_second((self.preemptions - before.preemptions) as f64),
            Signal::QueueGrowth => per_second(f64::from(self.waiting) - f64::from(before.waiting)),
            Signal::ArrivalRate => per_second((self.arrivals - before.arrivals) as f64),
            Signal::TokenRate => per_second((self.tokens - before.tokens) as f64),
            Signal::TtftP95 => quantile(0.95, |bucket| self.ttft[bucket] - before.ttft[bucket]),
            Signal::QueueTime => {
                let admitted = self.admitted - before.admitted;
                (admitted > 0).then(|| (self.queue_s - before.queue_s) / admitted as f64)
            }
            Signal::QueueDepth | Signal::KvUsage | Signal::InFlight | Signal::Running => Some(self.gauge(signal)),
        }
    }
}

/// Quantile `q` of a histogram, linear within its bucket, as Prometheus' `histogram_quantile` has it: what lies beyond the last bucket's end counts
/// as that end. `None` when nothing was counted.
pub fn quantile(q: f64, count: impl Fn(usize) -> u32) -> Option<f64> {
    let total: u64 = (0..=TTFT_BUCKETS.len()).map(|bucket| u64::from(count(bucket))).sum();
    if total == 0 {
        return None;
    }
    let rank = q * total as f64;
    let mut below = 0.0;
    for (bucket, &end) in TTFT_BUCKETS.iter().enumerate() {
        let here = f64::from(count(bucket));
        if below + here >= rank && here > 0.0 {
            let start = if bucket == 0 { 0.0 } else { TTFT_BUCKETS[bucket - 1] };
            return Some(start + (end - start) * (rank - below) / here);
        }
        below += here;
    }
    TTFT_BUCKETS.last().copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pod(replica: u32, at_s: f64, waiting: u32, tokens: u64) -> PodSample {
        PodSample { replica, up_s: at_s, waiting, running: 4, tokens, ..PodSample::default() }
    }

    /// Two replicas scraped every 10 s: waiting 0, 1, 2, 3 and 10 throughout; 100 and 50 tokens/s.
    fn history() -> History {
        let mut history = History::default();
        for step in 0u32..4 {
            let at_s = f64::from(step) * 10.0;
            let pods = vec![pod(0, at_s, step, u64::from(step) * 1000), pod(3, at_s, 10, u64::from(step) * 500)];
            let sample = Sample { at: Nanos::from_secs(at_s), held: 5, arrivals: u64::from(step * step), pods };
            history.push(sample, Nanos::from_secs(100.0));
        }
        history
    }

    #[test]
    fn gauges_and_rates_over_windows() {
        let (history, s) = (history(), |seconds| Nanos::from_secs(seconds));
        assert_eq!(history.pod(0, Signal::QueueDepth, Over::Latest), Some(3.0));
        assert_eq!(history.pod(0, Signal::QueueDepth, Over::Mean(s(20.0))), Some(2.5));
        assert_eq!(history.pod(0, Signal::QueueDepth, Over::Max(s(20.0))), Some(3.0));
        assert_eq!(history.pod(0, Signal::QueueGrowth, Over::Latest), Some(0.1));
        assert_eq!(history.pod(0, Signal::TokenRate, Over::Mean(s(30.0))), Some(100.0));
        assert_eq!(history.pod(1, Signal::TokenRate, Over::Latest), None);
        assert_eq!(history.fleet(Signal::TokenRate, Over::Latest), Some(150.0));
        assert_eq!(history.fleet(Signal::QueueDepth, Over::Latest), Some(18.0));
        assert_eq!(history.fleet(Signal::InFlight, Over::Latest), Some(26.0));
        assert_eq!(history.fleet(Signal::Running, Over::Latest), Some(8.0));
        // Arrivals 0, 1, 4, 9: 0.5 a second in the last ten, 0.3 over all thirty.
        assert_eq!(history.fleet(Signal::ArrivalRate, Over::Latest), Some(0.5));
        assert_eq!(history.fleet(Signal::ArrivalRate, Over::Mean(s(30.0))), Some(0.3));
        assert_eq!(history.fleet(Signal::ArrivalRate, Over::Max(s(30.0))), Some(0.5));
    }

    #[test]
    fn old_samples_go_and_lives_are_not_mixed() {
        let mut history = history();
        let sample =
            |at_s: f64, pod: PodSample| Sample { at: Nanos::from_secs(at_s), pods: vec![pod], ..Sample::default() };
        history.push(sample(40.0, PodSample { life: 1, ..pod(0, 0.0, 7, 0) }), Nanos::from_secs(15.0));
        assert_eq!(history.iter().count(), 3, "one beyond the window stays");
        assert_eq!(history.pod(0, Signal::TokenRate, Over::Mean(Nanos::from_secs(15.0))), None);
        assert_eq!(history.pod(0, Signal::QueueDepth, Over::Mean(Nanos::from_secs(15.0))), Some(7.0));
    }

    /// Prometheus' own example in kind: 10 observations up to 0.25 and 10 up to 0.5 put the 95th percentile at nine tenths of the second bucket.
    #[test]
    fn quantiles_are_linear_within_a_bucket() {
        let counts = |bucket: usize| if bucket == 8 || bucket == 9 { 10 } else { 0 };
        assert_eq!(quantile(0.95, counts), Some(0.25 + 0.25 * 0.9));
        assert_eq!(quantile(0.5, counts), Some(0.25));
        assert_eq!(quantile(0.95, |_| 0), None);
        assert_eq!(quantile(0.95, |bucket| u32::from(bucket == 22)), Some(2560.0));
    }
}
