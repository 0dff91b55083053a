//! How many retries a client process may send in all.
//!
//! | budget | rule | source |
//! |---|---|---|
//! | deposits | a request deposits `ratio`, a retry takes 1; deposits expire after `ttl`; a reserve of `min_per_s · ttl` stands by | Finagle `RetryBudget`, tower `TpsBudget` (10 s, 10/s, 20 %) |
//! | concurrent | retries under way < max(`min`, `share` of all under way) | Envoy's retry budget (3, 20 %) |
//! | throttle | a failure takes 1, a success gives `ratio`, both within 0 to `max`; a retry needs more than `max`/2 | gRPC A6 (example: 10, 0.1) |
//! | bucket | a deposit of `deposit` for each success or each request, at most `size` held; a retry takes 1 | Brooker, *Fixing retries with token buckets and circuit breakers* (5, 0.1) |
//!
//! Tokens are counted in thousandths, so that ten deposits of 0.1 are exactly 1.

use super::window::Window;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// A token.
const TOKEN: i64 = 1000;

/// A rule for retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Budget {
    /// As many as the limit of attempts allows.
    #[default]
    Unlimited,
    /// Deposits that expire (Finagle, tower).
    Deposits {
        /// How long a deposit can be spent.
        ttl: Nanos,
        /// Retries a second that are there whatever was deposited.
        min_per_s: f64,
        /// Retries that a request pays for.
        ratio: f64,
    },
    /// A share of what is under way (Envoy).
    Concurrent {
        /// So many may always be under way.
        min: u32,
        /// Share of the attempts under way that may be retries.
        share: f64,
    },
    /// Failures against successes (gRPC).
    Throttle {
        /// Most tokens, held at the start.
        max: f64,
        /// What a success gives.
        ratio: f64,
    },
    /// A bucket of retries, full at the start (Brooker).
    Bucket {
        /// Most tokens.
        size: f64,
        /// What a deposit gives.
        deposit: f64,
        /// Every request deposits. Off: every success does.
        on_request: bool,
    },
}

/// Attempts of a client process that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// All of them.
    pub active: u32,
    /// Of those, retries, the ones that wait for their turn included.
    pub retrying: u32,
}

/// What a budget has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BudgetState {
    Stateless,
    Deposits(Window),
    Tokens(i64),
}

fn thousandths(tokens: f64) -> i64 {
    libm::round(tokens * TOKEN as f64) as i64
}

impl Budget {
    pub(crate) fn start(&self) -> BudgetState {
        match *self {
            Budget::Unlimited | Budget::Concurrent { .. } => BudgetState::Stateless,
            Budget::Deposits { .. } => BudgetState::Deposits(Window::new()),
            Budget::Throttle { max, .. } => BudgetState::Tokens(thousandths(max)),
            Budget::Bucket { size, .. } => BudgetState::Tokens(thousandths(size)),
        }
    }

    /// A request is tried for the first time.
    pub(crate) fn requested(&self, state: &mut BudgetState, now: Nanos) {
        match (*self, state) {
            (Budget::Deposits { ttl, ratio, .. }, BudgetState::Deposits(window)) => {
                window.add(now, ttl, thousandths(ratio), 0);
            }
            (Budget::Bucket { size, deposit, on_request: true }, BudgetState::Tokens(tokens)) => {
                *tokens = (*tokens + thousandths(deposit)).min(thousandths(size));
            }
            _ => {}
        }
    }

    /// An attempt succeeded or failed.
    pub(crate) fn answered(&self, state: &mut BudgetState, succeeded: bool) {
        match (*self, state) {
            (Budget::Throttle { max, ratio }, BudgetState::Tokens(tokens)) => {
                let change = if succeeded { thousandths(ratio) } else { -TOKEN };
                *tokens = (*tokens + change).clamp(0, thousandths(max));
            }
            (Budget::Bucket { size, deposit, on_request: false }, BudgetState::Tokens(tokens)) if succeeded => {
                *tokens = (*tokens + thousandths(deposit)).min(thousandths(size));
            }
            _ => {}
        }
    }

    /// Whether one more retry may be sent; it is paid for then.
    pub(crate) fn take(&self, state: &mut BudgetState, now: Nanos, load: Load) -> bool {
        match (*self, state) {
            (Budget::Concurrent { min, share }, _) => {
                let most = libm::floor(share * f64::from(load.active)) as u32;
                load.retrying < most.max(min)
            }
            (Budget::Deposits { ttl, min_per_s, .. }, BudgetState::Deposits(window)) => {
                let reserve = thousandths(min_per_s * ttl.as_secs());
                let affordable = window.at(now, ttl).0 + reserve >= TOKEN;
                if affordable {
                    window.add(now, ttl, -TOKEN, 0);
                }
                affordable
            }
            (Budget::Throttle { max, .. }, BudgetState::Tokens(tokens)) => 2 * *tokens > thousandths(max),
            (Budget::Bucket { .. }, BudgetState::Tokens(tokens)) => {
                let affordable = *tokens >= TOKEN;
                *tokens -= if affordable { TOKEN } else { 0 };
                affordable
            }
            _ => true,
        }
    }

    pub(crate) fn validate(&self, field: &str) -> Result<(), SpecError> {
        let within = |name: &str, value: f64, least: f64, most: f64| match value >= least && value <= most {
            true => Ok(()),
            false => Err(SpecError::new(format!("{field}.{name}"), value, format!("use {least} to {most}"))),
        };
        match *self {
            Budget::Unlimited => Ok(()),
            Budget::Deposits { ttl, min_per_s, ratio } => {
                within("ttl_s", ttl.as_secs(), 0.1, 3600.0)?;
                within("min_per_s", min_per_s, 0.0, 1e6)?;
                within("ratio", ratio, 0.0, 1000.0)
            }
            Budget::Concurrent { share, .. } => within("share", share, 0.0, 1.0),
            Budget::Throttle { max, ratio } => {
                within("max", max, 1.0, 1e6)?;
                within("ratio", ratio, 0.001, 1e6)
            }
            Budget::Bucket { size, deposit, .. } => {
                within("size", size, 0.0, 1e6)?;
                within("deposit", deposit, 0.0, 1e6)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const S: u64 = 1_000_000_000;
    const NOBODY: Load = Load { active: 0, retrying: 0 };

    /// Retries that are granted at `now` before one is denied, at most 10 000.
    fn granted(budget: Budget, state: &mut BudgetState, now: Nanos) -> usize {
        (0..10_000).take_while(|_| budget.take(state, now, NOBODY)).count()
    }

    /// tower's defaults: 10 a second for 10 s are a reserve of 100, and five requests pay for one retry.
    #[test]
    fn deposits_pay_for_a_fifth_beyond_the_reserve_and_expire() {
        let budget = Budget::Deposits { ttl: Nanos(10 * S), min_per_s: 10.0, ratio: 0.2 };
        let mut state = budget.start();
        assert_eq!(granted(budget, &mut state, Nanos(0)), 100, "the reserve");
        for _ in 0..24 {
            budget.requested(&mut state, Nanos(S));
        }
        assert_eq!(granted(budget, &mut state, Nanos(S)), 4, "24 · 0.2 = 4.8");
        budget.requested(&mut state, Nanos(2 * S));
        assert_eq!(granted(budget, &mut state, Nanos(2 * S)), 1, "0.8 were left");
        // The 100 withdrawals of second 0 are forgotten 10 s later, those of second 1 (4 against 4.8 deposited) one second after.
        assert_eq!(granted(budget, &mut state, Nanos(9 * S)), 0);
        assert_eq!(granted(budget, &mut state, Nanos(10 * S)), 100);
        let mut fresh = budget.start();
        (0..50).for_each(|_| budget.requested(&mut fresh, Nanos(0)));
        assert_eq!(granted(budget, &mut fresh, Nanos(30 * S)), 100, "old deposits are worth nothing");
    }

    /// Envoy: max(3, 20 % of what is under way).
    #[test]
    fn a_share_of_what_is_under_way_may_be_retries() {
        let budget = Budget::Concurrent { min: 3, share: 0.2 };
        let mut state = budget.start();
        let may = |state: &mut BudgetState, active, retrying| budget.take(state, Nanos(0), Load { active, retrying });
        for (active, most) in [(0, 3), (14, 3), (19, 3), (20, 4), (99, 19), (100, 20)] {
            assert!(may(&mut state, active, most - 1), "{active}");
            assert!(!may(&mut state, active, most), "{active}");
        }
    }

    /// gRPC A6 with its example's 10 tokens and 0.1: the fifth failure in a row ends retries, and it takes a success more than ten for each
    /// token to allow them again.
    #[test]
    fn failures_throttle_and_successes_lift_it() {
        let budget = Budget::Throttle { max: 10.0, ratio: 0.1 };
        let mut state = budget.start();
        for failure in 1..=8 {
            budget.answered(&mut state, false);
            assert_eq!(budget.take(&mut state, Nanos(0), NOBODY), failure < 5, "after {failure}");
        }
        // 2 tokens are left: 31 successes make 5.1.
        for success in 1..=31 {
            budget.answered(&mut state, true);
            assert_eq!(budget.take(&mut state, Nanos(0), NOBODY), success > 30, "after {success}");
        }
        (0..30).for_each(|_| budget.answered(&mut state, false));
        assert_eq!(state, BudgetState::Tokens(0));
        (0..1000).for_each(|_| budget.answered(&mut state, true));
        assert_eq!(state, BudgetState::Tokens(10_000));
    }

    #[test]
    fn a_bucket_starts_full_and_fills_by_tenths() {
        for on_request in [false, true] {
            let budget = Budget::Bucket { size: 5.0, deposit: 0.1, on_request };
            let mut state = budget.start();
            let fill = |state: &mut BudgetState| match on_request {
                true => budget.requested(state, Nanos(0)),
                false => budget.answered(state, true),
            };
            fill(&mut state);
            assert_eq!(granted(budget, &mut state, Nanos(0)), 5);
            (0..9).for_each(|_| fill(&mut state));
            assert_eq!(granted(budget, &mut state, Nanos(0)), 0, "nine tenths");
            fill(&mut state);
            assert_eq!(granted(budget, &mut state, Nanos(0)), 1, "ten tenths are exactly one");
            budget.answered(&mut state, false);
            assert_eq!(granted(budget, &mut state, Nanos(0)), 0);
        }
    }

    #[test]
    fn nonsense_is_refused_at_its_field() {
        let field = |budget: Budget| budget.validate("clients.budget").unwrap_err().field;
        assert_eq!(field(Budget::Throttle { max: 0.0, ratio: 0.1 }), "clients.budget.max");
        assert_eq!(field(Budget::Concurrent { min: 3, share: 1.1 }), "clients.budget.share");
        assert_eq!(field(Budget::Deposits { ttl: Nanos(0), min_per_s: 1.0, ratio: 0.2 }), "clients.budget.ttl_s");
        assert_eq!(field(Budget::Bucket { size: f64::NAN, deposit: 0.1, on_request: true }), "clients.budget.size");
        assert_eq!(Budget::Unlimited.validate("x"), Ok(()));
    }
}
