//! A consistent hash ring: where replicas join or leave, only about the share of keys that is theirs moves.
//!
//! Each replica stands at many points of a circle (its virtual nodes), a key belongs to the first point at or after its own place
//! (Karger et al. 1997). More points make shares more even: with v of them a replica's share deviates by about 1/√v.

use super::params;
use servelab_engine::random::mix;
use servelab_spec::catalog::ParamInfo;

/// Sets apart the places of points from those of keys.
const POINT: u64 = 0x7269_6e67;

/// A ring of the replicas that may be chosen. It follows from them, so it is never saved.
pub(crate) struct Ring {
    virtual_nodes: u32,
    /// Place and replica, ascending.
    points: Vec<(u64, u32)>,
}

impl Ring {
    pub(crate) const NAME: &'static str = "virtual_nodes";

    /// The parameter that says how many points a replica has, by default `default`.
    pub(crate) fn param(default: u32) -> ParamInfo {
        params::integer(
            Self::NAME,
            "Virtual nodes",
            "per replica",
            default,
            (1, 1024),
            "Points of each replica on the hash ring: more of them make the replicas' shares of keys more even.",
        )
    }

    /// A ring of nobody.
    pub(crate) fn new(virtual_nodes: u32) -> Self {
        Ring { virtual_nodes, points: Vec::new() }
    }

    /// Makes it a ring of `replicas`.
    pub(crate) fn set(&mut self, replicas: &[u32]) {
        self.points.clear();
        for &replica in replicas {
            let of_replica = mix(POINT, u64::from(replica));
            self.points.extend((0..self.virtual_nodes).map(|node| (mix(of_replica, u64::from(node)), replica)));
        }
        // By place, then replica: points that are equal in both are the same point.
        self.points.sort_unstable();
    }

    /// The replicas whose points follow on the place of `key`, clockwise once around; each occurs as often as it has points.
    pub(crate) fn walk(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let start = self.points.partition_point(|&(place, _)| place < key);
        self.points[start..].iter().chain(&self.points[..start]).map(|&(_, replica)| replica)
    }

    /// Position among `candidates` of the first of them that follows on the place of `key`.
    pub(crate) fn first(&self, key: u64, candidates: &[u32]) -> Option<usize> {
        self.walk(key).find_map(|replica| candidates.binary_search(&replica).ok())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn ring(virtual_nodes: u32, replicas: &[u32]) -> Ring {
        let mut ring = Ring::new(virtual_nodes);
        ring.set(replicas);
        ring
    }

    fn keys(seed: u64, n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(move |at| mix(seed, at))
    }

    proptest! {
        /// What consistent hashing is for. Nobody's key moves but to the newcomer, and the newcomer's share is 1/(n+1), give or take
        /// what its virtual nodes allow: with v points a share has a relative standard deviation of at most 1/√v.
        #[test]
        fn a_newcomer_takes_its_share_and_nothing_else_moves(seed: u64, replicas in prop::collection::btree_set(0u32..1000, 2..40)) {
            let (nodes, n_keys) = (256, 2000);
            let mut replicas: Vec<u32> = replicas.into_iter().collect();
            let newcomer = replicas.remove(seed as usize % replicas.len());
            let (before, n) = (ring(nodes, &replicas), replicas.len() as f64);
            let mut all = replicas.clone();
            all.push(newcomer);
            all.sort_unstable();
            let after = ring(nodes, &all);
            let mut moved = 0;
            for key in keys(seed, n_keys) {
                let (old, new) = (before.walk(key).next(), after.walk(key).next());
                prop_assert!(new == old || new == Some(newcomer));
                // Passing over a candidate that may not be chosen is the same as a ring without it.
                prop_assert_eq!(after.first(key, &replicas).map(|at| replicas[at]), old);
                moved += u32::from(new != old);
            }
            let share = 1.0 / (n + 1.0);
            // Five standard deviations of the points' share and of the number of keys in it.
            let spread = 5.0 * (share / 16.0 + libm::sqrt(share / n_keys as f64));
            prop_assert!((f64::from(moved) / n_keys as f64 - share).abs() < spread, "{moved} of {n_keys} moved to one of {}", n + 1.0);
        }

        #[test]
        fn a_walk_meets_every_point_once_in_order(key: u64, replicas in prop::collection::btree_set(0u32..50, 0..9), nodes in 1u32..9) {
            let replicas: Vec<u32> = replicas.into_iter().collect();
            let ring = ring(nodes, &replicas);
            let mut met: Vec<u32> = ring.walk(key).collect();
            if let Some(&first) = met.first() {
                let distance = |place: u64| place.wrapping_sub(key);
                let nearest = ring.points.iter().min_by_key(|&&(place, _)| distance(place)).unwrap();
                prop_assert_eq!(nearest.1, first);
            }
            met.sort_unstable();
            let expected: Vec<u32> = replicas.iter().flat_map(|&replica| (0..nodes).map(move |_| replica)).collect();
            prop_assert_eq!(met, expected);
            prop_assert_eq!(ring.first(key, &[]), None);
        }
    }

    /// A place beyond the last point belongs to the first; one that is a point's belongs to that point.
    #[test]
    fn the_circle_closes() {
        let ring = ring(2, &[3, 8]);
        let (last, first) = (ring.points[3], ring.points[0]);
        assert_eq!(ring.walk(last.0).next(), Some(last.1));
        assert_eq!(ring.walk(last.0 + 1).next(), Some(first.1));
    }
}
