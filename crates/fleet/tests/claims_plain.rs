//! What is reported of plain and affinity routers, in our model. Each test says whose claim it is, on which workload we ask, what must hold and
//! what we get. Only orderings and mechanisms are held, over several seeds each; figures of other machines are not ours.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::Nanos;
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::telemetry::TelemetryConfig;
use servelab_fleet::{FleetConfig, ReplicaConfig, ReplicaStats, RequestRecord};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec, SessionsSpec, WorkloadSpec};
use servelab_workload::Source;

/// Mean wait and mean sojourn in service times on `replicas` one-slot servers at utilisation `rho`, metrics scraped every `scrape` service times.
fn wait_and_sojourn(policy: &PolicySpec, replicas: u32, rho: f64, scrape: f64, seed: u64) -> (f64, f64) {
    let sizes = MultiTenantSpec {
        requests: 30_000,
        tenants: 1,
        system_min: 0,
        system_max: 0,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    };
    let server = ServerConfig::new(1, Service::Exponential, Nanos(1_000_000_000));
    let telemetry = TelemetryConfig { scrape: Nanos::from_secs(scrape), ..TelemetryConfig::default() };
    let config = FleetConfig { seed, telemetry, ..FleetConfig::new(replicas, ReplicaConfig::Server(server)) };
    let mut fleet = fleet(config, tenants(sizes, seed, rho * f64::from(replicas)), policy);
    let records = finish(&mut fleet);
    let mean = |until: &dyn Fn(&RequestRecord) -> Nanos| {
        let times = records.iter().map(|record| until(record).since(record.arrival).as_secs());
        times.sum::<f64>() / records.len() as f64
    };
    (mean(&|record| record.admitted.unwrap()), mean(&|record| record.end))
}

/// Old information (Mitzenmacher, "How useful is old information?", TPDS 2000): the shortest of all queues by old metrics is worse than the shorter of
/// two drawn by the same metrics, and for very old ones worse than no information.
///
/// Sixteen servers, utilisation 0.9, queue lengths scraped every 0.05 to 50 service times. Must hold on every seed: fresh, the argmin beats two
/// choices; at 2 service times and more it loses to them, at 5 and more to random routing, which two choices still beat by a factor of two. We get sojourns
/// of 1.6 against 2.7 at 0.05, 7.2 against 3.3 at 2, 15 against 4.1 at 5 and 140 against 13 at 50, with 9.3 for random routing: even two choices
/// are worse than nothing on information that old, as in the paper.
#[test]
fn the_best_by_old_metrics_is_worse_than_the_better_of_two() {
    let argmin = PolicySpec::named("least_tokens").with("signal", 1.0).with("ties", 1.0);
    let two = PolicySpec::named("power_of_two").with("measure", 2.0);
    for seed in 0..4 {
        let random = wait_and_sojourn(&PolicySpec::named("random"), 16, 0.9, 1.0, seed).1;
        let at = |scrape| [&argmin, &two].map(|policy| wait_and_sojourn(policy, 16, 0.9, scrape, seed).1);
        let [best, better] = at(0.05);
        assert!(best < 0.75 * better, "fresh: {best} against {better}");
        let [best, better] = at(2.0);
        assert!(best > 1.5 * better, "2: {best} against {better}");
        let [best, better] = at(5.0);
        assert!(best > 1.2 * random && better < 0.5 * random, "5: {best}, {better}, random {random}");
        let [best, better] = at(50.0);
        assert!(best > 5.0 * random && better > random, "50: {best}, {better}, random {random}");
    }
}

/// Join-idle-queue (Lu et al. 2011): thirty times less queueing than with two choices at medium to high load, in the limit of many servers.
///
/// A hundred one-slot servers, one router. Must hold on every seed: at utilisation 0.5 and 0.7 a thirtieth of the wait or less; at 0.9, where a
/// hundred servers are not yet many, a tenth or less, and within a tenth of a service time of the shortest queue's wait. We get no wait to speak of at
/// 0.5 and 0.7, and 0.05 to 0.08 against 1.5 to 1.6 service times at 0.9, which is twenty to thirty times less.
#[test]
fn an_idle_queue_waits_a_thirtieth_of_two_choices() {
    let idle = PolicySpec::named("join_idle_queue").with("slots", 1.0);
    let [two, shortest] = ["power_of_two", "least_requests"].map(PolicySpec::named);
    for seed in 0..3 {
        for (rho, times) in [(0.5, 30.0), (0.7, 30.0), (0.9, 10.0)] {
            let [idle, two, shortest] =
                [&idle, &two, &shortest].map(|policy| wait_and_sojourn(policy, 100, rho, 1.0, seed).0);
            assert!(idle * times <= two, "{rho}: {idle}, two choices {two}");
            assert!(idle < shortest + 0.1, "{rho}: {idle}, shortest queue {shortest}");
        }
    }
}

/// What a run of conversations gave.
struct Gave {
    /// Mean time to first token, seconds.
    ttft: f64,
    /// Mean end-to-end time, seconds.
    e2e: f64,
    /// Prompt tokens served from cache ÷ prompt tokens.
    reuse: f64,
    /// Requests finished for each second that a replica was busy: what the fleet could do if it always were.
    per_busy_s: f64,
    stats: Vec<ReplicaStats>,
}

/// Four replicas of batch 16 and `blocks` blocks serve conversations that start at `rate` turns a second.
fn converse(policy: &PolicySpec, sizes: &SessionsSpec, blocks: u32, rate: f64, seed: u64) -> Gave {
    let source = Source::new(&WorkloadSpec::Sessions(sizes.clone()), seed, 16, rate).unwrap();
    let spec = EngineSpec { blocks, max_batch: 16, ..Default::default() };
    let config = FleetConfig { seed, ..FleetConfig::priced(4, engine(spec), cost()) };
    let mut fleet = fleet(config, source, policy);
    let records = finish(&mut fleet);
    let n = records.len() as f64;
    let mean =
        |of: &dyn Fn(&RequestRecord) -> Nanos| records.iter().map(|record| of(record).as_secs()).sum::<f64>() / n;
    let (hit, all) = reuse(&fleet);
    let stats = stats(&fleet);
    Gave {
        ttft: mean(&|record| record.ttft().unwrap()),
        e2e: mean(&|record| record.end.since(record.arrival)),
        reuse: hit as f64 / all as f64,
        per_busy_s: n / stats.iter().map(|stats| stats.busy.as_secs()).sum::<f64>(),
        stats,
    }
}

/// Strict consistent hashing under saturation (prime-rl #3255): one engine's hit rate fell from 98 to 5 %, it became about four times as
/// slow, and its three peers were idle.
///
/// Conversations of 10 to 30 turns that all begin alike, on four replicas whose caches each hold some ten of them; a ring on the first 16 tokens
/// (`smg_prefix_hash`), once with a bound that is never reached and once with its own of 1.25. Must hold on every seed: the peers get nothing; the hit rate
/// falls from above 90 % at 0.5 turns a second to below a fifth at 20, because whoever waits loses its history to whoever runs; the bounded ring, with
/// the same key, is at least four times as fast and reuses no less. We get 94 % and 14 to 17 %, and 5 to 6 s against 0.11 s end to end; not the
/// reported 5 %, and it cannot be: the 32 tokens that all begin with are never lost and are 7 % of the mean prompt.
#[test]
fn a_strict_hash_ends_with_one_hot_engine_that_remembers_nothing() {
    let sizes = SessionsSpec {
        requests: 2500,
        tenants: 1,
        turns_min: 10,
        turns_max: 30,
        think_s: 4.0,
        system_min: 32,
        system_max: 32,
        user_min: 10,
        user_max: 30,
        output_min: 10,
        output_max: 30,
        ..Default::default()
    };
    let bounded = PolicySpec::named("smg_prefix_hash").with("prefix_tokens", 16.0);
    let strict = bounded.clone().with("load_factor", 100.0);
    for seed in 0..3 {
        let calm = converse(&strict, &sizes, 384, 0.5, seed);
        let hot = converse(&strict, &sizes, 384, 20.0, seed);
        let relieved = converse(&bounded, &sizes, 384, 20.0, seed);
        let say = format!(
            "seed {seed}: reuse {:.3}, {:.3}, bounded {:.3}; end to end {:.2}, {:.2}, {:.2} s",
            calm.reuse, hot.reuse, relieved.reuse, calm.e2e, hot.e2e, relieved.e2e
        );
        for outcome in [&calm, &hot] {
            assert_eq!(outcome.stats.iter().filter(|stats| stats.assignments > 0).count(), 1);
        }
        assert!(calm.reuse > 0.9 && hot.reuse < 0.2, "{say}");
        assert!(hot.e2e > 4.0 * relieved.e2e && hot.e2e > 4.0 * calm.e2e, "{say}");
        assert!(relieved.reuse >= hot.reuse && relieved.stats.iter().all(|stats| stats.assignments > 0), "{say}");
    }
}

/// KubeAI's benchmark of multi-turn conversations: PrefixHash 76.4 requests/s, LeastLoad 50.5, round-robin 50.0, on 8 × L4 with 800 users, and
/// 87 ms a token against 189.
///
/// Conversations of 6 to 14 turns on four replicas whose caches hold about 25 of them each, 120 turns a second at first. Must hold on every seed: with
/// PrefixHash more is reused, the fleet finishes more for each second that it is busy, and answers come in less than half the time; least requests and
/// round-robin are within 15 % of each other. We get end to end 0.75 to 0.95 s against 2.6 to 2.9 s
/// for both, reuse of 0.40 to 0.45 against 0.22 to 0.24, and 1.1 times the requests for each busy second: less than the reported 1.5, since with our costs a step is mostly decoding, which no cache saves. Our loop is open, KubeAI's closed, so we
/// compare times and capacity, not rates.
#[test]
fn multi_turn_conversations_gain_from_a_prefix_hash_and_not_from_load_alone() {
    let sizes = SessionsSpec {
        requests: 3000,
        tenants: 1,
        turns_min: 6,
        turns_max: 14,
        think_s: 4.0,
        system_min: 48,
        system_max: 48,
        user_min: 60,
        user_max: 140,
        output_min: 10,
        output_max: 30,
        ..Default::default()
    };
    for seed in 0..3 {
        let [hash, least, turns] = ["kubeai_prefix_hash", "least_requests", "round_robin"]
            .map(|policy| converse(&PolicySpec::named(policy), &sizes, 2048, 120.0, seed));
        let say = [&hash, &least, &turns].map(|outcome| {
            format!(
                "{:.2} s, first token {:.2} s, reuse {:.3}, {:.2}/s",
                outcome.e2e, outcome.ttft, outcome.reuse, outcome.per_busy_s
            )
        });
        assert!(hash.reuse > 1.5 * least.reuse && hash.per_busy_s > 1.05 * least.per_busy_s, "{say:?}");
        assert!(hash.e2e < 0.5 * least.e2e && hash.ttft < 0.5 * least.ttft, "{say:?}");
        assert!(
            (least.e2e / turns.e2e - 1.0).abs() < 0.15 && (least.reuse / turns.reuse - 1.0).abs() < 0.15,
            "{say:?}"
        );
    }
}
