//! What several controllers need: parameters of the same meaning, values of the view, turns, saving.

use super::{Over, Phase, ScaleView, Signal};
use crate::routing::params;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::ParamInfo;

/// Which signal a rule goes by.
pub(super) fn signal_param(default: Signal, help: &str) -> ParamInfo {
    params::choice("signal", "Signal", default as u32, &Signal::NAMES, help)
}

/// What the signal should be. Never 0: every rule divides by it.
pub(super) fn target_param(name: &str, label: &str, unit: &str, default: f64, help: &str) -> ParamInfo {
    params::number(name, label, unit, default, (0.001, 1e6, 0.001), help)
}

/// Whole seconds, from `least`, at most a day.
pub(super) fn seconds_param(name: &str, label: &str, default: u32, least: u32, help: &str) -> ParamInfo {
    params::integer(name, label, "s", default, (least, 86_400), help)
}

/// The smallest whole number of replicas that is not below `value`; what is negative or no number counts as 0.
pub(super) fn ceil(value: f64) -> u32 {
    libm::ceil(value) as u32
}

/// The largest whole number of replicas that is not above `value`.
pub(super) fn floor(value: f64) -> u32 {
    libm::floor(value) as u32
}

/// A mean over `window`; the latest value where that is 0.
pub(super) fn mean(window: Nanos) -> Over {
    if window == Nanos::ZERO { Over::Latest } else { Over::Mean(window) }
}

/// The values of `signal` at those replicas that have a node and were reached.
pub(super) fn values(view: &ScaleView<'_>, signal: Signal, over: Over) -> impl Iterator<Item = f64> {
    let reached = view.pods.iter().filter(|pod| pod.phase != Phase::Pending);
    reached.filter_map(move |pod| view.history.pod(pod.replica, signal, over)).filter(|value| value.is_finite())
}

/// Their mean; `None` without any.
pub(super) fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// The sum over the fleet, also of a signal that is otherwise averaged. Queues include what the gateway holds.
pub(super) fn total(view: &ScaleView<'_>, signal: Signal, over: Over) -> Option<f64> {
    if signal.adds_up() || signal == Signal::ArrivalRate {
        return view.history.fleet(signal, over);
    }
    let (sum, n) = values(view, signal, over).fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then_some(sum)
}

/// Something that is done every so often, on a clock that ticks more often.
pub(super) struct Turn {
    every: Nanos,
    /// When it is due next.
    pub(super) next: Nanos,
}

impl Turn {
    /// Every `seconds`, at once for the first time.
    pub(super) fn every(seconds: u32) -> Self {
        Turn { every: whole_seconds(seconds), next: Nanos::ZERO }
    }

    /// Is it due at `now`? If so, its next turn is one interval from now.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}

/// So many seconds.
pub(super) fn whole_seconds(seconds: u32) -> Nanos {
    Nanos(u64::from(seconds) * 1_000_000_000)
}

/// A period in which both of two whole numbers of seconds, above 0, come out.
pub(super) fn common_period(a: u32, b: u32) -> Nanos {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    whole_seconds(a.max(1))
}

/// A state as it is saved.
pub(super) fn save(state: &impl Serialize) -> Value {
    serde_json::to_value(state).unwrap_or_default()
}

/// The state that was saved.
pub(super) fn restore<T: DeserializeOwned>(state: &Value) -> Result<T, String> {
    serde_json::from_value(state.clone()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_in_which_two_intervals_come_out() {
        let seconds = |a, b| common_period(a, b).as_secs();
        assert_eq!([seconds(30, 15), seconds(20, 5), seconds(30, 20), seconds(7, 15)], [15.0, 5.0, 10.0, 1.0]);
    }

    #[test]
    fn what_is_no_number_of_replicas_counts_as_none() {
        assert_eq!([ceil(f64::NAN), ceil(-3.5), ceil(0.1), ceil(f64::INFINITY)], [0, 0, 1, u32::MAX]);
        assert_eq!([floor(2.9), floor(f64::NAN)], [2, 0]);
    }
}
