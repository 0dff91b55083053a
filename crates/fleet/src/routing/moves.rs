//! What moves when a replica joins, for every policy that gives prefixes or sessions a home.

use super::RequestView;
use super::testing::{Bench, text};
use servelab_spec::experiment::PolicySpec;

/// Prompts that differ from their first character on.
const KEYS: u32 = 2000;

/// The home of each key on an idle fleet of `n` replicas.
fn homes(spec: &PolicySpec, n: u32) -> Vec<u32> {
    let mut bench = Bench::new(spec.clone(), n);
    (0..KEYS)
        .map(|key| {
            let prompt =
                text(&format!("{key:05} is what this one is about, and all of the rest is the same for everybody."));
            bench.choose(RequestView { session: Some(key.into()), ..Bench::request(&prompt) })
        })
        .collect()
}

fn moved(spec: &PolicySpec, n: u32) -> (f64, bool) {
    let (before, after) = (homes(spec, n), homes(spec, n + 1));
    let moved: Vec<u32> = before.iter().zip(&after).filter(|(old, new)| old != new).map(|(_, &new)| new).collect();
    (moved.len() as f64 / f64::from(KEYS), moved.iter().all(|&new| new == n))
}

/// Rendezvous hashing and rings: the newcomer's share, 1/(n + 1), and nothing else. A rendezvous share is binomial; that of v virtual nodes deviates by about
/// 1/√v as well. Five standard deviations.
#[test]
fn the_newcomers_share_moves_and_nothing_else() {
    for (spec, nodes) in [
        (PolicySpec::named("prefix_affinity").with("guard", 0.0), f64::INFINITY),
        (PolicySpec::named("session_sticky"), 160.0),
        (PolicySpec::named("kubeai_prefix_hash"), 256.0),
        (PolicySpec::named("smg_prefix_hash"), 150.0),
    ] {
        for n in [2, 4, 9, 20] {
            let (moved, only_there) = moved(&spec, n);
            let share = 1.0 / f64::from(n + 1);
            let spread = libm::sqrt(share * (1.0 - share) / f64::from(KEYS) + share * share / nodes);
            assert!(only_there, "{} moves keys between old replicas", spec.name);
            assert!((moved - share).abs() < 5.0 * spread, "{} from {n}: {moved} of {share}", spec.name);
        }
    }
}

/// The remainders modulo n and n + 1 agree for one key in n + 1; the rest moves, and not only to the newcomer.
#[test]
fn nearly_all_moves_modulo_n() {
    for n in [2, 4, 9, 20] {
        let (moved, only_there) = moved(&PolicySpec::named("prefix_modulo").with("guard", 0.0), n);
        let expected = f64::from(n) / f64::from(n + 1);
        let spread = libm::sqrt(expected * (1.0 - expected) / f64::from(KEYS));
        assert!(!only_there && (moved - expected).abs() < 5.0 * spread, "from {n}: {moved} of {expected}");
    }
}
