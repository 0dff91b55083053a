//! Signals on their way from replicas to routers.

use super::Fleet;
use servelab_engine::Nanos;

impl Fleet {
    /// Engine metrics are read, and the next reading is set.
    pub(super) fn scrape(&mut self) {
        self.read_metrics();
        // An idle fleet has nothing new to say: the next attempt sets the clock going again.
        let idle = self.core.flights.requests.len() == 0;
        let period = self.core.config.telemetry.scrape;
        self.core.next_scrape = if idle || period == Nanos::ZERO { Nanos::MAX } else { self.core.now + period };
    }

    /// Reads every replica's metrics as they are now.
    pub(super) fn read_metrics(&mut self) {
        self.split_runs();
        let core = &mut self.core;
        for (replica, polled) in core.replicas.iter().zip(&mut core.polled) {
            if replica.life.may_run() {
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
