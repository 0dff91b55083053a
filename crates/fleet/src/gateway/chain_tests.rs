//! Chains worked by hand. What single parts do is tested beside them.

use super::super::bucket::Rate;
use super::super::rate_limit::RateLimitConfig;
use super::super::retry_after::{RetryAfter, RetryAfterMode};
use super::super::saturation::{Detector, HoldBackConfig};
use super::super::testing::{answered, ask, quiet};
use super::super::token_budget::TokenBudgetConfig;
use super::super::{ClassConfig, GateConfig, StageConfig};
use super::*;

const SECOND: u64 = 1_000_000_000;

fn draws() -> Stream {
    Stream::new(1, b"test")
}

fn at(place: u32, tenant: u32) -> Ask {
    Ask { place, ..ask(tenant) }
}

fn class(name: &str, priority: i32, tenants: &[u32]) -> ClassConfig {
    ClassConfig { name: name.into(), priority, weight: 1, tenants: tenants.to_vec() }
}

fn verdict(chain: &mut Chain, asks: Ask, now: u64) -> Result<bool, (u16, Refusal)> {
    match chain.decide(&asks, &quiet(now), &draws()) {
        Verdict::Accept => {
            chain.sent();
            Ok(true)
        }
        Verdict::Queue => Ok(false),
        Verdict::Reject { code, cause, .. } => Err((code, cause)),
    }
}

/// 100 tokens at once, 20 a request, and one request at once. Had each refused request kept its tokens, the sixth would fail at the budget.
#[test]
fn what_was_reserved_is_given_back_when_a_later_stage_refuses() {
    let tiny = Rate { micro_per_s: 1, burst: 100 };
    let stages = vec![
        StageConfig::TokenBudget(TokenBudgetConfig { rate: tiny }),
        StageConfig::RateLimit(RateLimitConfig { rate: Rate { burst: 1, ..tiny } }),
    ];
    let mut chain = Chain::new(ChainConfig { stages, ..ChainConfig::default() }, 1);
    assert_eq!(verdict(&mut chain, ask(0), 0), Ok(true));
    for _ in 0..8 {
        assert_eq!(verdict(&mut chain, ask(0), 0), Err((429, Refusal::RateLimit)));
    }
}

#[test]
fn without_a_queue_a_closed_gate_turns_away_and_says_which() {
    let gates = vec![GateConfig::Concurrency { limit: 1 }];
    let mut chain = Chain::new(ChainConfig { gates, refuse_with: 503, ..ChainConfig::default() }, 1);
    assert_eq!(verdict(&mut chain, at(0, 0), 0), Ok(true));
    assert_eq!(verdict(&mut chain, at(1, 0), 0), Err((503, Refusal::Concurrency)));
    chain.ended(&answered(0, 5));
    assert_eq!(verdict(&mut chain, at(1, 0), 5), Ok(true));
    // No replica is ready: nobody waits for one here, whatever a closed gate answers.
    let empty = View { ready: &[], ..quiet(6) };
    let refused = chain.decide(&at(2, 0), &empty, &draws());
    assert_eq!(refused, Verdict::Reject { code: 503, cause: Refusal::EmptyPool, retry_after: None });
}

/// One at a time, two held: the third is turned away, the held ones leave in order as room comes.
#[test]
fn a_full_queue_turns_away() {
    let mut chain = Chain::new(ChainConfig::central_queue(u32::MAX, 2), 1);
    chain.gates.push(Gate::Concurrency { limit: 1 });
    assert_eq!(verdict(&mut chain, at(0, 0), 0), Ok(true));
    assert_eq!([1, 2].map(|place| verdict(&mut chain, at(place, 0), 0)), [Ok(false); 2]);
    assert_eq!(verdict(&mut chain, at(3, 0), 0), Err((429, Refusal::GatewayQueue)));
    assert_eq!(chain.release(&quiet(1)), Release::Nothing);
    chain.ended(&answered(0, 2));
    assert!(chain.could_release(&quiet(2)));
    assert_eq!(chain.release(&quiet(2)), Release::Let(1));
    chain.sent();
    assert_eq!(chain.release(&quiet(2)), Release::Nothing);
    assert!(chain.withdraw(&at(2, 0)) && !chain.withdraw(&at(2, 0)));
    assert_eq!(chain.held_count(), 0);
}

/// Room for ten; batch passes below saturation 0.5. With five in flight batch waits while interactive passes, and comes when four are left.
#[test]
fn batch_is_held_back_beside_interactive() {
    let detector = Detector::InFlight { per_replica: 10.0 };
    let gates = vec![GateConfig::HoldBack(HoldBackConfig { detector, share: 0.5 })];
    let classes = vec![class("interactive", 1, &[]), class("batch", -1, &[1])];
    let queue = QueueConfig { capacity: 8, ..QueueConfig::default() };
    let mut chain = Chain::new(ChainConfig { classes, gates, queue, ..ChainConfig::default() }, 2);
    let busy = |requests: &'static [u32; 1]| View { in_flight: requests, ..quiet(0) };
    assert_eq!(chain.decide(&at(0, 1), &busy(&[5]), &draws()), Verdict::Queue);
    assert_eq!(chain.decide(&at(1, 0), &busy(&[5]), &draws()), Verdict::Accept);
    assert_eq!(chain.decide(&at(2, 0), &busy(&[10]), &draws()), Verdict::Queue);
    assert_eq!(chain.release(&busy(&[10])), Release::Nothing);
    assert_eq!([chain.release(&busy(&[9])), chain.release(&busy(&[9]))], [Release::Let(2), Release::Nothing]);
    assert_eq!([chain.release(&busy(&[4])), chain.release(&busy(&[4]))], [Release::Let(0), Release::Nothing]);
}

/// Ten seconds to live, three without a ready replica, counted from when there was none.
#[test]
fn times_to_live_by_hand() {
    let queue = QueueConfig {
        capacity: 8,
        hold_empty: true,
        ttl: Nanos(10 * SECOND),
        empty_ttl: Nanos(3 * SECOND),
        ..QueueConfig::default()
    };
    let gates = vec![GateConfig::Concurrency { limit: 1 }];
    let mut chain = Chain::new(ChainConfig { gates, queue, ..ChainConfig::default() }, 1);
    assert_eq!(verdict(&mut chain, at(9, 0), 0), Ok(true));
    for (place, since) in [(0, 0), (1, 5), (2, 6)] {
        assert_eq!(verdict(&mut chain, at(place, 0), since * SECOND), Ok(false));
    }
    assert_eq!([chain.arm(), chain.arm()], [Some(Nanos(10 * SECOND)), None]);
    chain.rang(Nanos(10 * SECOND));
    let gone = |place, code, cause| Some((place, Refused::new(code, cause)));
    assert_eq!(chain.expired(Nanos(10 * SECOND)), gone(0, 429, Refusal::GatewayExpired));
    assert_eq!(chain.expired(Nanos(10 * SECOND)), None);
    assert_eq!(chain.arm(), Some(Nanos(15 * SECOND)));
    chain.pool_changed(Nanos(11 * SECOND), true);
    assert_eq!(chain.arm(), Some(Nanos(14 * SECOND)));
    chain.rang(Nanos(14 * SECOND));
    assert_eq!(chain.expired(Nanos(14 * SECOND)), gone(1, 503, Refusal::EmptyPool));
    // Back in time for the last one, whose own ten seconds count again.
    chain.pool_changed(Nanos(14 * SECOND), false);
    assert_eq!((chain.expired(Nanos(14 * SECOND)), chain.arm()), (None, Some(Nanos(16 * SECOND))));
}

/// A bucket says exactly when; a full queue says what its head's waits came to: 2 s at the head, and behind two more that makes 6.
#[test]
fn when_to_come_back_is_computed() {
    let retry_after = RetryAfter { mode: RetryAfterMode::Computed, ..RetryAfter::default() };
    let said = |chain: &mut Chain, asks: Ask, now: u64| match chain.decide(&asks, &quiet(now), &draws()) {
        Verdict::Reject { retry_after, .. } => retry_after,
        _ => None,
    };
    let stages = vec![StageConfig::RateLimit(RateLimitConfig { rate: Rate::new(0.5, 1) })];
    let mut limited = Chain::new(ChainConfig { stages, retry_after, ..ChainConfig::default() }, 1);
    assert_eq!(said(&mut limited, ask(0), 0), None);
    assert_eq!(said(&mut limited, ask(0), SECOND / 2), Some(Nanos(3 * SECOND / 2)));
    let queue = QueueConfig { capacity: 2, ..QueueConfig::default() };
    let gates = vec![GateConfig::Concurrency { limit: 1 }];
    let mut full = Chain::new(ChainConfig { gates, queue, retry_after, ..ChainConfig::default() }, 1);
    assert_eq!([0, 1, 2].map(|place| verdict(&mut full, at(place, 0), 0)), [Ok(true), Ok(false), Ok(false)]);
    full.ended(&answered(0, 2 * SECOND));
    assert_eq!(full.release(&quiet(2 * SECOND)), Release::Let(1));
    full.sent();
    assert_eq!(verdict(&mut full, at(3, 0), 2 * SECOND), Ok(false));
    assert_eq!(said(&mut full, at(4, 0), 2 * SECOND), Some(Nanos(6 * SECOND)));
}
