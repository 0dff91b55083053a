//! Scaling in the loop: scrapes for the controller, its evaluations, and what follows from them.

use super::timers::Timer;
use super::{Fleet, FleetConfig};
use crate::scaling::history::TTFT_BUCKETS;
use crate::scaling::scaler::{ScalePoint, victims};
use crate::scaling::{
    Controller, Future, LifeEvent, Over, Phase, Pod, PodSample, ScaleView, ScalingTotals, Signal, registry,
};
use servelab_engine::Nanos;
use servelab_spec::experiment::Victim;
use servelab_spec::frame::ReplicaState;
use servelab_spec::validate::SpecError;
use servelab_workload::{Source, Workload};

/// The controller of `config`, if it has one.
pub(super) fn controller(config: &FleetConfig) -> Result<Option<Box<dyn Controller>>, SpecError> {
    let spec = config.scaling.as_ref().and_then(|scaling| scaling.controller.as_ref());
    spec.map(registry::build).transpose()
}

/// What the source plans, for a controller that is a bound.
struct Planned<'a>(&'a Source);

impl Future for Planned<'_> {
    fn peak_rate(&self, from: Nanos, to: Nanos) -> f64 {
        self.0.peak_rate(from, to)
    }
}

impl Fleet {
    /// Sets scrapes and evaluations going.
    pub(super) fn start_scaling(&mut self) {
        let Some(scaling) = &self.core.config.scaling else { return };
        // Scrapes before evaluations of the same instant.
        self.core.timers.insert(scaling.scrape, Timer::Sample);
        if let Some(controller) = &self.controller {
            self.core.timers.insert(controller.period().max(Nanos(1)), Timer::Evaluate);
        }
        (0..self.core.config.replicas).for_each(|replica| self.expect_probe(replica));
        self.keep_spares();
    }

    /// The signals of scaling are scraped.
    pub(super) fn sample(&mut self) {
        let Some(scrape) = self.core.config.scaling.as_ref().map(|scaling| scaling.scrape) else { return };
        if self.core.stale > 0 {
            self.core.timers.insert(self.core.now + scrape, Timer::Sample);
            return self.keep_point();
        }
        self.split_runs();
        let core = &mut self.core;
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
        let mut sample = scaler.spare.take().unwrap_or_default();
        (sample.at, sample.held, sample.arrivals) = (core.now, core.gateway.held(), core.counts.attempts);
        let mut used = 0;
        for (index, replica) in (0u32..).zip(&core.replicas) {
            // Whoever drains is out of its service, and whoever is not warm has nothing to say.
            if !replica.may_run() || replica.life.state() == ReplicaState::Draining {
                continue;
            }
            if used == sample.pods.len() {
                sample.pods.push(PodSample::default());
            }
            let pod = &mut sample.pods[used];
            used += 1;
            (pod.replica, pod.life) = (index, replica.life.number());
            let model = replica.model.get();
            model.counters(pod);
            pod.arrivals = replica.assignments;
            pod.up_s = core.now.since(replica.warm_at).as_secs();
            let host = scaling.host;
            let steps = model.stats().steps as f64;
            pod.cpu_s = (pod.admitted as f64 * host.request_us + steps * host.step_us) / 1e6 / f64::from(host.cores);
            if let Some(ttft) = &replica.ttft {
                pod.ttft.copy_from_slice(&ttft[..]);
            }
        }
        sample.pods.truncate(used);
        let window = self.controller.as_ref().map_or(Nanos::ZERO, |controller| controller.window());
        scaler.spare = scaler.history.push(sample, window);
        core.timers.insert(core.now + scrape, Timer::Sample);
        self.keep_point();
    }

    /// Notes the fleet as it stands.
    fn keep_point(&mut self) {
        let core = &mut self.core;
        let Some(scaler) = &mut core.scaler else { return };
        let count = |state| core.replicas.iter().filter(|replica| replica.life.state() == state).count() as u32;
        let history = &scaler.history;
        let mean = |signal| history.fleet(signal, Over::Latest).unwrap_or(0.0);
        let total = |signal| history.fleet(signal, Over::Latest).unwrap_or(0.0) as u32;
        let point = ScalePoint {
            at: core.now,
            wanted: scaler.said.0,
            desired: scaler.current,
            ready: count(ReplicaState::Ready),
            starting: count(ReplicaState::Starting),
            draining: count(ReplicaState::Draining),
            queued: total(Signal::QueueDepth),
            running: total(Signal::Running),
            arrived: core.counts.arrived,
            gpu: mean(Signal::GpuUtilisation),
            compute: mean(Signal::ComputeUtilisation),
            cpu: mean(Signal::CpuUtilisation),
            kv: mean(Signal::KvUsage),
        };
        scaler.point(point);
    }

    /// Replicas that are there or on their way, those that drain and those kept in reserve left out.
    fn pods(&self) -> Vec<Pod> {
        let used = (0u32..).zip(&self.core.replicas).filter(|(_, of)| !of.spare);
        let pods = used.filter_map(|(replica, of)| {
            let phase = match of.life.state() {
                ReplicaState::Ready => Phase::Ready,
                ReplicaState::Starting if of.waits_for_node(&self.core.config) => Phase::Pending,
                ReplicaState::Starting | ReplicaState::NotReady => Phase::Starting,
                ReplicaState::Planned | ReplicaState::Standby | ReplicaState::Draining | ReplicaState::Gone => {
                    return None;
                }
            };
            let created = of.life.created().unwrap_or(Nanos::ZERO);
            Some(Pod { replica, phase, created, since: of.life.since() })
        });
        pods.collect()
    }

    /// The controller evaluates.
    pub(super) fn evaluate(&mut self) {
        let pods = self.pods();
        let Fleet { core, controller: Some(controller), .. } = self else { return };
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
        let future = Planned(&core.source);
        let view = ScaleView {
            now: core.now,
            current: scaler.current,
            min: scaling.min,
            max: scaling.max,
            pods: &pods,
            history: &scaler.history,
            future: Some(&future),
        };
        let decision = controller.decide(&view);
        let desired = view.clamp(decision.desired);
        let changed = scaler.said != (decision.wanted, desired);
        scaler.said = (decision.wanted, desired);
        core.timers.insert(core.now + controller.period().max(Nanos(1)), Timer::Evaluate);
        if changed {
            scaler.current = desired;
            self.reconcile();
            self.keep_point();
        }
    }

    /// Creates what is missing and drains what is too much.
    pub(super) fn reconcile(&mut self) {
        let pods = self.pods();
        let (Some(scaler), Some(scaling)) = (&self.core.scaler, &self.core.config.scaling) else { return };
        let (there, wanted) = (pods.len(), scaler.current as usize);
        // A deploy may have a successor beside the one it replaces.
        let surplus = usize::from(!scaler.deploy.is_empty() && scaling.startup.surge);
        if there < wanted + surplus {
            for _ in there..wanted + surplus {
                if !self.promote() && !self.create(false) {
                    return;
                }
            }
        } else if there > wanted + surplus {
            let victim = scaling.victim;
            let core = &self.core;
            let rank = |replica: u32| match victim {
                Victim::Newest => 0,
                Victim::Idlest => core.in_flight[replica as usize].into(),
                Victim::Coldest => core.replicas[replica as usize].model.get().cached_blocks().into(),
            };
            for replica in victims(&pods, there - wanted - surplus, rank) {
                self.drain(replica);
            }
        }
        self.keep_spares();
    }

    /// A first token came `ttft` after its request had arrived.
    pub(super) fn count_ttft(&mut self, replica: u32, ttft: Nanos) {
        if let Some(counts) = &mut self.core.replicas[replica as usize].ttft {
            let seconds = ttft.as_secs();
            counts[TTFT_BUCKETS.partition_point(|&end| end < seconds)] += 1;
        }
    }

    /// Hands out what scaling has told since the last call.
    pub fn take_scaling(&mut self, points: &mut Vec<ScalePoint>, lives: &mut Vec<LifeEvent>) {
        if let Some(scaler) = &mut self.core.scaler {
            points.append(&mut scaler.points);
            lives.append(&mut scaler.lives);
        }
    }

    /// What scaling has come to so far; `None` in a fleet that does not scale.
    pub fn scaling_totals(&self) -> Option<ScalingTotals> {
        let (scaler, scaling) = (self.core.scaler.as_ref()?, self.core.config.scaling.as_ref()?);
        let node_s = scaler.nodes.paid(self.core.now, scaling.nodes()) / 1_000_000_000;
        Some(ScalingTotals { node_s: node_s as u64, ..scaler.totals })
    }
}
