//! What one class of clients does: when it gives up on an attempt, whether and when it makes another, and when it gives up for good.

use super::backoff::Backoff;
use super::breaker::Breaker;
use super::budget::Budget;
use super::layers::{self, Layer};
use super::retry_after::RetryAfter;
use super::throttle::Throttle;
use super::{Cause, Failure};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// Most attempts of a request, layers multiplied.
pub const MAX_ATTEMPTS: u32 = 10_000;

/// Most layers behind a client.
const MAX_LAYERS: usize = 8;

/// Most processes of a class: each keeps a state.
const MAX_PROCESSES: u32 = 1_000_000;

/// Which failures are worth another attempt. A request that can never fit (400) is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryOn {
    /// The client's own time-out for an attempt, and 408.
    pub timeouts: bool,
    /// 429: a quota or a queue is full.
    pub too_many: bool,
    /// 500 to 599, a lost replica and a broken connection among them.
    pub server_errors: bool,
}

impl RetryOn {
    /// All of them: what the SDKs of OpenAI and Anthropic do.
    pub const ALL: RetryOn = RetryOn { timeouts: true, too_many: true, server_errors: true };
    /// What the server answered, not the client's own time-out.
    pub const ANSWERS: RetryOn = RetryOn { timeouts: false, too_many: true, server_errors: true };
    /// 500 to 599 only.
    pub const ERRORS: RetryOn = RetryOn { timeouts: false, too_many: false, server_errors: true };

    pub(crate) fn holds(&self, failure: &Failure) -> bool {
        match failure.cause {
            Cause::TimedOut => self.timeouts,
            // What the client did not send, it does not send again: its own throttle and breaker have spoken.
            Cause::Refused(refusal) if refusal.is_the_clients() => false,
            _ => match failure.code {
                408 => self.timeouts,
                429 => self.too_many,
                500..=599 => self.server_errors,
                _ => false,
            },
        }
    }
}

/// A second attempt beside the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hedge {
    /// Sent when the attempts under way have not been answered for so long.
    pub after: Nanos,
    /// Most of a request.
    pub most: u32,
}

/// What clients of a class do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPolicy {
    /// Most attempts of a request, the first included, hedges not.
    pub attempts: u32,
    /// How long it waits between them.
    pub backoff: Backoff,
    /// Which failures are worth another attempt.
    pub retry_on: RetryOn,
    /// What it makes of the server's word on when to come back.
    pub retry_after: RetryAfter,
    /// How long it waits for an attempt. `None`: for ever.
    pub timeout: Option<Nanos>,
    /// That is until the first token. Off: until the last.
    pub until_first_token: bool,
    /// How long it waits for a request, all its attempts together. `None`: for ever.
    pub deadline: Option<Nanos>,
    /// Who else tries again, in order from the client to the server.
    pub layers: Vec<Layer>,
    /// How many retries a process may send in all.
    pub budget: Budget,
    /// When a process stops calling.
    pub breaker: Option<Breaker>,
    /// What a process drops because the backend would refuse it.
    pub throttle: Option<Throttle>,
    /// Second attempts beside first ones.
    pub hedge: Option<Hedge>,
}

impl Default for ClientPolicy {
    /// One attempt, without a time-out.
    fn default() -> Self {
        ClientPolicy {
            attempts: 1,
            backoff: Backoff::default(),
            retry_on: RetryOn::ALL,
            retry_after: RetryAfter::default(),
            timeout: None,
            until_first_token: false,
            deadline: None,
            layers: Vec::new(),
            budget: Budget::Unlimited,
            breaker: None,
            throttle: None,
            hedge: None,
        }
    }
}

impl ClientPolicy {
    /// Most attempts of a request, layers multiplied and hedges left out.
    pub fn most_attempts(&self) -> u32 {
        layers::most(self.attempts, &self.layers)
    }

    /// Who tries again after `made` attempts have failed, and for the how-manieth time; `None` when nobody does.
    pub(crate) fn next(&self, made: u32) -> Option<(&Backoff, u32)> {
        layers::next(self.attempts, &self.backoff, &self.layers, made)
    }

    pub(crate) fn validate(&self, field: &str) -> Result<(), SpecError> {
        let all = self.most_attempts();
        if self.attempts == 0 || all > MAX_ATTEMPTS {
            let accepted = format!("use 1 to {MAX_ATTEMPTS}, the attempts of all layers multiplied");
            return Err(SpecError::new(format!("{field}.attempts"), all.min(self.attempts), accepted));
        }
        if self.layers.len() > MAX_LAYERS {
            let accepted = format!("use at most {MAX_LAYERS}");
            return Err(SpecError::new(format!("{field}.layers"), self.layers.len(), accepted));
        }
        for layer in &self.layers {
            if layer.attempts == 0 {
                return Err(SpecError::new(format!("{field}.layers.attempts"), 0, "use at least 1"));
            }
            layer.backoff.validate(&format!("{field}.layers.backoff"))?;
        }
        for (name, time) in [("timeout_s", self.timeout), ("deadline_s", self.deadline)] {
            if time == Some(Nanos::ZERO) {
                return Err(SpecError::new(format!("{field}.{name}"), 0, "use a time above 0, or none"));
            }
        }
        if let Some(Hedge { after, most }) = self.hedge {
            if after == Nanos::ZERO {
                return Err(SpecError::new(format!("{field}.hedge.after_s"), 0, "use a time above 0"));
            }
            if most == 0 || most > 100 {
                return Err(SpecError::new(format!("{field}.hedge.most"), most, "use 1 to 100"));
            }
        }
        self.backoff.validate(&format!("{field}.backoff"))?;
        self.retry_after.validate(&format!("{field}.retry_after"))?;
        self.budget.validate(&format!("{field}.budget"))?;
        self.breaker.map_or(Ok(()), |breaker| breaker.validate(&format!("{field}.breaker")))?;
        self.throttle.map_or(Ok(()), |throttle| throttle.validate(&format!("{field}.throttle")))
    }
}

/// When clients send their next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// When the workload says, whatever became of earlier ones.
    #[default]
    Open,
    /// Each of so many users sends the workload's next request when the last one has ended and a time of thinking has passed. The workload's
    /// own instants count for nothing.
    Closed {
        /// Users.
        users: u32,
        /// Mean time of thinking; drawn from an exponential distribution.
        think: Nanos,
    },
    /// A session's next turn comes when the workload says, but not before the turn before has ended and a time of thinking has passed.
    Sessions {
        /// Mean time of thinking; drawn from an exponential distribution.
        think: Nanos,
    },
}

/// Clients of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientClass {
    /// Its share of all requests, in proportion to the other classes' shares; above 0.
    pub share: f64,
    /// Processes its requests come from, at random. Each has a budget, a breaker and a throttle of its own.
    pub processes: u32,
    /// What they do.
    pub policy: ClientPolicy,
}

impl Default for ClientClass {
    fn default() -> Self {
        ClientClass { share: 1.0, processes: 1, policy: ClientPolicy::default() }
    }
}

/// All clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    /// Kinds of clients, at least one.
    pub classes: Vec<ClientClass>,
    /// When they send.
    pub pace: Pace,
    /// The server learns when nobody waits any more, and stops. Off: it goes on to the end, for nobody.
    pub cancels: bool,
}

impl Default for Crowd {
    fn default() -> Self {
        Crowd { classes: vec![ClientClass::default()], pace: Pace::Open, cancels: false }
    }
}

impl Crowd {
    /// One class of clients, open loop.
    pub fn of(policy: ClientPolicy) -> Self {
        Crowd { classes: vec![ClientClass { policy, ..ClientClass::default() }], ..Crowd::default() }
    }

    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        if self.classes.is_empty() || self.classes.len() > 16 {
            return Err(SpecError::new("clients.classes", self.classes.len(), "use 1 to 16 classes"));
        }
        for class in &self.classes {
            if !(class.share > 0.0 && class.share <= 1e6) {
                return Err(SpecError::new("clients.share", class.share, "use a share above 0, at most 1000000"));
            }
            if class.processes == 0 || class.processes > MAX_PROCESSES {
                let accepted = format!("use 1 to {MAX_PROCESSES}");
                return Err(SpecError::new("clients.processes", class.processes, accepted));
            }
            class.policy.validate("clients")?;
        }
        if let Pace::Closed { users: 0, .. } = self.pace {
            return Err(SpecError::new("clients.users", 0, "use at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::{Loss, Refusal};

    #[test]
    fn which_failures_are_worth_another_attempt() {
        let refused = |code| Failure::refused(code, Refusal::GatewayQueue);
        let lost = Failure { code: 502, retry_after: None, cause: Cause::Lost(Loss::Crash) };
        let late = Failure { code: 408, retry_after: None, cause: Cause::TimedOut };
        let own = Failure::refused(503, Refusal::ClientThrottle);
        for (retry_on, expected) in [
            (RetryOn::ALL, [false, true, true, true, true, false]),
            (RetryOn::ANSWERS, [false, true, true, true, false, false]),
            (RetryOn::ERRORS, [false, false, true, true, false, false]),
        ] {
            let held =
                [refused(400), refused(429), refused(503), lost, late, own].map(|failure| retry_on.holds(&failure));
            assert_eq!(held, expected, "{retry_on:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_at_its_field() {
        let field = |policy: ClientPolicy| Crowd::of(policy).validate().unwrap_err().field;
        let layer = Layer { on: true, attempts: 100, backoff: Backoff::default() };
        let sound = ClientPolicy { attempts: 3, ..ClientPolicy::default() };
        assert_eq!(Crowd::of(sound.clone()).validate(), Ok(()));
        assert_eq!(field(ClientPolicy { attempts: 0, ..sound.clone() }), "clients.attempts");
        assert_eq!(field(ClientPolicy { layers: vec![layer; 3], ..sound.clone() }), "clients.attempts");
        assert_eq!(field(ClientPolicy { timeout: Some(Nanos(0)), ..sound.clone() }), "clients.timeout_s");
        assert_eq!(field(ClientPolicy { deadline: Some(Nanos(0)), ..sound.clone() }), "clients.deadline_s");
        let hedge = Some(Hedge { after: Nanos(0), most: 1 });
        assert_eq!(field(ClientPolicy { hedge, ..sound.clone() }), "clients.hedge.after_s");
        let idle = Layer { attempts: 0, ..layer };
        assert_eq!(field(ClientPolicy { layers: vec![idle], ..sound }), "clients.layers.attempts");
        let crowd = Crowd { pace: Pace::Closed { users: 0, think: Nanos(1) }, ..Crowd::default() };
        assert_eq!(crowd.validate().unwrap_err().field, "clients.users");
        let nobody = Crowd { classes: vec![ClientClass { share: 0.0, ..ClientClass::default() }], ..Crowd::default() };
        assert_eq!(nobody.validate().unwrap_err().field, "clients.share");
    }
}
