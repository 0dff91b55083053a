//! What is kept of a run whose requests are too many to keep: counts, distributions, and what each minute was like.
//!
//! Up to [`KEEP`] requests a run keeps every record and its report is exact. A day of traffic has millions; then only this is kept, and quantiles have
//! the error of [`crate::sketch::Sketch`].

use crate::sketch::Sketch;
use crate::stats::ratio;
use servelab_engine::Nanos;
use servelab_fleet::record::Loss;
use servelab_fleet::scaling::{LifeEvent, ScalePoint};
use servelab_fleet::{Outcome, RequestRecord};
use servelab_spec::experiment::{OverflowSpec, SloSpec};

/// Most requests of a run whose records are kept.
pub(crate) const KEEP: u64 = 1_000_000;

/// Most bins of a run.
const BINS: u64 = 1440;

/// What is counted of all requests, or of one tenant's.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) finished: u64,
    pub(crate) rejected: u64,
    /// Lost with their replica, by cause.
    pub(crate) lost: [u64; 4],
    pub(crate) timed_out: u64,
    pub(crate) abandoned: u64,
    pub(crate) attempts: u64,
    pub(crate) good: u64,
    pub(crate) ttft_misses: u64,
    pub(crate) itl_misses: u64,
    pub(crate) output_tokens: u64,
    /// Of requests that were admitted.
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) outside: Outside,
    pub(crate) ttft: Sketch,
    pub(crate) itl: Sketch,
    pub(crate) e2e: Sketch,
    pub(crate) queue: Sketch,
    /// Time held at the gateway.
    pub(crate) held: Sketch,
}

/// What a managed API served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) requests: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Outside {
    /// What that costs at these prices, dollars.
    pub(crate) fn usd(&self, prices: &OverflowSpec) -> f64 {
        (self.prompt_tokens as f64 * prices.prompt_usd + self.output_tokens as f64 * prices.output_usd) / 1e6
    }
}

/// One bin of time; requests count where they arrived.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    pub(crate) ended: u32,
    /// Of those, too late with their first token, turned away or lost.
    pub(crate) late: u32,
    pub(crate) ttft: Sketch,
}

/// When requests came that have ended, or are pending at the horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    n: u64,
    pub(crate) first: Nanos,
    pub(crate) last: Nanos,
}

impl Arrivals {
    fn take(&mut self, arrival: Nanos) {
        self.first = if self.n == 0 { arrival } else { self.first.min(arrival) };
        self.last = self.last.max(arrival);
        self.n += 1;
    }

    /// Mean rate from the first to the last, a second: n requests have n − 1 gaps between them.
    pub(crate) fn rate_per_s(&self) -> f64 {
        ratio(self.n.saturating_sub(1) as f64, self.last.since(self.first).as_secs())
    }
}

/// All that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    slo: SloSpec,
    pub(crate) all: Tally,
    pub(crate) tenants: Vec<Tally>,
    /// Of each priority class.
    pub(crate) classes: Vec<Tally>,
    /// Each tenant's class.
    class_of: Vec<usize>,
    /// Length of a bin.
    pub(crate) bin: Nanos,
    pub(crate) bins: Vec<Bin>,
    /// First arrival that was late, of those that have ended.
    pub(crate) first_late: Option<Nanos>,
    /// What scaling told.
    pub(crate) points: Vec<ScalePoint>,
    pub(crate) lives: Vec<LifeEvent>,
    /// End of the last request.
    pub(crate) last_end: Nanos,
    pub(crate) arrivals: Arrivals,
}

impl Tally {
    fn new() -> Self {
        Tally {
            finished: 0,
            rejected: 0,
            lost: [0; 4],
            timed_out: 0,
            abandoned: 0,
            attempts: 0,
            good: 0,
            ttft_misses: 0,
            itl_misses: 0,
            output_tokens: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            outside: Outside::default(),
            ttft: Sketch::fine(),
            itl: Sketch::fine(),
            e2e: Sketch::fine(),
            queue: Sketch::fine(),
            held: Sketch::fine(),
        }
    }

    /// Requests that ended; those that are pending at the horizon have not.
    pub(crate) fn ended(&self) -> u64 {
        self.finished + self.rejected + self.timed_out + self.abandoned + self.lost.iter().sum::<u64>()
    }

    fn take(&mut self, record: &RequestRecord, slo: &SloSpec) {
        let ttft = record.ttft().map(Nanos::as_secs);
        let itl = record.itl_s();
        let (late, slow) = (ttft.is_some_and(|ttft| ttft > slo.ttft_s), itl.is_some_and(|itl| itl > slo.itl_s));
        self.attempts += u64::from(record.attempts);
        self.held.add(record.held.as_secs());
        self.output_tokens += u64::from(record.output_tokens);
        self.ttft_misses += u64::from(late);
        self.itl_misses += u64::from(slow);
        if record.outside {
            self.outside.requests += 1;
            self.outside.prompt_tokens += u64::from(record.prompt_tokens);
            self.outside.output_tokens += u64::from(record.output_tokens);
        } else if let Some(admitted) = record.admitted {
            self.prompt_tokens += u64::from(record.prompt_tokens);
            self.cached_tokens += u64::from(record.cached_tokens);
            self.queue.add(admitted.since(record.arrival).as_secs());
        }
        ttft.into_iter().for_each(|ttft| self.ttft.add(ttft));
        itl.into_iter().for_each(|itl| self.itl.add(itl));
        match record.outcome {
            Outcome::Finished => {
                self.finished += 1;
                self.good += u64::from(!late && !slow);
                self.e2e.add(record.end.since(record.arrival).as_secs());
            }
            Outcome::Rejected { .. } => self.rejected += 1,
            Outcome::Lost { cause } => self.lost[cause_index(cause)] += 1,
            Outcome::TimedOut => self.timed_out += 1,
            Outcome::Abandoned => self.abandoned += 1,
            Outcome::Pending => {}
        }
    }
}

/// The place of a cause in [`Tally::lost`].
pub(crate) fn cause_index(cause: Loss) -> usize {
    match cause {
        Loss::Grace => 0,
        Loss::Probe => 1,
        Loss::Crash => 2,
        Loss::Network => 3,
    }
}

/// A length that people count in: seconds, minutes or hours, so that `span` has at most [`BINS`] of them.
fn bin_length(span: Nanos) -> Nanos {
    const SECONDS: [u64; 12] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
    let fits = SECONDS.into_iter().find(|seconds| span.0 / 1_000_000_000 <= seconds * BINS);
    let seconds = fits.unwrap_or_else(|| (span.0 / 1_000_000_000).div_ceil(BINS * 3600) * 3600);
    Nanos(seconds * 1_000_000_000)
}

impl Ledger {
    /// Of a run whose last request arrives at `last_arrival`.
    pub(crate) fn new(slo: SloSpec, tenants: usize, last_arrival: Nanos) -> Self {
        Ledger {
            slo,
            all: Tally::new(),
            tenants: vec![Tally::new(); tenants],
            classes: Vec::new(),
            class_of: Vec::new(),
            bin: bin_length(last_arrival),
            bins: Vec::new(),
            first_late: None,
            points: Vec::new(),
            lives: Vec::new(),
            last_end: Nanos::ZERO,
            arrivals: Arrivals::default(),
        }
    }

    /// With tenants in `many` priority classes.
    pub(crate) fn classed(self, many: usize, class_of: Vec<usize>) -> Self {
        Ledger { classes: vec![Tally::new(); many], class_of, ..self }
    }

    /// Takes in a request that ended, or that is pending at the horizon.
    pub(crate) fn take(&mut self, record: &RequestRecord) {
        self.all.take(record, &self.slo);
        if let Some(tenant) = self.tenants.get_mut(record.tenant as usize) {
            tenant.take(record, &self.slo);
        }
        if let Some(&class) = self.class_of.get(record.tenant as usize)
            && let Some(class) = self.classes.get_mut(class)
        {
            class.take(record, &self.slo);
        }
        self.last_end = self.last_end.max(record.end);
        self.arrivals.take(record.arrival);
        let at = (record.arrival.0 / self.bin.0) as usize;
        if self.bins.len() <= at {
            self.bins.resize_with(at + 1, || Bin { ended: 0, late: 0, ttft: Sketch::coarse() });
        }
        let bin = &mut self.bins[at];
        let ttft = record.ttft().map(Nanos::as_secs);
        let late = ttft.is_none_or(|ttft| ttft > self.slo.ttft_s);
        bin.ended += 1;
        bin.late += u32::from(late);
        ttft.into_iter().for_each(|ttft| bin.ttft.add(ttft));
        if late {
            self.first_late = Some(self.first_late.map_or(record.arrival, |first| first.min(record.arrival)));
        }
    }

    /// Of the requests that arrived in the last fifth of the bins, at least one, the share whose first token was in time. `None` when there are none.
    pub(crate) fn in_time_at_end(&self) -> Option<f64> {
        let last = &self.bins[self.bins.len() - self.bins.len().div_ceil(5)..];
        let (ended, late) = last
            .iter()
            .fold((0u64, 0u64), |(ended, late), bin| (ended + u64::from(bin.ended), late + u64::from(bin.late)));
        (ended > 0).then(|| (ended - late) as f64 / ended as f64)
    }

    /// Time in whose bins somebody was late, seconds.
    pub(crate) fn late_s(&self) -> f64 {
        self.bins.iter().filter(|bin| bin.late > 0).count() as f64 * self.bin.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: u32, arrival_s: f64, ttft_s: Option<f64>) -> RequestRecord {
        let arrival = Nanos::from_secs(arrival_s);
        let first_token = ttft_s.map(|ttft| arrival + Nanos::from_secs(ttft));
        RequestRecord {
            index,
            tenant: index % 2,
            replica: Some(0),
            arrival,
            admitted: first_token,
            first_token,
            end: first_token.unwrap_or(arrival) + Nanos::from_secs(1.0),
            prompt_tokens: 100,
            cached_tokens: 40,
            fetched_tokens: 0,
            output_tokens: 11,
            outcome: if ttft_s.is_some() { Outcome::Finished } else { Outcome::Lost { cause: Loss::Crash } },
            attempts: 1,
            outside: false,
            held: Nanos::ZERO,
            first_token_step: 0,
            last_step: 0,
            output: vec![],
        }
    }

    #[test]
    fn a_minute_is_late_when_somebody_in_it_was() {
        let mut ledger = Ledger::new(SloSpec { ttft_s: 1.0, itl_s: 0.2 }, 2, Nanos::from_secs(86_000.0));
        assert_eq!(ledger.bin, Nanos::from_secs(60.0));
        for (index, (at, ttft)) in
            [(10.0, Some(0.5)), (70.0, Some(2.0)), (80.0, Some(0.1)), (200.0, None)].into_iter().enumerate()
        {
            ledger.take(&record(index as u32, at, ttft));
        }
        assert_eq!(ledger.late_s(), 120.0);
        // Three gaps in 190 s.
        assert_eq!((ledger.arrivals.last, ledger.arrivals.rate_per_s()), (Nanos::from_secs(200.0), 3.0 / 190.0));
        assert_eq!(ledger.first_late, Some(Nanos::from_secs(70.0)));
        let (all, odd) = (&ledger.all, &ledger.tenants[1]);
        assert_eq!((all.ended(), all.finished, all.lost, all.good, all.ttft_misses), (4, 3, [0, 0, 1, 0], 2, 1));
        assert_eq!((odd.ended(), odd.lost, all.output_tokens, all.cached_tokens), (2, [0, 0, 1, 0], 44, 120));
        assert_eq!(ledger.bins.iter().map(|bin| bin.ended).collect::<Vec<_>>(), [1, 2, 0, 1]);
    }

    /// Ten bins of a second, of which the last fifth is two: three requests there, one of them in time.
    #[test]
    fn the_end_is_the_last_fifth() {
        let mut ledger = Ledger::new(SloSpec { ttft_s: 1.0, itl_s: 0.2 }, 2, Nanos::from_secs(10.0));
        assert_eq!(ledger.in_time_at_end(), None);
        for (index, (at, ttft)) in
            [(0.5, None), (7.9, Some(0.5)), (8.0, Some(0.5)), (9.0, Some(1.5)), (9.9, None)].into_iter().enumerate()
        {
            ledger.take(&record(index as u32, at, ttft));
        }
        assert_eq!(ledger.in_time_at_end(), Some(1.0 / 3.0));
    }

    #[test]
    fn bins_are_lengths_that_people_count_in() {
        for (span_s, bin_s) in [
            (0.5, 1.0),
            (1440.0, 1.0),
            (1441.0, 2.0),
            (86_400.0, 60.0),
            (604_800.0, 600.0),
            (1e9, 694.0 * 3600.0 + 3600.0),
        ] {
            let bin = bin_length(Nanos::from_secs(span_s)).as_secs();
            assert!(bin >= span_s / 1440.0 - 1.0, "{span_s}: {bin}");
            if span_s < 1e6 {
                assert_eq!(bin, bin_s, "{span_s}");
            }
        }
    }
}
