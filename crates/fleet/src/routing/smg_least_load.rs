//! smg's `least_load`: the shortest time to drain what waits, with a barrier before a full KV cache.
//!
//! `model_gateway/src/policies/least_load.rs`: `(queued + sent since the poll) ÷ throughput + λ · k ÷ (1 − k)`, in seconds, the least wins and
//! of equals the first. Queued tokens and the share k of KV in use are polled; between two polls everything would go to one worker, so
//! what this router sent since is added. A worker without a fresh poll is judged by its requests in flight, each as long as a mean
//! prompt; when nobody has one, requests in flight alone decide.
//!
//! smg polls every 10 s; here engine metrics are as old as the fleet's scrapes. Engines do not tell how fast they generate, so the
//! throughput is the source's stand-in for that case; and queued tokens are whole prompts, where SGLang's engines leave out what they have cached.

use super::params::{self, Params};
use super::registry::Entry;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "smg_least_load";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Fullest a cache counts as: beyond it the barrier would be infinite, and several full workers could not be told apart.
const FULLEST: f64 = 0.999;
/// Replicas of a fleet are fewer; a saved state that names more is damaged.
const MOST_REPLICAS: usize = 1 << 16;

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "smg least_load".into(),
        family: Family::Plain,
        project: "SGLang gateway (smg)".into(),
        reads_prompt: false,
        summary: "Sends each request to the worker that drains what waits there soonest, counting what was sent since it was last asked, and keeps away from workers whose KV cache is nearly full.".into(),
        reads: "Polled: tokens waiting and share of KV in use. Its own count of tokens sent since. Router-local requests in flight for workers without a fresh poll. The prompt's length, not its content.".into(),
        compares: "Seconds until what waits is drained, and the KV barrier; the least wins.".into(),
        fails: "Blind to caches: spreads prefixes over all workers. With several gateways each adds only what it sent itself. The throughput is one number for all workers unless they report theirs, so a slow one looks as quick as the rest.".into(),
        params: vec![
            // 0.15 s: the source's. At a cache half full the barrier is as long as 300 tokens at the default throughput, at 0.95 as 5 700.
            params::number("kv_weight", "KV barrier", "s", 0.15, (0.0, 100.0, 0.01),
                "Seconds that a cache half full counts; more so the fuller it is."),
            // 2 000 tokens/s: the source's for engines that report none. It weighs waiting tokens against the barrier.
            params::number("throughput", "Throughput", "tokens/s", 2000.0, (1.0, 10_000_000.0, 1.0),
                "How fast a worker is taken to drain tokens."),
            params::integer("mean_prefill", "Mean prompt", "tokens", 1024, (1, 1 << 24),
                "What a request in flight counts on a worker without a fresh poll, and any request where lengths are unknown."),
            // Three polls of 10 s in the source: two may be missed.
            params::number("stale_s", "Stale after", "s", 30.0, (0.1, 86_400.0, 0.1),
                "A poll older than this counts as none."),
            params::switch("count_tokens", "Know prompt lengths", true,
                "As behind gRPC, where prompts come as tokens. Off: as behind HTTP, every request counts as a mean prompt."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LeastLoad {
        kv_weight: params.number("kv_weight"),
        throughput: params.number("throughput"),
        mean_prefill: params.integer("mean_prefill"),
        stale: Nanos::from_secs(params.number("stale_s")),
        count_tokens: params.switch("count_tokens"),
        sent: Vec::new(),
    })
}

struct LeastLoad {
    kv_weight: f64,
    throughput: f64,
    mean_prefill: u32,
    stale: Nanos,
    count_tokens: bool,
    /// By replica.
    sent: Vec<Sent>,
}

/// What was sent to a worker since it was polled.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    polled: Option<Nanos>,
    tokens: u64,
}

impl Policy for LeastLoad {
    fn reads(&self) -> Reads {
        Reads::LOCAL.and(Reads::POLLED)
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        let workers = ctx.candidates;
        let last = workers.last().map_or(0, |&worker| worker as usize);
        if self.sent.len() <= last {
            self.sent.resize(last + 1, Sent::default());
        }
        let fresh = |at: usize| ctx.polled(at).at.is_some_and(|polled| ctx.now.since(polled) <= self.stale);
        let any = (0..workers.len()).any(fresh);
        for (at, (&worker, local)) in workers.iter().zip(ctx.local()).enumerate() {
            let polled = ctx.polled(at);
            let sent = &mut self.sent[worker as usize];
            if sent.polled != polled.at {
                *sent = Sent { polled: polled.at, tokens: 0 };
            }
            scores.push(if fresh(at) {
                let k = polled.kv_usage.clamp(0.0, FULLEST);
                (polled.waiting_tokens + sent.tokens) as f64 / self.throughput + self.kv_weight * k / (1.0 - k)
            } else if any {
                f64::from(local.requests) * f64::from(self.mean_prefill) / self.throughput
            } else {
                local.requests.into()
            });
        }
        // The first of the least.
        let at = (1..scores.len()).fold(0, |least, at| if scores[at] < scores[least] { at } else { least });
        let tokens = if self.count_tokens { ctx.request.prompt.len } else { self.mean_prefill };
        self.sent[workers[at] as usize].tokens += u64::from(tokens);
        Choice::new(workers[at], if any { "soonest drained" } else { "no poll: fewest requests in flight" })
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.sent).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        let sent: Vec<Sent> = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        if sent.len() > MOST_REPLICAS {
            return Err(format!("{} replicas are too many", sent.len()));
        }
        self.sent = sent;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use crate::telemetry::PolledSignals;
    use servelab_engine::Prompt;
    use servelab_spec::experiment::PolicySpec;

    fn poll(bench: &mut Bench, seconds: f64, told: &[(u64, f64)]) {
        for (polled, &(waiting_tokens, kv_usage)) in bench.polled.iter_mut().zip(told) {
            let at = Some(Nanos::from_secs(seconds));
            *polled = PolledSignals { at, waiting_tokens, kv_usage, ..PolledSignals::default() };
        }
    }

    fn long(len: u32) -> Prompt {
        prompt(&(0..len).collect::<Vec<_>>())
    }

    /// By hand, in seconds: (waiting tokens, KV in use) of three workers → the least.
    #[test]
    fn time_to_drain_and_the_barrier_add_up() {
        for (told, worker, scores) in [
            ([(0, 0.0), (0, 0.0), (0, 0.0)], 0, [0.0, 0.0, 0.0]),
            ([(4000, 0.0), (2000, 0.0), (3000, 0.0)], 1, [2.0, 1.0, 1.5]),
            // Half full is 0.15 s, 0.9 is 1.35: the emptier queue loses.
            ([(1000, 0.5), (0, 0.9), (2000, 0.0)], 0, [0.65, 1.35, 1.0]),
            // Full counts as 0.999, so more waiting still tells full ones apart.
            ([(2000, 1.0), (0, 1.0), (4000, 1.0)], 1, [150.85, 149.85, 151.85]),
        ] {
            let mut bench = Bench::of(NAME, 3);
            poll(&mut bench, 0.0, &told);
            assert_eq!(bench.pick(&long(8)), worker, "{told:?}");
            assert!(
                bench.scores.iter().zip(scores).all(|(got, wanted)| (got - wanted).abs() < 1e-9),
                "{:?}",
                bench.scores
            );
        }
    }

    /// Between two polls argmin alone would pile everything on worker 0; what was sent fills the others up first.
    #[test]
    fn what_was_sent_since_the_poll_is_waited_for_too() {
        let mut bench = Bench::of(NAME, 3);
        poll(&mut bench, 0.0, &[(0, 0.0), (500, 0.0), (900, 0.0)]);
        let picks: Vec<u32> = (0..7).map(|_| bench.send(&long(400))).collect();
        // 0: 0, 400, 800 …; 1: 500, 900; 2: 900. Ties go to the first.
        assert_eq!(picks, [0, 0, 1, 0, 1, 2, 0]);
        bench.reload(PolicySpec::named(NAME));
        assert_eq!(bench.send(&long(400)), 1, "1 600, 1 300, 1 300");
        // A new poll knows it all.
        poll(&mut bench, 10.0, &[(0, 0.0), (500, 0.0), (900, 0.0)]);
        bench.now = Nanos::from_secs(10.0);
        assert_eq!(bench.send(&long(400)), 0);
        // Behind HTTP every request is a mean prompt.
        let mut bench = Bench::new(PolicySpec::named(NAME).with("count_tokens", 0.0).with("mean_prefill", 600.0), 3);
        poll(&mut bench, 0.0, &[(0, 0.0), (500, 0.0), (900, 0.0)]);
        assert_eq!([0, 1, 2, 3].map(|_| bench.send(&long(4))), [0, 1, 0, 2]);
        assert!(bench.policy.restore(&Value::from(1)).is_err());
    }

    #[test]
    fn without_a_fresh_poll_requests_in_flight_stand_in() {
        let mut bench = Bench::of(NAME, 3).requests(&[3, 1, 2]);
        poll(&mut bench, 0.0, &[(9000, 0.0), (9000, 0.0), (9000, 0.0)]);
        bench.now = Nanos::from_secs(30.0);
        assert_eq!(bench.pick(&long(8)), 0, "30 s are not more than 30 s: all polls count, and say the same");
        bench.now = Nanos::from_secs(30.1);
        assert_eq!((bench.pick(&long(8)), bench.choice.why), (1, "no poll: fewest requests in flight"));
        assert_eq!(bench.scores, [3.0, 1.0, 2.0]);
        // One was polled: 1.5 s; the others stand at 3 · 1024 ÷ 2000 and 2 · 1024 ÷ 2000.
        bench.polled[1] = PolledSignals { at: Some(bench.now), waiting_tokens: 3000, ..PolledSignals::default() };
        assert_eq!(bench.pick(&long(8)), 2);
        assert_eq!(bench.scores, [1.536, 1.5, 1.024]);
    }
}
