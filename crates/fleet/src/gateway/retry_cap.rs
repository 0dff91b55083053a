//! A cap on retries: the gateway sees which try an attempt is (as `x-stainless-retry-count` or `x-envoy-attempt-count` tell it) and does not have to let a
//! storm through.
//!
//! Two caps. The attempt's number: whoever tries for the n-th time has been told n − 1 times. And a budget over all clients, the rule of Finagle's and tower's retry
//! budgets turned round: every first try puts a share of a retry into one bucket, every retry takes one out. In calm weather nobody notices;
//! in a storm retries are at most that share of new work, however many clients insist. 429: it is the caller who asks too often.

use super::ask::{Ask, Refused, View};
use super::stage::Stage;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;

/// How many retries are let through. Each is off at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryCapConfig {
    /// Highest number of an attempt, the first try being 1.
    pub max_attempt: u32,
    /// Retries for each thousand first tries.
    pub per_thousand: u32,
    /// Retries saved up at most, and at the start.
    pub reserve: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryCap {
    pub(crate) config: RetryCapConfig,
    /// Thousandths of a retry.
    saved: u64,
}

impl RetryCap {
    pub(crate) fn new(config: RetryCapConfig) -> Self {
        RetryCap { config, saved: u64::from(config.reserve) * 1000 }
    }
}

impl Stage for RetryCap {
    fn admit(&mut self, ask: &Ask, _view: &View<'_>, _draw: &mut Stream) -> Result<(), Refused> {
        let RetryCapConfig { max_attempt, per_thousand, reserve } = self.config;
        let refused = Err(Refused::new(429, Refusal::RetryCap));
        if max_attempt > 0 && ask.attempt > max_attempt {
            return refused;
        }
        if per_thousand == 0 {
            return Ok(());
        }
        if ask.attempt <= 1 {
            self.saved = (self.saved + u64::from(per_thousand)).min(u64::from(reserve) * 1000);
        } else if self.saved < 1000 {
            return refused;
        } else {
            self.saved -= 1000;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ask, quiet};
    use super::*;

    fn passes(stage: &mut RetryCap, attempt: u32) -> bool {
        stage.admit(&Ask { attempt, ..ask(0) }, &quiet(0), &mut Stream::new(0, b"test")).is_ok()
    }

    #[test]
    fn by_number() {
        let mut stage = RetryCap::new(RetryCapConfig { max_attempt: 2, per_thousand: 0, reserve: 0 });
        assert_eq!([1, 2, 3, 9].map(|attempt| passes(&mut stage, attempt)), [true, true, false, false]);
    }

    /// A fifth, two saved up: two retries pass, the third not; five first tries later one does, and no more than two are ever saved.
    #[test]
    fn by_share() {
        let mut stage = RetryCap::new(RetryCapConfig { max_attempt: 0, per_thousand: 200, reserve: 2 });
        assert_eq!([2, 3, 2].map(|attempt| passes(&mut stage, attempt)), [true, true, false]);
        for _ in 0..4 {
            assert!(passes(&mut stage, 1));
        }
        assert!(!passes(&mut stage, 7));
        assert!(passes(&mut stage, 1) && passes(&mut stage, 7) && !passes(&mut stage, 7));
        for _ in 0..100 {
            passes(&mut stage, 1);
        }
        assert_eq!([2, 2, 2].map(|attempt| passes(&mut stage, attempt)), [true, true, false]);
    }
}
