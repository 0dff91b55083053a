//! Token buckets in one number each.
//!
//! A bucket of `burst` units that fills at `rate` units a second is kept as the instant at which it is full again (the theoretical arrival time of the
//! generic cell rate algorithm, ATM Forum Traffic Management 4.0, §4.4.2, where the two are shown to be the same): taking units moves the instant, time alone
//! moves the level. So a bucket is eight bytes, is exact in integers, costs nothing while nobody comes, and says how long to wait.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// How fast a bucket fills and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Millionths of a unit that come in a second, above 0.
    pub micro_per_s: u64,
    /// Units a full bucket holds, above 0.
    pub burst: u64,
}

impl Rate {
    /// `per_s` units a second, to the millionth.
    pub fn new(per_s: f64, burst: u64) -> Self {
        let micro = if per_s.is_finite() && per_s > 0.0 { libm::round(per_s * 1e6) as u64 } else { 0 };
        Rate { micro_per_s: micro.max(1), burst: burst.max(1) }
    }

    /// How long `units` take to come, rounded up: never more than the rate.
    pub(crate) fn time(&self, units: u64) -> Nanos {
        let time = (u128::from(units) * 1_000_000_000_000_000).div_ceil(u128::from(self.micro_per_s.max(1)));
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// One bucket: when it is full again. Full at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Bucket(Nanos);

impl Bucket {
    /// Takes `units`, or says after how long they will be there; `Err(None)`: never, the bucket is too small.
    pub(crate) fn take(&mut self, now: Nanos, units: u64, rate: &Rate) -> Result<(), Option<Nanos>> {
        if units > rate.burst {
            return Err(None);
        }
        let full = self.0.max(now) + rate.time(units);
        let (missing, most) = (full.since(now), rate.time(rate.burst));
        if missing > most {
            return Err(Some(missing.since(most)));
        }
        self.0 = full;
        Ok(())
    }

    /// Puts `units` back that were taken.
    pub(crate) fn give_back(&mut self, units: u64, rate: &Rate) {
        self.0 = self.0.since(rate.time(units));
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2 a second, 3 at once: three pass at 0, the fourth must wait for half a second, and after a long rest three pass again.
    #[test]
    fn by_hand() {
        let rate = Rate::new(2.0, 3);
        let mut bucket = Bucket::default();
        let half = Nanos(500_000_000);
        for _ in 0..3 {
            assert_eq!(bucket.take(Nanos::ZERO, 1, &rate), Ok(()));
        }
        assert_eq!(bucket.take(Nanos::ZERO, 1, &rate), Err(Some(half)));
        assert_eq!(bucket.take(Nanos(half.0 - 1), 1, &rate), Err(Some(Nanos(1))));
        assert_eq!(bucket.take(half, 1, &rate), Ok(()));
        bucket.give_back(1, &rate);
        assert_eq!(bucket.take(half, 1, &rate), Ok(()));
        assert_eq!(bucket.take(half, 2, &rate), Err(Some(Nanos(1_000_000_000))));
        assert_eq!(bucket.take(Nanos::from_secs(60.0), 3, &rate), Ok(()));
        assert_eq!(bucket.take(Nanos::from_secs(60.0), 4, &rate), Err(None), "more than the bucket holds");
    }

    proptest! {
        /// A bucket with a level that is filled and emptied decides the same. Rates that divide 10¹⁵, so that neither rounds.
        #[test]
        fn as_a_level_would(
            rate in prop::sample::select(vec![1u64, 4, 10, 125, 1_000_000, 8_000_000, 250_000_000]),
            burst in 1u64..9,
            asks in prop::collection::vec((0u64..3_000_000_000, 1u64..11, any::<bool>()), 1..60),
        ) {
            let rate = Rate { micro_per_s: rate, burst };
            let full = u128::from(burst) * 1_000_000_000_000_000;
            let (mut level, mut then, mut now) = (full, 0, 0);
            let mut bucket = Bucket::default();
            for (gap, units, back) in asks {
                now += gap;
                level = (level + u128::from(now - then) * u128::from(rate.micro_per_s)).min(full);
                then = now;
                let cost = u128::from(units) * 1_000_000_000_000_000;
                let taken = bucket.take(Nanos(now), units, &rate);
                prop_assert_eq!(taken.is_ok(), cost <= level);
                if taken.is_ok() {
                    level -= cost;
                    if back {
                        bucket.give_back(units, &rate);
                        level += cost;
                    }
                } else if let Err(Some(wait)) = taken {
                    let after = |wait: u64| level + u128::from(wait) * u128::from(rate.micro_per_s);
                    prop_assert!(after(wait.0) >= cost && after(wait.0 - 1) < cost);
                }
            }
        }
    }
}
