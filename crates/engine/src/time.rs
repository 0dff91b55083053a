//! Virtual time in integers: instants and durations in nanoseconds, step costs in picoseconds.
//!
//! Costs are finer than the clock because a token of context costs a large GPU about a nanosecond. A replica
//! carries the sub-nanosecond remainder from step to step ([`crate::cost::CostClock`]), so a jump over k steps ends
//! at exactly the instant that k single steps end at.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// Nanoseconds of virtual time, as an instant since the start of the run or as a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of a run.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than anything that happens.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Seconds, rounded to the nearest nanosecond; negative and non-finite values become 0.
    pub fn from_secs(seconds: f64) -> Self {
        if seconds.is_finite() && seconds > 0.0 { Nanos(libm::round(seconds * 1e9) as u64) } else { Nanos(0) }
    }

    /// As seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, 0 when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        debug_assert!(self >= other, "time runs back: {self:?} - {other:?}");
        self.since(other)
    }
}

/// Picoseconds: the cost of a step or of a run of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Picos(pub u64);

impl Picos {
    /// A measured duration in seconds, rounded to the picosecond; at least 1 ps so that time moves.
    pub fn from_secs(seconds: f64) -> Self {
        if seconds.is_finite() && seconds > 0.0 { Picos((libm::round(seconds * 1e12) as u64).max(1)) } else { Picos(1) }
    }
}
