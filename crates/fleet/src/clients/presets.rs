//! What well-known clients do unless told otherwise. A plain static list: one more is one entry here.

use super::backoff::{Backoff, Growth, Jitter};
use super::budget::Budget;
use super::policy::{ClientPolicy, RetryOn};
use super::retry_after::{Obey, RetryAfter};
use servelab_engine::Nanos;

/// A client policy by name.
pub struct Preset {
    /// Its stable snake_case name.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// What it does, in a sentence.
    pub description: &'static str,
    /// Where its numbers are from.
    pub source: &'static str,
    /// It.
    pub policy: fn() -> ClientPolicy,
}

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn sdk() -> ClientPolicy {
    ClientPolicy {
        attempts: 3,
        backoff: Backoff::exponential(Nanos(500 * MS), Nanos(8 * S), Jitter::Below(0.25)),
        retry_on: RetryOn::ALL,
        retry_after: RetryAfter::exactly(Nanos(60 * S)),
        timeout: Some(Nanos(600 * S)),
        ..ClientPolicy::default()
    }
}

fn grpc() -> ClientPolicy {
    ClientPolicy {
        attempts: 4,
        backoff: Backoff::exponential(Nanos(100 * MS), Nanos(S), Jitter::Around(0.2)),
        retry_on: RetryOn::ERRORS,
        retry_after: RetryAfter {
            obey: Obey::Exactly,
            longest: Nanos::MAX,
            restarts_backoff: true,
            ..RetryAfter::default()
        },
        budget: Budget::Throttle { max: 10.0, ratio: 0.1 },
        ..ClientPolicy::default()
    }
}

fn envoy() -> ClientPolicy {
    ClientPolicy {
        attempts: 2,
        backoff: Backoff::exponential(Nanos(25 * MS), Nanos(250 * MS), Jitter::Full),
        retry_on: RetryOn::ERRORS,
        budget: Budget::Concurrent { min: 3, share: 0.2 },
        timeout: Some(Nanos(15 * S)),
        ..ClientPolicy::default()
    }
}

fn tower() -> ClientPolicy {
    ClientPolicy {
        attempts: 4,
        backoff: Backoff::exponential(Nanos(50 * MS), Nanos::MAX, Jitter::Above(0.99)),
        retry_on: RetryOn::ERRORS,
        budget: Budget::Deposits { ttl: Nanos(10 * S), min_per_s: 10.0, ratio: 0.2 },
        ..ClientPolicy::default()
    }
}

fn brooker() -> ClientPolicy {
    ClientPolicy {
        attempts: 4,
        backoff: Backoff::exponential(Nanos(100 * MS), Nanos(20 * S), Jitter::Full),
        budget: Budget::Bucket { size: 5.0, deposit: 0.1, on_request: false },
        ..ClientPolicy::default()
    }
}

fn immediate() -> ClientPolicy {
    ClientPolicy { attempts: 4, ..ClientPolicy::default() }
}

fn exponential() -> ClientPolicy {
    let backoff = Backoff::exponential(Nanos(500 * MS), Nanos(60 * S), Jitter::None);
    ClientPolicy { attempts: 10, backoff, ..ClientPolicy::default() }
}

fn full_jitter() -> ClientPolicy {
    let backoff = Backoff { jitter: Jitter::Full, ..exponential().backoff };
    ClientPolicy { attempts: 10, backoff, ..ClientPolicy::default() }
}

fn every_second() -> ClientPolicy {
    let backoff = Backoff { growth: Growth::Fixed, ..Backoff::fixed(Nanos(S)) };
    ClientPolicy { attempts: 100, backoff, ..ClientPolicy::default() }
}

/// The presets, in the order in which they are listed.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "one_try",
        label: "One try",
        description: "Never tries again.",
        source: "textbook",
        policy: ClientPolicy::default,
    },
    Preset {
        name: "immediate",
        label: "Retries at once",
        description: "Tries three times more, without waiting: four attempts, the first included.",
        source: "what a loop around a call does",
        policy: immediate,
    },
    Preset {
        name: "every_second",
        label: "Every second",
        description: "Tries again every second, a hundred times.",
        source: "what a loop with a pause does",
        policy: every_second,
    },
    Preset {
        name: "exponential",
        label: "Exponential, no jitter",
        description: "Waits twice as long each time, and everybody equally long.",
        source: "AWS architecture blog, Exponential Backoff and Jitter (2015)",
        policy: exponential,
    },
    Preset {
        name: "full_jitter",
        label: "Exponential, full jitter",
        description: "Waits anything up to twice as long each time.",
        source: "AWS architecture blog, Exponential Backoff and Jitter (2015)",
        policy: full_jitter,
    },
    Preset {
        name: "openai_sdk",
        label: "OpenAI SDK",
        description: "Two retries after half a second and a second, a quarter less by chance; obeys Retry-After to the letter up to a minute.",
        source: "openai-python: _constants.py, _base_client.py",
        policy: sdk,
    },
    Preset {
        name: "anthropic_sdk",
        label: "Anthropic SDK",
        description: "The same rule and the same numbers as the OpenAI SDK: both are made by the same generator.",
        source: "anthropic-sdk-python: _constants.py, _base_client.py",
        policy: sdk,
    },
    Preset {
        name: "grpc",
        label: "gRPC",
        description: "Three retries from 0.1 s, a fifth more or less by chance, throttled by a bucket that failures empty. The numbers are those of the proposal's example: gRPC itself retries nothing until a service config says so.",
        source: "grpc/proposal: A6-client-retries.md",
        policy: grpc,
    },
    Preset {
        name: "envoy",
        label: "Envoy",
        description: "One retry within 25 ms, as long as retries are less than a fifth of what is under way; gives up on an attempt after 15 s.",
        source: "envoyproxy/envoy: retry_policy and circuit_breaker.proto (retry_budget), route timeout",
        policy: envoy,
    },
    Preset {
        name: "tower",
        label: "tower",
        description: "Three retries from 50 ms, paid for by a budget: a retry for five requests, and ten a second whatever happens. (The number of retries is the caller's; tower names none.)",
        source: "tower: retry/budget/tps_budget.rs, retry/backoff.rs",
        policy: tower,
    },
    Preset {
        name: "token_bucket",
        label: "Token bucket",
        description: "Three retries with full jitter, paid for by successes: ten of them buy one retry.",
        source: "Brooker, Fixing retries with token buckets and circuit breakers (2022)",
        policy: brooker,
    },
];

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_engine::random::Stream;

    #[test]
    fn every_preset_is_sound_and_found_by_its_name() {
        for preset in PRESETS {
            assert_eq!((preset.policy)().validate("clients"), Ok(()), "{}", preset.name);
            assert!(find(preset.name).is_some_and(|found| std::ptr::eq(found, preset)), "{} twice", preset.name);
        }
        assert!(find("no_such").is_none());
    }

    /// Facts D 24: with the SDKs' defaults all attempts are spent within about 1.5 s of an outage: 0.5 s and 1 s at most, 0.375 s and 0.75 s at least.
    #[test]
    fn the_sdks_have_spent_all_attempts_after_a_second_and_a_half() {
        let policy = (find("openai_sdk").unwrap().policy)();
        let (mut least, mut most) = (u64::MAX, 0);
        for client in 0..2000 {
            let mut draw = Stream::new(client, b"sdk");
            let spent: u64 = (1..policy.attempts)
                .map(|made| policy.next(made).unwrap())
                .map(|(backoff, nth)| backoff.wait(nth, None, &mut draw).0)
                .sum();
            (least, most) = (least.min(spent), most.max(spent));
        }
        assert!((1481 * MS..=1500 * MS).contains(&most), "{most}");
        assert!((1125 * MS..1145 * MS).contains(&least), "{least}");
        assert_eq!(policy.next(3).map(|(_, nth)| nth), None);
    }
}
