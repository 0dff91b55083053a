//! A tenant's requests per second: a token bucket each. 429, with the time until the bucket has one more.
//!
//! A request that a later stage turns away has still been made, so it stays counted, as in Envoy's local rate limit.

use super::ask::{Ask, Refused, View};
use super::bucket::{Bucket, Rate};
use super::stage::Stage;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;

/// Requests of each tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Requests per second and at once.
    pub rate: Rate,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimit {
    pub(crate) config: RateLimitConfig,
    /// Of each tenant.
    buckets: Vec<Bucket>,
}

impl RateLimit {
    pub(crate) fn new(config: RateLimitConfig, tenants: u32) -> Self {
        RateLimit { config, buckets: vec![Bucket::default(); tenants as usize] }
    }

    /// Tenants with a bucket.
    pub(crate) fn tenants(&self) -> usize {
        self.buckets.len()
    }
}

impl Stage for RateLimit {
    fn admit(&mut self, ask: &Ask, view: &View<'_>, _draw: &mut Stream) -> Result<(), Refused> {
        let Some(bucket) = self.buckets.get_mut(ask.tenant as usize) else { return Ok(()) };
        let taken = bucket.take(view.now, 1, &self.config.rate);
        taken.map_err(|wait| Refused { code: 429, cause: Refusal::RateLimit, wait })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ask, quiet};
    use super::*;
    use servelab_engine::Nanos;

    /// Two at once, one a second: what one tenant uses up is not missing to another.
    #[test]
    fn each_tenant_has_a_bucket() {
        let mut stage = RateLimit::new(RateLimitConfig { rate: Rate::new(1.0, 2) }, 2);
        let mut ask_at = |tenant, at_s: u64| {
            let asked = stage.admit(&ask(tenant), &quiet(at_s * 1_000_000_000), &mut Stream::new(0, b"test"));
            asked.map_err(|refused| refused.wait)
        };
        let second = Some(Nanos(1_000_000_000));
        assert_eq!([ask_at(0, 0), ask_at(0, 0), ask_at(0, 0)], [Ok(()), Ok(()), Err(second)]);
        assert_eq!([ask_at(1, 0), ask_at(0, 1), ask_at(0, 1)], [Ok(()), Ok(()), Err(second)]);
    }
}
