//! The knee of a recorded trace: what is varied is how fast it is played.

use crate::words::{count, duration};
use servelab_spec::experiment::{TraceSpec, WorkloadSpec};
use servelab_spec::knee::{KneeReport, KneeTrial, Probe};
use servelab_spec::validate::{SpecError, limit};
use servelab_workload::trace::{Pace, pace};

/// Fewest requests: of fewer, those that may miss the limits (5 %) are less than one.
const FEWEST: u32 = 20;

/// How many times the limit of TTFT the arrivals have to last. In a shorter run an overload of a tenth ends before its queue is as long as the limit.
const LONG: f64 = 10.0;

/// What a rate means for a trace.
pub(super) const DEFINITION: &str = " Each rate is the trace played at another speed: bursts stay, and the time between the turns of a conversation changes with it.";

/// How a trace was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    per_s: f64,
}

impl Recorded {
    /// The trace of a spec, which must be on the shelf.
    ///
    /// # Errors
    /// It is not there, it is too short for a knee, or it has a spike.
    pub(super) fn of(trace: &TraceSpec, seed: u64) -> Result<Self, SpecError> {
        if trace.spike_for_s > 0.0 {
            let accepted =
                "a spike keeps its seconds when the trace is played faster, so there is no one rate; accepted is 0";
            return Err(SpecError::new("workload.spike_for_s", trace.spike_for_s, accepted));
        }
        let Pace { requests, span } = pace(trace, seed)?;
        if requests < FEWEST || span.0 == 0 {
            let found = format!("{} requests within {}", count(requests.into()), duration(span.as_secs()));
            let accepted = format!(
                "too short for a knee: accepted are {FEWEST} requests or more, not all at one instant; play it several times with workload.repeat"
            );
            return Err(SpecError::new("workload.trace", found, accepted));
        }
        Ok(Recorded { per_s: f64::from(requests) / span.as_secs() })
    }

    /// Requests a second at speed 1 with this seed: what is left of a trace that is thinned is another draw.
    pub(super) fn per_s(&self, trace: &TraceSpec, seed: u64) -> Result<f64, SpecError> {
        if trace.share < 1.0 { Ok(pace(trace, seed)?.per_s()) } else { Ok(self.per_s) }
    }

    /// Rates that the accepted speeds come to.
    pub(super) fn rates(&self) -> (f64, f64) {
        limit("workload.speed").map_or((0.0, f64::MAX), |limit| (limit.min * self.per_s, limit.max * self.per_s))
    }
}

/// That a trace was over too soon for its knee to mean more than an upper bound, with what makes it longer.
pub(super) fn too_short(report: &KneeReport) -> Option<String> {
    let WorkloadSpec::Trace(trace) = &report.knee.spec.workload else { return None };
    let limit = report.knee.spec.slo.ttft_s;
    let lasts = |probe: &Probe| f64::from(probe.requests) / probe.rate_per_s;
    // Where the limits were kept at every rate, the highest tried.
    let good = |trial: &KneeTrial| {
        trial
            .probes
            .iter()
            .copied()
            .filter(|probe| probe.good)
            .map(|probe| (lasts(&probe), probe))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let shortest = report.trials.iter().filter_map(good).min_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, probe) = shortest.filter(|(seconds, _)| *seconds > 0.0 && *seconds < LONG * limit)?;
    let times = libm::ceil(LONG * limit / seconds * f64::from(trace.repeat));
    Some(format!(
        "The trace is too short here: at {} requests/s its {} requests come within {}, less than {LONG} times the limit of {}, so a queue that grows has no time to miss it. \
         Take the number for an upper bound, or play the trace {} times (workload.repeat).",
        super::findings::rate(probe.rate_per_s),
        count(probe.requests.into()),
        duration(seconds),
        duration(limit),
        count(times as u64)
    ))
}
