//! A tenant's tokens per second, input and output together: a token bucket each. 429.
//!
//! How long an answer will be is not known before it is there. So prompt and output budget are reserved when the request comes and what was not used
//! of the budget is put back when it ends; one that never reached a replica is put back whole. A client that states a budget far beyond what it
//! needs therefore pays for it while its answers are under way, as with the hosted APIs that count this way.

use super::ask::{Ask, Ended, Refused, View};
use super::bucket::{Bucket, Rate};
use super::stage::Stage;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;

/// Tokens of each tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBudgetConfig {
    /// Tokens per second and at once. A request larger than that is never let through.
    pub rate: Rate,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBudget {
    pub(crate) config: TokenBudgetConfig,
    /// Of each tenant.
    buckets: Vec<Bucket>,
}

impl TokenBudget {
    pub(crate) fn new(config: TokenBudgetConfig, tenants: u32) -> Self {
        TokenBudget { config, buckets: vec![Bucket::default(); tenants as usize] }
    }

    /// Tenants with a bucket.
    pub(crate) fn tenants(&self) -> usize {
        self.buckets.len()
    }

    fn give_back(&mut self, tenant: u32, tokens: u64) {
        if let Some(bucket) = self.buckets.get_mut(tenant as usize) {
            bucket.give_back(tokens, &self.config.rate);
        }
    }
}

impl Stage for TokenBudget {
    fn admit(&mut self, ask: &Ask, view: &View<'_>, _draw: &mut Stream) -> Result<(), Refused> {
        let Some(bucket) = self.buckets.get_mut(ask.tenant as usize) else { return Ok(()) };
        let taken = bucket.take(view.now, ask.tokens(), &self.config.rate);
        taken.map_err(|wait| Refused { code: 429, cause: Refusal::TokenBudget, wait })
    }

    fn forget(&mut self, ask: &Ask) {
        self.give_back(ask.tenant, ask.tokens());
    }

    fn ended(&mut self, ended: &Ended) {
        self.give_back(ended.tenant, u64::from(ended.max_tokens.saturating_sub(ended.produced)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answered, ask, quiet};
    use super::*;
    use servelab_engine::Nanos;

    /// 100 tokens a second, 1 000 at once. By hand: 600 reserved, 60 of them produced of 500, so 440 come back.
    #[test]
    fn what_was_not_used_comes_back() {
        let mut stage = TokenBudget::new(TokenBudgetConfig { rate: Rate::new(100.0, 1000) }, 1);
        let mut draw = Stream::new(0, b"test");
        let big = Ask { prompt: 100, max_tokens: 500, ..ask(0) };
        assert_eq!(stage.admit(&big, &quiet(0), &mut draw), Ok(()));
        // 400 are left, 200 are missing.
        let refused = stage.admit(&big, &quiet(0), &mut draw).map_err(|refused| refused.wait);
        assert_eq!(refused, Err(Some(Nanos(2_000_000_000))));
        stage.ended(&Ended { max_tokens: 500, produced: 60, ..answered(0, 0) });
        // 840: one more, 240 left; another would be 360 short.
        assert_eq!(stage.admit(&big, &quiet(0), &mut draw), Ok(()));
        let refused = stage.admit(&big, &quiet(0), &mut draw).map_err(|refused| refused.wait);
        assert_eq!(refused, Err(Some(Nanos(3_600_000_000))));
        stage.forget(&big);
        assert_eq!(stage.admit(&big, &quiet(0), &mut draw), Ok(()));
        let huge = Ask { prompt: 1000, ..big };
        assert_eq!(stage.admit(&huge, &quiet(u64::MAX / 2), &mut draw).map_err(|refused| refused.wait), Err(None));
    }
}
