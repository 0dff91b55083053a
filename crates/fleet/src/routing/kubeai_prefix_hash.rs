//! KubeAI's `PrefixHash`: consistent hashing with bounded loads.
//!
//! Mirrokni et al. (2018) give each server a bound, a factor times the mean load, and let a key walk on around the ring from a server that is
//! full. KubeAI (`internal/loadbalancer/balance_chwbl.go`) keys the ring with the adapter and the first characters of the *first user message*: the
//! system prompt is not looked at, so tenants with long system prompts of their own and users that begin differently are scattered.
//!
//! Its bound asks whether the replica would exceed it *with* the request: `in flight + 1 ≤ factor · (total + 1)/n`. While fewer than about
//! n/factor requests are in flight nobody passes, not even an idle replica, and everything stays at its first place: at low load this is plain consistent
//! hashing.

use super::params::{self, Params};
use super::registry::Entry;
use super::ring::Ring;
use super::text::chars_from;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::{Stream, mix};
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "kubeai_prefix_hash";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// The start of a key without an adapter.
const KEY: u64 = 0x6368_7762;

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Consistent hashing with bounded loads".into(),
        family: Family::Affinity,
        project: "KubeAI".into(),
        reads_prompt: true,
        summary: "Sends requests whose first user message begins alike to the same place on a hash ring, and on to the next replica that is not over its bound of 1.25 times the mean load.".into(),
        reads: "The first characters of the first user message, and the adapter's name. Router-local: requests in flight. With the adapter switch, polled: which replica holds which adapter.".into(),
        compares: "Requests in flight; the first replica on the ring within the bound wins.".into(),
        fails: "Ignores the system prompt, so tenants are told apart only by what their users say. Users that begin alike share one home (KubeAI #519), loads were up to 80 to 10 apart with few virtual nodes (#447), and each of several proxies bounds its own share only (#498).".into(),
        params: vec![
            // 100 characters: `prefixCharLength` of KubeAI's model resource.
            params::integer("prefix_chars", "Prefix", "characters", 100, (1, 65_536),
                "How many characters of the first user message are hashed."),
            // 1.25: `meanLoadFactor: 125`, per cent. The paper: no server above its bound, at a number of moved keys that grows with 1/(factor − 1)².
            params::number("load_factor", "Load factor", "× mean", 1.25, (1.0, 100.0, 0.05),
                "A replica with more requests in flight than this multiple of the mean is passed over."),
            Ring::param(256),
            params::switch("adapters", "Only where the adapter is", false,
                "Pass over replicas that did not hold the request's adapter at the latest scrape, if any did. KubeAI always does, from labels on its pods."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(KubeaiPrefixHash {
        prefix_chars: params.integer("prefix_chars"),
        load_factor: params.number("load_factor"),
        adapters: params.switch("adapters"),
        ring: Ring::new(params.integer(Ring::NAME)),
        serving: Vec::new(),
    })
}

struct KubeaiPrefixHash {
    prefix_chars: u32,
    load_factor: f64,
    adapters: bool,
    ring: Ring,
    /// Of each candidate, whether it can serve the request. Kept for its buffer.
    serving: Vec<bool>,
}

impl KubeaiPrefixHash {
    fn key(&self, ctx: &RouteContext<'_>) -> u64 {
        let adapter = ctx.request.adapter.map_or(KEY, |adapter| mix(KEY, u64::from(adapter) + 1));
        let chars = self.prefix_chars.min(ctx.request.user_tokens);
        chars_from(ctx.request.prompt, ctx.block_tokens, ctx.request.user_at)
            .take(chars as usize)
            .fold(adapter, |key, char| mix(key, u64::from(char) + 1))
    }

    /// Notes which candidates hold the request's adapter. KubeAI makes a request wait until one does; here whoever gets it loads it.
    fn note_serving(&mut self, ctx: &RouteContext<'_>) {
        self.serving.clear();
        match ctx.request.adapter.filter(|_| self.adapters) {
            Some(adapter) => {
                let holds = |at: usize| ctx.polled(at).adapters.binary_search(&adapter).is_ok();
                self.serving.extend((0..ctx.candidates.len()).map(holds));
            }
            None => self.serving.resize(ctx.candidates.len(), true),
        }
        if !self.serving.contains(&true) {
            self.serving.fill(true);
        }
    }
}

impl Policy for KubeaiPrefixHash {
    fn reads(&self) -> Reads {
        if self.adapters { Reads::LOCAL.and(Reads::POLLED) } else { Reads::LOCAL }
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        let key = self.key(ctx);
        self.note_serving(ctx);
        let (local, serving) = (ctx.local(), &self.serving);
        let total: u64 = local.iter().map(|signals| u64::from(signals.requests)).sum();
        let bound = self.load_factor * (total + 1) as f64 / local.len() as f64;
        let fits = |at: usize| serving[at] && (total == 0 || f64::from(local[at].requests) + 1.0 <= bound);
        scores.extend(local.iter().map(|signals| f64::from(signals.requests)));
        let walk = || {
            let met = self.ring.walk(key).filter_map(|replica| ctx.candidates.binary_search(&replica).ok());
            met.filter(|&at| serving[at])
        };
        let Some(first) = walk().next() else { return Choice::new(ctx.candidates[0], "no replica on the ring") };
        if fits(first) {
            return Choice::new(ctx.candidates[first], "its place on the ring");
        }
        // Where nobody fits the walk would be once around for nothing.
        let next = if (0..local.len()).any(fits) { walk().find(|&at| fits(at)) } else { None };
        match next {
            Some(at) => Choice::new(ctx.candidates[at], "its place is over its bound: the next on the ring"),
            None => Choice::new(ctx.candidates[first], "its place on the ring: all are over their bound"),
        }
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.ring.set(ready);
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestView;
    use super::super::testing::{Bench, prompt, text};
    use super::*;
    use servelab_engine::Prompt;
    use servelab_spec::experiment::PolicySpec;

    /// The order in which the request for `prompt` meets four replicas, found by taking away the first again and again.
    fn order(prompt: &Prompt) -> Vec<u32> {
        let mut left = vec![0, 1, 2, 3];
        let mut order = Vec::new();
        while !left.is_empty() {
            let mut bench = Bench::of(NAME, 4);
            bench.replicas(&left);
            let next = bench.pick(prompt);
            left.retain(|&replica| replica != next);
            order.push(next);
        }
        order
    }

    /// Loads given in the order of the walk, the choice as a position in it. By hand from `chwblLoadOK`:
    /// `load + 1 ≤ 1.25 · (total + 1)/4`, or nothing in flight at all.
    #[test]
    fn the_first_within_the_bound_else_the_first() {
        let asked = text("why is the sky blue?");
        let order = order(&asked);
        for (loads, chosen) in [
            ([0, 0, 0, 0], 0),
            // total 1: bound 0.625, nobody fits, not even the idle. A least-load or a generic bounded hash would go on.
            ([1, 0, 0, 0], 0),
            ([2, 0, 0, 0], 0),
            // total 3: bound 1.25, an idle one fits.
            ([3, 0, 0, 0], 1),
            ([1, 1, 1, 0], 3),
            // total 11: bound 3.75. 2 + 1 fits, 3 + 1 does not.
            ([2, 3, 3, 3], 0),
            ([3, 2, 3, 3], 1),
            ([4, 3, 3, 1], 3),
            // total 12: bound 4.06; with 3 each all fit.
            ([3, 3, 3, 3], 0),
            // total 39: bound 12.5, and so on.
            ([12, 11, 8, 8], 1),
            ([11, 12, 8, 8], 0),
        ] {
            let mut requests = [0; 4];
            order.iter().zip(loads).for_each(|(&replica, load)| requests[replica as usize] = load);
            let mut bench = Bench::of(NAME, 4).requests(&requests);
            assert_eq!(bench.pick(&asked), order[chosen], "{loads:?}: {}", bench.choice.why);
            assert_eq!(bench.scores, requests.map(f64::from));
        }
    }

    #[test]
    fn the_first_user_message_and_the_adapter_are_the_key() {
        let home = |prompt: &Prompt, user_at, adapter| {
            Bench::of(NAME, 64).choose(RequestView { user_at, adapter, ..Bench::request(prompt) })
        };
        let mut apart = (0, 0, 0);
        for tenant in 0..40u32 {
            let system = format!("you are assistant number {tenant}. ");
            let at = system.len() as u32;
            let question = format!("{:<100}", format!("question {tenant}?"));
            let a = text(&format!("{system}{question}tail"));
            let b = text(&format!("another system prompt. {question}other tail"));
            assert_eq!(
                home(&a, at, None),
                home(&b, 23, None),
                "system prompt and what follows 100 characters do not count"
            );
            assert_eq!(home(&a, at, Some(3)), home(&b, 23, Some(3)));
            // A message of less than 100 characters ends where it ends, whatever a later turn adds behind it.
            let short = |prompt| {
                let user = RequestView { user_at: at, user_tokens: 12, ..Bench::request(prompt) };
                Bench::of(NAME, 64).choose(user)
            };
            assert_eq!(
                short(&text(&format!("{system}how are you?"))),
                short(&text(&format!("{system}how are you? fine")))
            );
            let c = text(&format!("{system}{}", question.replace('?', "!")));
            apart.0 += u32::from(home(&a, at, None) != home(&c, at, None));
            apart.1 += u32::from(home(&a, at, None) != home(&a, at, Some(0)));
            apart.2 += u32::from(home(&a, at, Some(1)) != home(&a, at, Some(2)));
        }
        // 63 of 64 on average.
        assert!(apart.0 > 33 && apart.1 > 33 && apart.2 > 33, "{apart:?}");
    }

    #[test]
    fn with_the_switch_only_who_holds_the_adapter_is_met() {
        let asked = text("bonjour");
        let order = order(&asked);
        let spec = PolicySpec::named(NAME).with("adapters", 1.0);
        let mut bench = Bench::new(spec, 4);
        let request = |adapter| RequestView { adapter, ..Bench::request(&asked) };
        for holder in 0..4u32 {
            bench.polled.iter_mut().for_each(|polled| polled.adapters.clear());
            bench.polled[holder as usize].adapters = vec![2, 7];
            assert_eq!(bench.choose(request(Some(7))), holder);
            assert_eq!(bench.choose(request(None)), order[0], "no adapter asked for");
            bench.set_requests(&[5, 5, 5, 5]);
            bench.local[holder as usize].requests = 90;
            assert_eq!(bench.choose(request(Some(7))), holder, "over its bound, and nobody else has it");
            bench.set_requests(&[0; 4]);
        }
        // Nobody holds it: as if all did.
        let anywhere = bench.choose(request(Some(1)));
        bench.polled.iter_mut().for_each(|polled| polled.adapters = vec![1]);
        assert_eq!(bench.choose(request(Some(1))), anywhere);
    }

    /// Σ loads grows by one a request, so no load exceeds 1.25 times the mean plus the request itself, once there is enough to bound.
    #[test]
    fn one_hot_key_stays_within_the_bound() {
        let mut bench = Bench::of(NAME, 8);
        let hot = prompt(&[7; 40]);
        for sent in 1..=400u32 {
            bench.send(&hot);
            let most = bench.local.iter().map(|local| local.requests).max().unwrap_or(0);
            assert!(f64::from(most) <= (1.25 * f64::from(sent) / 8.0).max(6.0), "{most} of {sent}");
        }
        // The bound lets a replica have 61 from the 391st request on and 62 from the 397th: by the 400th the first six have been filled up
        // to 61 and four of them to 62, and what was over the bound when the bound was low lies on the last two.
        let mut loads: Vec<u32> = bench.local.iter().map(|local| local.requests).collect();
        loads.sort_by_key(|&load| std::cmp::Reverse(load));
        assert_eq!(loads[..6], [62, 62, 62, 62, 61, 61]);
    }
}
