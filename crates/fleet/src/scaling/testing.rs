//! A bench to test controllers on: a fleet whose signals are set by hand, or follow from the number of replicas.

use super::registry;
use super::*;
use servelab_spec::experiment::ControllerSpec;
use std::collections::BTreeMap;

/// What the next scrape finds: each replica that is ready shows the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Requests that the gateway holds.
    pub(crate) held: u32,
    /// Arrivals per second, of the fleet.
    pub(crate) rate: f64,
    /// Of each replica.
    pub(crate) waiting: u32,
    pub(crate) running: u32,
    pub(crate) kv: f64,
    /// Tokens per second.
    pub(crate) tokens: f64,
    /// Admissions per second.
    pub(crate) admitted: f64,
    /// Seconds that each of those had waited.
    pub(crate) queue_s: f64,
    /// Bucket in which TTFTs fall.
    pub(crate) ttft_bucket: usize,
}

/// A controller with the fleet that it is shown.
pub(crate) struct Bench {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) now: Nanos,
    pub(crate) current: u32,
    min: u32,
    max: u32,
    pub(crate) pods: Vec<Pod>,
    pub(crate) history: History,
    /// Time between two scrapes.
    scrape_every: Nanos,
    /// From the decision on a replica until it is ready.
    start_up: Nanos,
    counters: BTreeMap<u32, PodSample>,
    arrivals: f64,
    last_scrape: Option<Nanos>,
    next_replica: u32,
    rate: Option<f64>,
}

impl Future for f64 {
    fn peak_rate(&self, _: Nanos, _: Nanos) -> f64 {
        *self
    }
}

impl Bench {
    /// No replicas yet, 1 to 1000 allowed, scrapes every 15 s, replicas ready at once.
    pub(crate) fn new(spec: ControllerSpec) -> Self {
        let Ok(controller) = registry::build(&spec) else { unreachable!("{spec:?} builds") };
        Bench {
            controller,
            now: Nanos::ZERO,
            current: 0,
            min: 1,
            max: 1000,
            pods: vec![],
            history: History::default(),
            scrape_every: Nanos::from_secs(15.0),
            start_up: Nanos::ZERO,
            counters: BTreeMap::new(),
            arrivals: 0.0,
            last_scrape: None,
            next_replica: 0,
            rate: None,
        }
    }

    pub(crate) fn bounds(mut self, min: u32, max: u32) -> Self {
        (self.min, self.max) = (min, max);
        self
    }

    pub(crate) fn ready(self, count: u32) -> Self {
        self.phase(count, Phase::Ready)
    }

    /// `count` more replicas in that phase.
    pub(crate) fn phase(mut self, count: u32, phase: Phase) -> Self {
        for _ in 0..count {
            self.pods.push(Pod { replica: self.next_replica, phase, created: self.now, since: self.now });
            self.next_replica += 1;
        }
        self.current += count;
        self
    }

    pub(crate) fn scrapes_every(mut self, seconds: f64) -> Self {
        self.scrape_every = Nanos::from_secs(seconds);
        self
    }

    pub(crate) fn start_up(mut self, seconds: f64) -> Self {
        self.start_up = Nanos::from_secs(seconds);
        self
    }

    /// The planned rate, at any instant.
    pub(crate) fn planned(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// One scrape interval later, a scrape.
    pub(crate) fn scrape(&mut self, load: Load) {
        self.now += self.scrape_every;
        self.scrape_now(|_| load);
    }

    /// Several of them.
    pub(crate) fn scrapes(&mut self, count: u32, load: Load) {
        (0..count).for_each(|_| self.scrape(load));
    }

    /// A scrape of replicas that are not all alike: `load` of each index.
    pub(crate) fn scrape_now(&mut self, load: impl Fn(u32) -> Load) {
        let seconds = self.now.since(self.last_scrape.unwrap_or(Nanos::ZERO)).as_secs();
        let mut pods = vec![];
        for pod in self.pods.iter().filter(|pod| pod.phase == Phase::Ready) {
            let load = load(pod.replica);
            let counter = self.counters.entry(pod.replica).or_default();
            let admitted = (load.admitted * seconds) as u64;
            let delivered = counter.ttft[load.ttft_bucket] + admitted as u32;
            counter.ttft[load.ttft_bucket] = delivered;
            *counter = PodSample {
                replica: pod.replica,
                waiting: load.waiting,
                running: load.running,
                kv_usage: load.kv,
                up_s: counter.up_s + seconds,
                busy_s: counter.busy_s + if load.running > 0 { seconds } else { 0.0 },
                cpu_s: counter.cpu_s + seconds * load.kv,
                compute_s: counter.compute_s + seconds * load.kv,
                arrivals: counter.arrivals + admitted,
                tokens: counter.tokens + (load.tokens * seconds) as u64,
                admitted: counter.admitted + admitted,
                queue_s: counter.queue_s + admitted as f64 * load.queue_s,
                ttft: counter.ttft.clone(),
                ..PodSample::default()
            };
            pods.push(counter.clone());
        }
        self.arrivals += load(u32::MAX).rate * seconds;
        let sample = Sample { at: self.now, held: load(u32::MAX).held, arrivals: self.arrivals as u64, pods };
        self.history.push(sample, self.controller.window());
        self.last_scrape = Some(self.now);
    }

    /// What the controller says now; nothing comes of it.
    pub(crate) fn decide(&mut self) -> Decision {
        let Bench { now, current, min, max, .. } = *self;
        let future = self.rate.as_ref().map(|rate| rate as &dyn Future);
        self.controller.decide(&ScaleView { now, current, min, max, pods: &self.pods, history: &self.history, future })
    }

    /// What the controller says now, done: replicas come (and start), the newest go first.
    pub(crate) fn act(&mut self) -> Decision {
        let decision = self.decide();
        let desired = decision.desired.clamp(self.min, self.max);
        self.pods.sort_by_key(|pod| (pod.phase != Phase::Ready, pod.replica));
        self.pods.truncate(desired as usize);
        self.pods.sort_by_key(|pod| pod.replica);
        self.current = self.pods.len() as u32;
        let phase = if self.start_up == Nanos::ZERO { Phase::Ready } else { Phase::Starting };
        let (now, more) = (self.now, desired - self.current);
        let next = self.next_replica;
        self.pods.extend((next..next + more).map(|replica| Pod { replica, phase, created: now, since: now }));
        self.next_replica += more;
        self.current = desired;
        decision
    }

    /// Replicas whose start-up is over are ready.
    fn advance(&mut self) {
        for pod in &mut self.pods {
            if pod.phase == Phase::Starting && self.now.since(pod.created) >= self.start_up {
                pod.phase = Phase::Ready;
                pod.since = self.now;
            }
        }
    }

    /// `seconds` later, with replicas that have become ready meanwhile, a scrape.
    pub(crate) fn pass(&mut self, seconds: f64, load: Load) {
        self.now += Nanos::from_secs(seconds);
        self.advance();
        self.scrape_now(|_| load);
    }

    /// Lets it run for so long under `load` of the instant and the ready replicas. What it asked for after each evaluation, with the instant in
    /// seconds.
    pub(crate) fn run(&mut self, seconds: f64, load: impl Fn(Nanos, u32) -> Load) -> Vec<(f64, u32)> {
        let end = self.now + Nanos::from_secs(seconds);
        let mut asked = vec![];
        while self.now < end {
            self.now += self.controller.period();
            self.advance();
            if self.last_scrape.is_none_or(|last| self.now.since(last) >= self.scrape_every) {
                let ready = self.pods.iter().filter(|pod| pod.phase == Phase::Ready).count() as u32;
                let load = load(self.now, ready);
                self.scrape_now(|_| load);
            }
            self.act();
            asked.push((self.now.as_secs(), self.current));
        }
        asked
    }

    /// Saves the controller and goes on with a new one restored from that.
    pub(crate) fn reload(&mut self, spec: &ControllerSpec) {
        let state = self.controller.save();
        let Ok(mut controller) = registry::build(spec) else { unreachable!("{spec:?} builds") };
        if let Err(reason) = controller.restore(&state) {
            unreachable!("{reason}");
        }
        assert_eq!(controller.save(), state);
        self.controller = controller;
    }
}

/// The distinct numbers, in the order in which they were asked for.
pub(crate) fn steps(asked: &[(f64, u32)]) -> Vec<u32> {
    let mut steps: Vec<u32> = asked.iter().map(|&(_, replicas)| replicas).collect();
    steps.dedup();
    steps
}
