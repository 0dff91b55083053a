//! NVIDIA Dynamo's KV router: the cheapest replica in blocks, prefill and decode added up.
//!
//! ```text
//! prefill = (uncached tokens in flight + prompt tokens) ÷ block
//! credit  = c · decay · blocks of the prompt that the replica holds
//! decay   = 1 ÷ (1 + d · prefill blocks in flight beyond the least ÷ blocks of the prompt)
//! cost    = s · max(0, prefill − credit) + blocks in flight, the prompt's new ones included + w · requests in flight
//! ```
//!
//! The lowest cost wins; above temperature 0 the draw has p ∝ exp(−(cost − min) ÷ ((max − min) · T)). Prefill in flight is charged until the first token;
//! blocks in flight are those of prompts, shared ones once ([`super::active_blocks`]). Source: Dynamo
//! `lib/kv-router/src/scheduling/{config.rs, selector/default.rs}` and its active sequences. Left out, as nothing here has them: credits for blocks
//! on host, disk or a shared tier, worker taints, busy thresholds and the queue in front.

use super::active_blocks::ActiveBlocks;
use super::expiring::Expiring;
use super::params::{self, Params};
use super::registry::Entry;
use super::scoring::picker;
use super::ties::Ties;
use super::{Choice, Policy, RequestView, RouteContext};
use crate::telemetry::Reads;
use serde_json::{Value, json};
use servelab_engine::random::{Stream, mix};
use servelab_engine::{BlockKey, Nanos};
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "dynamo_kv";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Dynamo KV router".into(),
        family: Family::CacheAware,
        project: "NVIDIA Dynamo".into(),
        reads_prompt: true,
        summary: "Prices each replica in KV blocks: prefill in flight and to come, less what it holds of the prompt, plus the blocks in flight there; the cheapest wins.".into(),
        reads: "The whole prompt. Event-fed: which blocks replicas hold. Router-local: uncached tokens and prompts in flight.".into(),
        compares: "Cost in blocks; the lowest wins.".into(),
        fails: "Routers that do not share their counts all pick the same cheapest worker (#589). The credit is for the prompt but the zero floor forgets what is left of it. Requests that differ little in cost go to few workers while others get nothing (#7836). Without events it silently goes by load alone; until the first events come, siblings of a burst scatter. It knows nothing of how fast a replica is.".into(),
        params: vec![
            params::number("overlap_credit", "Overlap credit", "× blocks held", 1.0, (0.0, 10.0, 0.1),
                "c: how many blocks of prefill a block held is worth."),
            params::number("credit_decay", "Credit decay", "", 0.0, (0.0, 100.0, 0.1),
                "d: how fast the credit shrinks as the replica's prefill in flight exceeds the least. 0: never."),
            params::number("prefill_scale", "Prefill scale", "×", 1.0, (0.0, 100.0, 0.1),
                "s: how much a block of prefill costs against a block in flight."),
            params::number("request_weight", "Request weight", "blocks", 0.0, (0.0, 1000.0, 1.0),
                "w: what every request in flight costs besides."),
            params::number("temperature", "Temperature", "", 0.0, (0.0, 100.0, 0.01),
                "Above 0, a draw that favours low costs instead of the lowest; costs are scaled to their range first."),
            params::switch("zero_floor", "Zero floor", true,
                "Prefill less credit costs nothing below 0. Newer versions do without (#11714)."),
            params::number("predicted_ttl_s", "Predicted credit", "s", 0.0, (0.0, 600.0, 0.1),
                "Believe for so long that a replica holds the prompts sent there, before its events say so. 0: off; Dynamo's documents suggest 5."),
            Ties::Random.param(),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    let ttl = Nanos::from_secs(params.number("predicted_ttl_s"));
    Box::new(DynamoKv {
        credit: params.number("overlap_credit"),
        decay: params.number("credit_decay"),
        prefill_scale: params.number("prefill_scale"),
        request_weight: params.number("request_weight"),
        temperature: params.number("temperature"),
        zero_floor: params.switch("zero_floor"),
        ties: Ties::of(params),
        active: ActiveBlocks::new(),
        predicted: (ttl > Nanos::ZERO).then(|| Expiring::new(ttl)),
        held: Vec::new(),
        shared: Vec::new(),
        weights: Vec::new(),
    })
}

struct DynamoKv {
    credit: f64,
    decay: f64,
    prefill_scale: f64,
    request_weight: f64,
    temperature: f64,
    zero_floor: bool,
    ties: Ties,
    active: ActiveBlocks,
    /// Blocks that replicas are believed to hold because a prompt with them was sent there, by key and replica mixed into one.
    predicted: Option<Expiring>,
    /// Leading blocks of the prompt that each candidate holds.
    held: Vec<u32>,
    /// Leading blocks of the prompt that are in flight on each candidate.
    shared: Vec<u32>,
    weights: Vec<f64>,
}

fn place(key: BlockKey, replica: u32) -> u64 {
    mix(key.0, u64::from(replica))
}

impl DynamoKv {
    fn look_up(&mut self, ctx: &RouteContext<'_>) {
        let prompt = ctx.request.prompt;
        self.held.clear();
        ctx.matched_blocks(&mut self.held);
        if let Some(predicted) = &self.predicted {
            // A prompt is believed in from its root on, so the longer of the two chains is what both together hold.
            for (&replica, held) in ctx.candidates.iter().zip(&mut self.held) {
                let believed = |block: &u32| {
                    prompt.key(*block).is_some_and(|key| predicted.get(ctx.now, place(key, replica)).is_some())
                };
                *held = (*held).max((0..).take_while(believed).count() as u32);
            }
        }
        self.shared.clear();
        self.active.matched(prompt, ctx.candidates, &mut self.shared);
    }
}

impl Policy for DynamoKv {
    fn reads(&self) -> Reads {
        Reads::LOCAL.and(Reads::EVENTS)
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        self.look_up(ctx);
        let prompt = ctx.request.prompt;
        // A fleet without blocks counts in tokens.
        let block = f64::from(ctx.block_tokens.max(1));
        let prompt_blocks = f64::from(prompt.len.div_ceil(ctx.block_tokens.max(1)));
        let least = ctx.local().iter().map(|local| local.prefill_tokens).min().unwrap_or(0);
        for (at, local) in ctx.local().iter().enumerate() {
            let excess = (local.prefill_tokens - least) as f64 / block / prompt_blocks;
            let credit = self.credit / (1.0 + self.decay * excess) * f64::from(self.held[at]);
            let prefill = (local.prefill_tokens + u64::from(prompt.len)) as f64 / block - credit;
            let prefill = if self.zero_floor && prefill < 0.0 { 0.0 } else { prefill };
            let blocks = self.active.blocks(ctx.candidates[at]) + prompt.full_blocks() - self.shared[at];
            let requests = self.request_weight * f64::from(local.requests);
            scores.push(self.prefill_scale * prefill + f64::from(blocks) + requests);
        }
        let (at, why) = if self.temperature > 0.0 {
            let low = scores.iter().copied().fold(f64::INFINITY, f64::min);
            let range = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low;
            let scale = if range > 0.0 { 1.0 / (range * self.temperature) } else { 0.0 };
            self.weights.clear();
            self.weights.extend(scores.iter().map(|cost| libm::exp(-(cost - low) * scale)));
            (picker::draw(&self.weights, stream), "drawn, low costs likeliest")
        } else {
            (self.ties.lowest(scores, stream), "lowest cost")
        };
        let held = (self.held[at] * ctx.block_tokens).min(prompt.len.saturating_sub(1));
        Choice::new(ctx.candidates[at], why).expecting(held)
    }

    fn dispatched(&mut self, now: Nanos, request: &RequestView<'_>, replica: u32) {
        self.active.add(request.prompt, replica);
        if let Some(predicted) = &mut self.predicted {
            for key in (0..).map_while(|block| request.prompt.key(block)) {
                predicted.set(now, place(key, replica), 0);
            }
        }
    }

    fn ended(&mut self, _now: Nanos, request: &RequestView<'_>, replica: u32) {
        self.active.end(request.prompt, replica);
    }

    fn save(&self) -> Value {
        json!({ "active": self.active.save(), "predicted": self.predicted.as_ref().map(Expiring::save) })
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.active.restore(&state["active"])?;
        match &mut self.predicted {
            Some(predicted) => predicted.restore(&state["predicted"]),
            None if state["predicted"].is_null() => Ok(()),
            None => Err("predicted credits, but they are off".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_engine::Prompt;
    use servelab_spec::experiment::PolicySpec;

    fn spec() -> PolicySpec {
        PolicySpec::named(NAME).with("ties", 0.0)
    }

    fn ids(from: u32, len: u32) -> Prompt {
        prompt(&(from..from + len).collect::<Vec<_>>())
    }

    fn prefill(bench: &mut Bench, tokens: &[u64]) {
        bench.local.iter_mut().zip(tokens).for_each(|(local, &tokens)| local.prefill_tokens = tokens);
    }

    /// Prompts of 160 tokens: ten blocks of prefill and ten of decode.
    #[test]
    fn costs_are_prefill_less_credit_plus_blocks_in_flight() {
        let asked = ids(0, 160);
        let mut bench = Bench::new(spec(), 3);
        assert_eq!(bench.policy.reads(), Reads::LOCAL.and(Reads::EVENTS));
        assert_eq!((bench.pick(&asked), &bench.scores[..]), (0, &[20.0, 20.0, 20.0][..]));
        bench.stored(1, &asked, 8);
        assert_eq!((bench.pick(&asked), &bench.scores[..]), (1, &[20.0, 12.0, 20.0][..]));
        assert_eq!(bench.choice.expected_hit, 128);
        // 96 tokens in flight cost six blocks, 128 eight and 160 ten: with eight held, a tie at eight and more beyond.
        prefill(&mut bench, &[0, 96, 0]);
        assert_eq!((bench.pick(&asked), bench.scores[1]), (1, 18.0));
        prefill(&mut bench, &[0, 128, 0]);
        assert_eq!((bench.pick(&asked), bench.scores[1]), (0, 20.0));
        // Where everybody is loaded it stays: an affinity policy with a guard against the mean would leave.
        prefill(&mut bench, &[1600, 1600, 1600]);
        assert_eq!((bench.pick(&asked), bench.scores[1]), (1, 112.0));
        // Not whole tokens of a block: 100 tokens are 6.25 blocks, six of them full.
        prefill(&mut bench, &[0, 0, 8]);
        bench.pick(&ids(5000, 100));
        assert_eq!(bench.scores, [12.25, 12.25, 12.75]);
    }

    #[test]
    fn blocks_in_flight_count_once_and_until_the_end() {
        let (asked, other) = (ids(0, 160), ids(5000, 32));
        let mut bench = Bench::new(spec(), 2);
        assert_eq!(bench.send(&asked), 0);
        // The same prompt again: prefill of both on 0, its blocks there already; a least-load policy would call 0 twice as full as 1.
        bench.pick(&asked);
        assert_eq!(bench.scores, [20.0 + 10.0, 20.0]);
        prefill(&mut bench, &[0, 0]);
        bench.pick(&asked);
        assert_eq!(bench.scores, [20.0, 20.0], "after the first token, nothing speaks against sharing");
        bench.pick(&other);
        assert_eq!(bench.scores, [14.0, 4.0], "but for another prompt its blocks are in the way");
        bench.reload(spec());
        bench.pick(&other);
        assert_eq!(bench.scores, [14.0, 4.0]);
        bench.policy.ended(bench.now, &Bench::request(&asked), 0);
        bench.pick(&other);
        assert_eq!(bench.scores, [4.0, 4.0]);
    }

    #[test]
    fn credit_decays_with_excess_prefill() {
        let asked = ids(0, 160);
        let mut bench = Bench::new(spec().with("credit_decay", 1.0).with("request_weight", 2.0), 2).requests(&[3, 1]);
        bench.stored(0, &asked, 10);
        // Excess of 160 tokens = ten blocks over a prompt of ten: decay ½. (16 + 160 + 160) ÷ 16 − 5 + 10 + 6.
        prefill(&mut bench, &[176, 16]);
        bench.pick(&asked);
        assert_eq!(bench.scores, [32.0, 23.0]);
        let mut bench = Bench::new(spec().with("overlap_credit", 0.5).with("prefill_scale", 4.0), 2);
        bench.stored(0, &asked, 10);
        bench.pick(&asked);
        assert_eq!(bench.scores, [30.0, 50.0]);
    }

    #[test]
    fn the_floor_can_be_left_out() {
        let asked = ids(0, 160);
        for (floor, expected) in [(1.0, 10.0), (0.0, 0.0)] {
            let mut bench = Bench::new(spec().with("overlap_credit", 2.0).with("zero_floor", floor), 1);
            bench.stored(0, &asked, 10);
            bench.pick(&asked);
            assert_eq!(bench.scores, [expected], "ten blocks of prefill, twenty of credit, ten in flight");
        }
    }

    #[test]
    fn ties_and_temperatures_draw() {
        let asked = ids(0, 160);
        let mut bench = Bench::of(NAME, 4);
        let hits = bench.counts(&asked, 600);
        assert!(hits.iter().all(|&hits| (110..190).contains(&hits)), "random ties: {hits:?}");
        // Costs 12, 16 and 20, scaled to 0, ½ and 1; at T = 1 the odds are 1 : e^−½ : e^−1.
        let mut bench = Bench::new(spec().with("temperature", 1.0), 3);
        bench.stored(0, &asked, 8);
        bench.stored(1, &asked, 4);
        let hits = bench.counts(&asked, 4000);
        let odds = [1.0, libm::exp(-0.5), libm::exp(-1.0)];
        for (hits, odd) in hits.iter().zip(odds) {
            let share = odd / odds.iter().sum::<f64>();
            let deviation = (4000.0 * share * (1.0 - share)).sqrt();
            assert!((f64::from(*hits) - 4000.0 * share).abs() < 4.0 * deviation, "{hits} of 4000, expected {share}");
        }
    }

    #[test]
    fn predictions_credit_before_events_do() {
        let asked = ids(0, 160);
        let on = spec().with("predicted_ttl_s", 5.0);
        for (spec, expected) in [(spec(), [20.0, 20.0]), (on.clone(), [10.0, 20.0])] {
            let mut bench = Bench::new(spec.clone(), 2);
            bench.send(&asked);
            prefill(&mut bench, &[0, 0]);
            bench.reload(spec);
            bench.pick(&asked);
            assert_eq!(bench.scores, expected);
        }
        let mut bench = Bench::new(on, 2);
        bench.send(&asked);
        prefill(&mut bench, &[0, 0]);
        bench.now = Nanos::from_secs(5.0);
        bench.pick(&asked);
        assert_eq!(bench.scores, [20.0, 20.0], "five seconds later nothing has said so");
    }
}
