//! A bench to test policies on: a fleet's signals, set by hand.

use super::registry;
use super::*;
use crate::telemetry::index::KvIndex;
use servelab_engine::KvChange;
use servelab_spec::experiment::PolicySpec;

/// A prompt of these tokens, blocks of 16.
pub(crate) fn prompt(tokens: &[u32]) -> Prompt {
    Prompt::from_tokens(tokens, 16, 0)
}

/// A prompt of text, a token for each byte.
pub(crate) fn text(text: &str) -> Prompt {
    prompt(&text.bytes().map(u32::from).collect::<Vec<_>>())
}

/// A policy with the signals it is shown. Every decision draws from a stream of its own, numbered from 0.
pub(crate) struct Bench {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) now: Nanos,
    pub(crate) candidates: Vec<u32>,
    /// One entry for each replica, by index.
    pub(crate) local: Vec<LocalSignals>,
    pub(crate) polled: Vec<PolledSignals>,
    pub(crate) index: KvIndex,
    pub(crate) draws: u64,
    /// Of the latest decision.
    pub(crate) scores: Vec<f64>,
    pub(crate) choice: Choice,
}

impl Bench {
    /// `replicas` idle replicas under the policy that `spec` names.
    pub(crate) fn new(spec: PolicySpec, replicas: u32) -> Self {
        let Ok(mut policy) = registry::build(&spec) else { unreachable!("{spec:?} builds") };
        let candidates: Vec<u32> = (0..replicas).collect();
        policy.replicas_changed(&candidates);
        Bench {
            policy,
            now: Nanos::ZERO,
            candidates,
            local: vec![LocalSignals::default(); replicas as usize],
            polled: vec![PolledSignals { at: Some(Nanos::ZERO), ..PolledSignals::default() }; replicas as usize],
            index: KvIndex::new(replicas, 0.0, 0),
            draws: 0,
            scores: Vec::new(),
            choice: Choice::new(0, ""),
        }
    }

    /// The same with all defaults.
    pub(crate) fn of(name: &str, replicas: u32) -> Self {
        Bench::new(PolicySpec::named(name), replicas)
    }

    /// In-flight requests of each replica.
    pub(crate) fn requests(mut self, requests: &[u32]) -> Self {
        self.set_requests(requests);
        self
    }

    /// Sets the in-flight requests of each replica.
    pub(crate) fn set_requests(&mut self, requests: &[u32]) {
        self.local.iter_mut().zip(requests).for_each(|(local, &requests)| local.requests = requests);
    }

    /// Outstanding tokens of each replica, a request where there are any.
    pub(crate) fn tokens(mut self, tokens: &[u64]) -> Self {
        for (local, &tokens) in self.local.iter_mut().zip(tokens) {
            *local = LocalSignals { requests: u32::from(tokens > 0), tokens, prompt_tokens: tokens, ..*local };
        }
        self
    }

    /// `replica` told that it holds the first `blocks` blocks of `prompt`.
    pub(crate) fn stored(&mut self, replica: u32, prompt: &Prompt, blocks: u32) {
        let keys = (0..blocks).filter_map(|block| prompt.key(block));
        self.index.tell(self.now, replica, keys.map(KvChange::Stored));
        self.index.receive(self.now);
    }

    /// A request of tenant 0 for this prompt, all of it the user's message.
    pub(crate) fn request<'a>(prompt: &'a Prompt) -> RequestView<'a> {
        RequestView {
            index: 0,
            tenant: 0,
            session: None,
            adapter: None,
            prompt,
            user_at: 0,
            user_tokens: prompt.len,
            max_tokens: 8,
            attempt: 1,
        }
    }

    /// Routes a request, without sending it.
    pub(crate) fn choose(&mut self, request: RequestView<'_>) -> u32 {
        let local: Vec<LocalSignals> = self.candidates.iter().map(|&index| self.local[index as usize]).collect();
        let reads = self.policy.reads();
        let signals = Signals {
            local: if reads.has(Reads::LOCAL) { &local } else { &[] },
            polled: if reads.has(Reads::POLLED) { &self.polled } else { &[] },
            index: reads.has(Reads::EVENTS).then_some(&self.index),
        };
        let ctx = RouteContext::new(self.now, request, &self.candidates, 16, signals);
        self.scores.clear();
        let mut stream = Stream::new(1, b"test").split(self.draws);
        self.draws += 1;
        self.choice = self.policy.route(&ctx, &mut self.scores, &mut stream);
        assert!(self.candidates.contains(&self.choice.replica), "{:?}", self.choice);
        assert!(self.choice.expected_hit < request.prompt.len.max(1), "{:?}", self.choice);
        assert!(self.scores.is_empty() || self.scores.len() == self.candidates.len());
        self.choice.replica
    }

    /// Routes a prompt, without sending it.
    pub(crate) fn pick(&mut self, prompt: &Prompt) -> u32 {
        self.choose(Self::request(prompt))
    }

    /// Routes a request and sends it: it stays in flight.
    pub(crate) fn send_request(&mut self, request: RequestView<'_>) -> u32 {
        let replica = self.choose(request);
        let budget = u64::from(request.prompt.len) + u64::from(request.max_tokens);
        self.local[replica as usize].send(request.prompt.len, budget, self.choice.expected_hit);
        self.policy.dispatched(self.now, &request, replica);
        replica
    }

    /// Routes a prompt and sends it: it stays in flight.
    pub(crate) fn send(&mut self, prompt: &Prompt) -> u32 {
        self.send_request(Self::request(prompt))
    }

    /// An attempt for `prompt` on `replica` ends; its first token came before.
    pub(crate) fn end(&mut self, prompt: &Prompt, replica: u32) {
        let request = Self::request(prompt);
        self.policy.first_token(self.now, &request, replica);
        self.policy.ended(self.now, &request, replica);
        let local = &mut self.local[replica as usize];
        local.requests -= 1;
        local.tokens -= u64::from(prompt.len) + 8;
        local.prompt_tokens -= u64::from(prompt.len);
    }

    /// The replicas that may be chosen change.
    pub(crate) fn replicas(&mut self, ready: &[u32]) {
        self.candidates = ready.to_vec();
        self.policy.replicas_changed(ready);
    }

    /// Saves the policy and goes on with a new one restored from that.
    pub(crate) fn reload(&mut self, spec: PolicySpec) {
        let state = self.policy.save();
        let Ok(mut policy) = registry::build(&spec) else { unreachable!("{spec:?} builds") };
        if let Err(reason) = policy.restore(&state) {
            unreachable!("{reason}");
        }
        policy.replicas_changed(&self.candidates);
        assert_eq!(policy.save(), state);
        self.policy = policy;
    }

    /// How often each replica is chosen for `prompt` in `n` decisions that are not sent.
    pub(crate) fn counts(&mut self, prompt: &Prompt, n: u32) -> Vec<u32> {
        let mut counts = vec![0; self.local.len()];
        for _ in 0..n {
            counts[self.pick(prompt) as usize] += 1;
        }
        counts
    }
}
