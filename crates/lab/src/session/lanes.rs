//! What charts of a run are drawn from, and no more of it than the one asked for needs: all of it is a walk over millions of records.

use super::{Run, Session, Stage};
use crate::stats::ratio;
use crate::{catalog, chart, costs, report};
use servelab_engine::Nanos;
use servelab_engine::cost::CostModel;
use servelab_fleet::{Outcome, RequestRecord};
use servelab_spec::protocol::{Chart, ChartRequest};
use servelab_spec::validate::SpecError;

/// What a chart is drawn from.
#[derive(Clone, Copy)]
struct Needs {
    ttft: bool,
    e2e: bool,
    wait: bool,
    hits: bool,
    spans: bool,
    /// Counts by time, of scaling and of clients.
    totals: bool,
}

impl Needs {
    const ALL: Needs = Needs { ttft: true, e2e: true, wait: true, hits: true, spans: true, totals: true };

    fn of(chart: &str) -> Self {
        let none = Needs { ttft: false, e2e: false, wait: false, hits: false, spans: false, totals: false };
        match chart {
            "ttft_over_time" => Needs { ttft: true, ..none },
            "e2e_over_time" => Needs { e2e: true, ..none },
            "wait_over_time" => Needs { wait: true, ..none },
            // Who is never answered counts.
            "ttft_cdf" => Needs { ttft: true, spans: true, ..none },
            "outstanding_over_time" => Needs { spans: true, ..none },
            "reuse_over_time" => Needs { hits: true, ..none },
            "demand_and_capacity" | "attempts_over_time" | "attempts_over_time_log" => Needs { totals: true, ..none },
            _ => Needs::ALL,
        }
    }
}

impl Session {
    /// Draws a chart of the run so far.
    ///
    /// # Errors
    /// When the request can not be met.
    pub fn chart(&self, request: &ChartRequest) -> Result<Chart, SpecError> {
        chart::draw(request, &self.lanes(Needs::of(&request.id)), &self.spec.slo)
    }

    /// What charts show: one lane for each policy that has started.
    pub fn chart_lanes(&self) -> Vec<chart::Lane> {
        self.lanes(Needs::ALL)
    }

    fn lanes(&self, needs: Needs) -> Vec<chart::Lane> {
        let Some(stage) = &self.stage else { return vec![] };
        let contenders = self.spec.contenders();
        let started = stage.runs.iter().zip(contenders).filter(|(run, _)| run.fleet.now() > Nanos::ZERO);
        started
            .map(|(run, contender)| {
                let mut lane =
                    chart::Lane { label: catalog::contender_label(&self.spec, contender), ..chart::Lane::default() };
                // The workload of a closed loop does not know when requests came; who is under way is known when it ends.
                let paced = report::paced(&self.spec);
                let latency = |of: fn(&RequestRecord) -> Option<Nanos>| {
                    if paced { paced_points(run, of) } else { points(stage, run, of) }
                };
                if needs.ttft {
                    lane.ttft = latency(RequestRecord::ttft);
                }
                if needs.e2e {
                    lane.e2e = latency(|of| (of.outcome == Outcome::Finished).then(|| of.end.since(of.arrival)));
                }
                if needs.wait {
                    lane.wait = latency(|of| of.admitted.filter(|_| !of.outside).map(|at| at.since(of.arrival)));
                }
                if needs.hits {
                    let admitted = run.records.iter().filter(|record| record.admitted.is_some() && !record.outside);
                    lane.hits = admitted
                        .map(|record| (record.arrival.as_secs(), record.prompt_tokens, record.cached_tokens))
                        .collect();
                    lane.hits.sort_by(|a, b| a.0.total_cmp(&b.0));
                }
                // Where too many are kept track of, single requests are not drawn.
                if needs.spans && paced {
                    let over = |record: &RequestRecord| record.outcome != Outcome::Pending;
                    let span =
                        |record: &RequestRecord| (record.arrival.as_secs(), over(record).then(|| record.end.as_secs()));
                    lane.spans = run.records.iter().map(span).collect();
                    lane.spans.sort_by(|a, b| a.0.total_cmp(&b.0));
                } else if needs.spans && run.keeps {
                    let arrived = stage.arrivals.partition_point(|&arrival| arrival <= run.fleet.now());
                    let arrivals = stage.arrivals[..arrived].iter().map(|arrival| arrival.as_secs());
                    lane.spans = arrivals.map(|arrival| (arrival, None)).collect();
                    let ended = run.records.iter().filter(|record| record.outcome != Outcome::Pending);
                    for record in ended {
                        if let Some((_, end)) = lane.spans.get_mut(record.index as usize) {
                            *end = Some(record.end.as_secs());
                        }
                    }
                }
                if needs.totals {
                    lane.scaling = self.spec.scaling.on.then(|| self.scaling_lane(stage, run));
                    lane.storm = self.spec.clients.on.then(|| self.storm_lane(stage, run));
                }
                lane
            })
            .collect()
    }

    fn scaling_lane(&self, stage: &Stage, run: &Run) -> chart::ScalingLane {
        let (ledger, survey) = (&run.ledger, &stage.survey);
        let bin_s = ledger.bin.as_secs();
        let mut counts = vec![0u32; stage.survey.last_arrival.0.div_ceil(ledger.bin.0).max(1) as usize];
        for arrival in stage.arrivals.iter().take_while(|&&arrival| arrival <= run.fleet.now()) {
            if let Some(count) = counts.get_mut((arrival.0 / ledger.bin.0) as usize) {
                *count += 1;
            }
        }
        let reuse = ratio(survey.ceiling_hit_tokens as f64, survey.prompt_tokens as f64);
        let each = costs::replica_capacity_per_s(&self.spec, &CostModel::from_coefficients(&stage.coefficients), reuse);
        let ready = ledger.points.iter().map(|point| (point.at.as_secs(), f64::from(point.ready) * each));
        chart::ScalingLane {
            bin_s,
            demand: counts.iter().map(|&count| f64::from(count) / bin_s).collect(),
            late: ledger.bins.iter().map(|bin| bin.late > 0).collect(),
            capacity: std::iter::once((0.0, f64::from(self.spec.replicas) * each)).chain(ready).collect(),
            until_s: run.fleet.now().as_secs(),
        }
    }

    fn storm_lane(&self, stage: &Stage, run: &Run) -> chart::StormLane {
        let flow = run.fleet.flow();
        let bin_s = flow.bin().as_secs();
        let per_s = |count: u32| f64::from(count) / bin_s;
        chart::StormLane {
            bin_s,
            attempts: flow.bins().iter().map(|bin| per_s(bin.attempts)).collect(),
            arrivals: flow.bins().iter().map(|bin| per_s(bin.attempts - bin.repeats)).collect(),
            peak_per_s: report::clients::peak_per_s(flow),
            capacity: costs::capacity_per_s(&self.spec, &CostModel::from_coefficients(&stage.coefficients)),
            until_s: run.fleet.now().as_secs(),
        }
    }
}

/// Arrival and a latency of every record that has one, by arrival, where only records know when requests came.
fn paced_points(run: &Run, latency: fn(&RequestRecord) -> Option<Nanos>) -> Vec<(f64, f64)> {
    let known = run.records.iter().filter_map(|record| Some((record.arrival.as_secs(), latency(record)?.as_secs())));
    let mut points: Vec<(f64, f64)> = known.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// The same where the workload knows.
fn points(stage: &Stage, run: &Run, latency: fn(&RequestRecord) -> Option<Nanos>) -> Vec<(f64, f64)> {
    let known = run.records.iter().filter_map(|record| Some((record.index, latency(record)?.as_secs())));
    let mut points: Vec<(u32, f64)> = known.collect();
    points.sort_unstable_by_key(|(index, _)| *index);
    let arrival = |index: u32| stage.arrivals[index as usize].as_secs();
    points.into_iter().map(|(index, latency)| (arrival(index), latency)).collect()
}
