//! Signals on their way from replicas to routers.

use super::Fleet;
use servelab_engine::Nanos;

/// The first instant of the period that is not before `at`.
fn round_up(at: Nanos, period: Nanos) -> Nanos {
    Nanos(at.0.div_ceil(period.0.max(1)).saturating_mul(period.0))
}

impl Fleet {
    /// Engine metrics are read, and the next reading is set.
    pub(super) fn scrape(&mut self) {
        // Where nobody scrapes, what was last read stands.
        if self.core.stale == 0 {
            self.read_metrics();
        }
        // An idle fleet has nothing new to say: the next attempt sets the clock going again.
        let idle = self.core.flights.requests.len() == 0 && self.core.stale == 0;
        let period = self.core.config.telemetry.scrape;
        let next_change = self.next_change().filter(|_| !self.gateway_wants_metrics());
        self.core.next_scrape = if idle || period == Nanos::ZERO {
            Nanos::MAX
        } else {
            let next = self.core.now + period;
            next_change.map_or(next, |change| next.max(round_up(change, period)))
        };
        self.gateway_scraped();
    }

    /// When metrics change next, if they cannot change before an event does: nothing is about to start, and no run of equal steps is under way, whose
    /// steps end without one. However long a step takes, readings that would all say the same are left out.
    fn next_change(&mut self) -> Option<Nanos> {
        // Not whether anybody was stirred: a restored fleet lets everybody try.
        let starts = self.stirred.iter().any(|&index| {
            let replica = &self.core.replicas[index as usize];
            replica.may_run() && replica.model.get().idles_beside_work()
        });
        if starts || self.running_ahead.contains(&true) {
            return None;
        }
        let end = self.ends.first().0;
        let arrival = self.core.next_request.as_ref().map_or(Nanos::MAX, |request| request.arrival);
        let other = end.min(arrival);
        let timer = self.core.timers.first(other).unwrap_or(Nanos::MAX);
        Some(other.min(timer)).filter(|&change| change != Nanos::MAX)
    }

    /// Dates readings that were left out because they would have said the same.
    pub(super) fn date_metrics(&mut self) {
        let period = self.core.config.telemetry.scrape.0;
        if period == 0 {
            return;
        }
        let latest = Nanos(self.core.now.0 / period * period);
        if self.core.stale > 0 || latest < self.core.fresh_from {
            return;
        }
        for polled in &mut self.core.polled {
            polled.at = polled.at.map(|at| at.max(latest));
        }
    }

    /// Reads every replica's metrics as they are now.
    pub(super) fn read_metrics(&mut self) {
        self.split_runs();
        let core = &mut self.core;
        for (replica, polled) in core.replicas.iter().zip(&mut core.polled) {
            if replica.may_run() {
                replica.model.get().metrics(polled);
                polled.at = Some(core.now);
            }
        }
    }

    /// A fleet that was idle no longer is: readings go on in step with the period.
    pub(super) fn wake_scrapes(&mut self) {
        let period = self.core.config.telemetry.scrape.0;
        if self.core.next_scrape == Nanos::MAX && period > 0 {
            self.core.next_scrape = Nanos((self.core.now.0 / period + 1).saturating_mul(period));
        }
    }

    /// Sends what has changed in a replica's cache on its way.
    pub(super) fn tell_kv_changes(&mut self, index: u32) {
        let core = &mut self.core;
        let Some(kv_index) = &mut core.index else { return };
        core.replicas[index as usize].model.get_mut().drain_kv_changes(&mut self.kv_changes);
        kv_index.tell(core.now + core.config.telemetry.event_delay, index, self.kv_changes.drain(..));
    }
}
