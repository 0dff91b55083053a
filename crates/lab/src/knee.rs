//! Finding the knee of every policy: [`servelab_spec::knee`] says what it is and how it is looked for.
//!
//! The next rate to try is a function of the rates tried so far ([`Search::next`]), and a trial a function of its number, so results depend on nobody's
//! threads; a worker can run a probe in slices. All trials share one grid, anchored at the rate that the fleet could serve without any
//! reuse, so their curves can be averaged.

mod findings;
mod merge;
mod played;

pub use findings::findings;
pub use merge::merge;

use crate::error::RunError;
use crate::session::Session;
use crate::sweep::band;
use crate::words::{duration, percent};
use crate::{catalog, costs};
use played::Recorded;
use servelab_engine::cost::CostModel;
use servelab_spec::experiment::{ExecutionMode, Pace, Spec, WorkloadSpec};
use servelab_spec::knee::{
    GOOD_SHARE, KneeEnd, KneePoint, KneeReport, KneeSpec, KneeTrial, PolicyKnee, Probe, TOLERANCE,
};
use servelab_spec::report::Report;
use servelab_spec::sweep::MAX_SEEDS;
use servelab_spec::validate::{SpecError, limit};
use servelab_spec::{MAX_SEED, SCHEMA_VERSION, patch};
use std::collections::BTreeMap;

/// Ratio of the grid's rates to the power of two: two steps double the rate. Wide enough that the grid takes few runs, narrow enough that a curve through
/// it shows the bend.
const STEPS_PER_DOUBLING: i32 = 2;

/// Where the grid starts: half of what the fleet serves without reuse, where most policies keep most limits.
const START: i32 = -STEPS_PER_DOUBLING;

/// How far the grid reaches: from a 256th of that rate to 256 times as much. Reuse of all but one in a hundred prompt tokens would make a fleet some
/// hundred times as fast.
const REACH: i32 = 8 * STEPS_PER_DOUBLING;

/// The search for every policy's knee, checked and ready to run trial by trial.
#[derive(Clone, Debug)]
pub struct KneePlan {
    knee: KneeSpec,
    /// Requests per second that the fleet serves without reuse.
    capacity: f64,
    replicas: f64,
    /// Rates that the workload may take.
    rates: (f64, f64),
    /// How a trace was recorded, where it is one that is played.
    recorded: Option<Recorded>,
}

/// What to do next in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Try this rate; a step of the grid, or none.
    Try(f64, Option<i32>),
    /// It is over; the knee, when it was found.
    End(KneeEnd, Option<f64>),
}

/// One trial under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    capacity: f64,
    rates: (f64, f64),
    probes: Vec<Probe>,
}

impl KneePlan {
    /// The plan for a spec whose workload has a rate, or is a trace that is on the shelf.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn new(knee: KneeSpec) -> Result<Self, SpecError> {
        let mut plan = Self::of_results(knee)?;
        let spec = &plan.knee.spec;
        let coefficients = |spec: &Spec| Ok(CostModel::from_coefficients(&costs::resolve(spec)?));
        if let WorkloadSpec::Trace(trace) = &spec.workload {
            let recorded = Recorded::of(trace, spec.seed)?;
            (plan.capacity, plan.rates) = (costs::capacity_per_s(spec, &coefficients(spec)?), recorded.rates());
            plan.recorded = Some(recorded);
            return Ok(plan);
        }
        let unit = patch::set(spec, "workload.rate_unit", "of_capacity")?;
        let whole = patch::set(&unit, "workload.rate", "1")?;
        plan.capacity = costs::rate_per_s(&whole, &coefficients(&whole)?);
        plan.rates = limit("workload.rate").map_or((0.0, f64::MAX), |limit| (limit.min, limit.max));
        Ok(plan)
    }

    /// The plan as far as results are put together with it, which takes no trace.
    fn of_results(knee: KneeSpec) -> Result<Self, SpecError> {
        catalog::check(&knee.spec)?;
        if knee.spec.execution.mode == ExecutionMode::Tinygpt {
            let accepted = "a knee takes dozens of runs, which the real model would compute step by step; accepted are priced, server and tick";
            return Err(SpecError::new("execution.mode", "tinygpt", accepted));
        }
        let clients = &knee.spec.clients;
        if clients.on && !clients.together && clients.policies.len() > 1 {
            let found = format!("a list of {}", clients.policies.len());
            let accepted = "the knee compares routing policies; accepted is one client policy, several with clients.together=on, or clients.on=off";
            return Err(SpecError::new("clients.policies", found, accepted));
        }
        if clients.on && clients.pace == Pace::Closed {
            let accepted = "users who wait for answers offer what the fleet serves, so there is no rate to raise; accepted are open and sessions";
            return Err(SpecError::new("clients.pace", "closed", accepted));
        }
        if !(1..=MAX_SEEDS).contains(&knee.seeds) {
            return Err(SpecError::new("seeds", knee.seeds, format!("accepted are 1 to {MAX_SEEDS}")));
        }
        if knee.spec.seed > MAX_SEED - u64::from(knee.seeds - 1) {
            let accepted = format!("accepted is at most {}", MAX_SEED - u64::from(knee.seeds - 1));
            return Err(SpecError::new("seed", knee.spec.seed, accepted));
        }
        let replicas = f64::from(knee.spec.replicas);
        Ok(KneePlan { knee, capacity: 1.0, replicas, rates: (0.0, f64::MAX), recorded: None })
    }

    /// How many trials there are; they are numbered from 0, the seeds of a policy next to each other.
    pub fn trials(&self) -> u32 {
        self.knee.spec.policies.len() as u32 * self.knee.seeds
    }

    /// A trial at its start.
    pub fn search(&self) -> Search {
        Search { capacity: self.capacity, rates: self.rates, probes: vec![] }
    }

    /// The experiment of a trial at a rate.
    ///
    /// # Errors
    /// No such trial, or a rate out of limits.
    pub fn spec(&self, trial: u32, rate_per_s: f64) -> Result<Spec, SpecError> {
        if trial >= self.trials() {
            return Err(SpecError::new("trial", trial, format!("accepted are 0 to {}", self.trials() - 1)));
        }
        let seed = self.seed(trial);
        let mut spec = match (&self.knee.spec.workload, &self.recorded) {
            (WorkloadSpec::Trace(trace), Some(recorded)) => {
                let speed = rate_per_s / recorded.per_s(trace, seed)?;
                patch::set(&self.knee.spec, "workload.speed", &speed.to_string())?
            }
            _ => {
                let spec = patch::set(&self.knee.spec, "workload.rate_unit", "per_second")?;
                patch::set(&spec, "workload.rate", &rate_per_s.to_string())?
            }
        };
        spec.policies = vec![spec.policies.swap_remove((trial / self.knee.seeds) as usize)];
        spec.seed = seed;
        Ok(spec)
    }

    /// A probe's run at its start, for whoever wants to advance it in pieces; [`Search::told`] takes its report.
    ///
    /// # Errors
    /// As [`KneePlan::spec`].
    pub fn start(&self, trial: u32, rate_per_s: f64) -> Result<Session, RunError> {
        Session::unwatched(self.spec(trial, rate_per_s)?)
    }

    /// Runs a trial to its end.
    ///
    /// # Errors
    /// As [`KneePlan::spec`].
    pub fn run(&self, trial: u32) -> Result<KneeTrial, RunError> {
        let mut search = self.search();
        loop {
            match search.next() {
                Next::Try(rate, step) => {
                    let mut session = self.start(trial, rate)?;
                    while !session.advance(u32::MAX)?.done {}
                    search.told(rate, step, &session.report());
                }
                Next::End(end, per_s) => return Ok(self.result(trial, search, end, per_s)),
            }
        }
    }

    /// What an ended search says.
    pub fn result(&self, trial: u32, search: Search, end: KneeEnd, per_s: Option<f64>) -> KneeTrial {
        let policy = trial / self.knee.seeds;
        KneeTrial { trial, policy, seed: self.seed(trial), end, per_s, probes: search.probes }
    }

    fn seed(&self, trial: u32) -> u64 {
        self.knee.spec.seed + u64::from(trial % self.knee.seeds)
    }

    /// The report of the trials that are there, in whatever order.
    pub fn report(&self, mut trials: Vec<KneeTrial>) -> KneeReport {
        trials.sort_by_key(|trial| trial.trial);
        trials.dedup_by_key(|trial| trial.trial);
        let policies = (0..self.knee.spec.policies.len()).map(|at| self.policy(at, &trials)).collect();
        let slo = &self.knee.spec.slo;
        let played = match &self.knee.spec.workload {
            WorkloadSpec::Trace(_) => played::DEFINITION,
            _ => "",
        };
        let definition = format!(
            "The highest offered rate, to {}, at which 95 % of first tokens come within {} and at least {} of the requests have that and gaps \
             of at most {} between tokens, in runs as long as this experiment's, from empty caches.{played}",
            percent(TOLERANCE - 1.0),
            duration(slo.ttft_s),
            percent(GOOD_SHARE),
            duration(slo.itl_s)
        );
        KneeReport {
            version: SCHEMA_VERSION,
            generator: concat!("servelab ", env!("CARGO_PKG_VERSION")).into(),
            knee: self.knee.clone(),
            definition,
            policies,
            trials,
        }
    }

    fn policy(&self, at: usize, trials: &[KneeTrial]) -> PolicyKnee {
        let of = |policy: usize| trials.iter().filter(move |trial| trial.policy as usize == policy);
        let ended = |end: KneeEnd| of(at).filter(|trial| trial.end == end).count() as u32;
        let knees = || of(at).filter_map(|trial| trial.per_s);
        let first = |seed: u64| of(0).find(|trial| trial.seed == seed).and_then(|trial| trial.per_s);
        let versus = of(at).filter_map(|trial| Some((trial.per_s? - first(trial.seed)?) / self.replicas));
        let mut grid: BTreeMap<i32, Vec<&Probe>> = BTreeMap::new();
        for probe in of(at).flat_map(|trial| &trial.probes) {
            if let Some(step) = probe.step {
                grid.entry(step).or_default().push(probe);
            }
        }
        let point = |probes: &Vec<&Probe>| KneePoint {
            rate_per_s: probes.first().map_or(0.0, |probe| probe.rate_per_s),
            goodput_per_s: band(probes.iter().map(|probe| probe.goodput_per_s)),
            goodput_fraction: band(probes.iter().map(|probe| probe.goodput_fraction)),
            ttft_p95_s: band(probes.iter().filter_map(|probe| probe.ttft_p95_s)),
        };
        let policy = &self.knee.spec.policies[at];
        PolicyKnee {
            name: policy.name.clone(),
            label: catalog::policy_label(policy),
            per_s: band(knees()),
            per_replica_per_s: band(knees().map(|rate| rate / self.replicas)),
            versus_first: if at == 0 { None } else { band(versus) },
            never_good: ended(KneeEnd::NeverGood),
            always_good: ended(KneeEnd::AlwaysGood),
            curve: grid.values().map(point).collect(),
        }
    }
}

impl Search {
    /// The rate of a step of the grid: six figures of capacity · 2^(step ÷ 2).
    fn rate(&self, step: i32) -> f64 {
        six(self.capacity * libm::pow(2.0, f64::from(step) / f64::from(STEPS_PER_DOUBLING)))
    }

    /// What to try next, or what came out.
    pub fn next(&self) -> Next {
        let good: BTreeMap<i32, bool> =
            self.probes.iter().filter_map(|probe| Some((probe.step?, probe.good))).collect();
        let grid = |step: i32| Next::Try(self.rate(step), Some(step));
        let (Some((&bottom, _)), Some((&top, _))) = (good.first_key_value(), good.last_key_value()) else {
            return grid(START);
        };
        let (lowest, highest) = self.reach();
        let best = good.iter().rev().find(|(_, good)| **good).map(|(&step, _)| step);
        match best {
            // Two steps in a row that are not good count as the end; a single one may be chance.
            Some(best) if top < best + 2 && top < highest => grid(top + 1),
            Some(best) if best == top => Next::End(KneeEnd::AlwaysGood, None),
            Some(best) => self.halve(self.rate(best), self.rate(best + 1)),
            None if top < bottom + 1 && top < highest => grid(top + 1),
            None if bottom > lowest => grid(bottom - 1),
            None => Next::End(KneeEnd::NeverGood, None),
        }
    }

    /// The part of the grid that a workload's rate may take.
    fn reach(&self) -> (i32, i32) {
        let (low, high) = self.rates;
        let inside = |step: &i32| (low..=high).contains(&self.rate(*step));
        ((-REACH..=START).find(inside).unwrap_or(START), (START..=REACH).rev().find(inside).unwrap_or(START))
    }

    /// Between a good rate and one that is not.
    fn halve(&self, mut low: f64, mut high: f64) -> Next {
        for probe in self.probes.iter().filter(|probe| probe.step.is_none()) {
            *(if probe.good { &mut low } else { &mut high }) = probe.rate_per_s;
        }
        let middle = six(libm::sqrt(low * high));
        if high <= low * TOLERANCE || middle <= low || middle >= high {
            return Next::End(KneeEnd::Found, Some(low));
        }
        Next::Try(middle, None)
    }

    /// Takes the report of a rate that was tried, with the trial's one policy.
    pub fn told(&mut self, rate_per_s: f64, step: Option<i32>, report: &Report) {
        let slo = &report.spec.slo;
        let Some(policy) = report.policies.first() else { return };
        let ttft_p95_s = (policy.ttft_s.n > 0).then_some(policy.ttft_s.p95);
        let goodput = &policy.goodput;
        self.probes.push(Probe {
            rate_per_s,
            step,
            goodput_per_s: goodput.per_s,
            goodput_fraction: goodput.fraction,
            ttft_p95_s,
            requests: policy.requests.total as u32,
            good: ttft_p95_s.is_some_and(|ttft| ttft <= slo.ttft_s) && goodput.fraction >= GOOD_SHARE,
        });
    }

    /// Runs so far: what a progress bar counts.
    pub fn tried(&self) -> u32 {
        self.probes.len() as u32
    }
}

/// Six figures, by way of text: the same on every machine, and readable.
fn six(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A search on a made-up fleet that is good exactly where `good` says.
    fn searched(good: impl Fn(f64) -> bool) -> (KneeEnd, Option<f64>, Vec<Probe>) {
        let mut search = Search { capacity: 8.0, rates: (0.001, 100_000.0), probes: vec![] };
        loop {
            match search.next() {
                Next::Try(rate, step) => search.probes.push(Probe {
                    rate_per_s: rate,
                    step,
                    goodput_per_s: 0.0,
                    goodput_fraction: 0.0,
                    ttft_p95_s: None,
                    requests: 0,
                    good: good(rate),
                }),
                Next::End(end, knee) => return (end, knee, search.probes),
            }
            assert!(search.probes.len() < 60, "{:?}", search.probes);
        }
    }

    #[test]
    fn a_threshold_is_found_to_two_per_cent_from_below() {
        for threshold in [0.04, 0.5, 3.9, 4.0, 4.1, 7.99, 8.0, 11.4, 100.0, 2000.0] {
            let (end, knee, probes) = searched(|rate| rate <= threshold);
            let knee = knee.unwrap();
            assert_eq!(end, KneeEnd::Found);
            assert!(knee <= threshold && knee * TOLERANCE >= threshold, "{knee} for {threshold}");
            assert!(probes.iter().any(|probe| probe.good && probe.rate_per_s == knee), "the knee was tried");
            // Five halvings take √2 below 1.02.
            assert!(probes.iter().filter(|probe| probe.step.is_none()).count() <= 6);
        }
        // 4 and 5.66 are good, 8 and 11.3 not: the grid, then halves of (5.66, 8), by hand.
        let (_, _, probes) = searched(|rate| rate < 6.0);
        let tried: Vec<(Option<i32>, f64)> = probes.iter().map(|probe| (probe.step, probe.rate_per_s)).collect();
        assert_eq!(tried[..4], [(Some(-2), 4.0), (Some(-1), 5.65685), (Some(0), 8.0), (Some(1), 11.3137)]);
        assert_eq!(tried[4..7], [(None, 6.72717), (None, 6.16884), (None, 5.9073)]);
    }

    #[test]
    fn limits_that_nothing_or_everything_keeps_are_said() {
        let (end, knee, probes) = searched(|_| false);
        assert_eq!((end, knee), (KneeEnd::NeverGood, None));
        assert_eq!(probes.last().unwrap().rate_per_s, 8.0 / 256.0);
        let (end, knee, probes) = searched(|_| true);
        assert_eq!((end, knee), (KneeEnd::AlwaysGood, None));
        assert_eq!(probes.last().unwrap().rate_per_s, 8.0 * 256.0);
    }

    #[test]
    fn one_bad_step_of_the_grid_may_be_chance() {
        let (end, knee, _) = searched(|rate| rate <= 30.0 && !(7.0..9.0).contains(&rate));
        assert_eq!(end, KneeEnd::Found);
        assert!((29.4..=30.0).contains(&knee.unwrap()));
    }
}
