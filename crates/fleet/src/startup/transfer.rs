//! One bandwidth, shared by whoever transfers at the moment.
//!
//! Processor sharing: k transfers get a k-th each. Whether registries and object stores do that is an assumption (nothing public measures many
//! replicas that pull at once), and the kindest one: under contention they do not do better.
//!
//! All transfers progress alike, so one counter, what a transfer there from the start would have got by now, says for each when it ends. It counts
//! billionths of a byte in integers, and what does not divide by k is carried over, so nothing is lost however often transfers join and leave.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

const BILLION: u128 = 1_000_000_000;

/// How fast a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// All transfers together, bytes per second, above 0.
    pub bytes_per_s: u64,
    /// Each of them, at most: what a single reader gets, or what it can take in.
    pub each_bytes_per_s: Option<u64>,
}

impl LinkConfig {
    /// Without limit: transfers take no time.
    pub const UNLIMITED: LinkConfig = LinkConfig { bytes_per_s: u64::MAX, each_bytes_per_s: None };

    /// What a transfer gets alone, bytes per second.
    pub fn alone(&self) -> u64 {
        self.each_bytes_per_s.map_or(self.bytes_per_s, |each| each.min(self.bytes_per_s))
    }
}

/// How long `bytes` take at `bytes_per_s`, rounded up to the nanosecond; no time at all where there is no limit (`u64::MAX`).
pub fn time_for(bytes: u64, bytes_per_s: u64) -> Nanos {
    if bytes_per_s == u64::MAX {
        return Nanos::ZERO;
    }
    nanos((u128::from(bytes) * BILLION).div_ceil(u128::from(bytes_per_s.max(1))))
}

fn nanos(ns: u128) -> Nanos {
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// A link and what is on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    config: LinkConfig,
    /// When [`SharedLink::got`] was last brought up to date.
    at: Nanos,
    /// What a transfer that has been here since the link was last idle has got, in billionths of a byte.
    #[serde(with = "wide")]
    got: u128,
    /// What was delivered and did not divide by the number of transfers.
    #[serde(with = "wide")]
    carry: u128,
    /// In the order in which they joined.
    transfers: Vec<Transfer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    id: u32,
    /// It is done when [`SharedLink::got`] reaches this.
    #[serde(with = "wide")]
    until: u128,
}

impl SharedLink {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Self {
        SharedLink { config, at: Nanos::ZERO, got: 0, carry: 0, transfers: Vec::new() }
    }

    /// How many transfers are on it.
    pub fn transfers(&self) -> usize {
        self.transfers.len()
    }

    /// `id` starts to transfer `bytes`. The ends of the others move, so ask [`SharedLink::next`] again. An `id` that is on the link already starts
    /// over.
    pub fn join(&mut self, now: Nanos, id: u32, bytes: u64) {
        self.leave(now, id);
        let until = self.got + u128::from(bytes) * BILLION;
        self.transfers.push(Transfer { id, until });
    }

    /// `id` gives up; answers whether it was there.
    pub fn leave(&mut self, now: Nanos, id: u32) -> bool {
        self.advance(now);
        let Some(at) = self.transfers.iter().position(|transfer| transfer.id == id) else { return false };
        self.transfers.remove(at);
        if self.transfers.is_empty() {
            (self.got, self.carry) = (0, 0);
        }
        true
    }

    /// Which transfer ends next, and when, if none joins or leaves before; of several at one instant the one that joined first.
    pub fn next(&self) -> Option<(Nanos, u32)> {
        // The first of equals is kept.
        let first = self.transfers.iter().min_by_key(|transfer| transfer.until)?;
        Some((self.at + self.time_until(first.until), first.id))
    }

    /// `id` has ended, as [`SharedLink::next`] said; answers whether it really had by `now`. One that has not goes on.
    pub fn finish(&mut self, now: Nanos, id: u32) -> bool {
        self.advance(now);
        let done = self.transfers.iter().any(|transfer| transfer.id == id && self.has(transfer.until));
        done && self.leave(now, id)
    }

    /// Bytes that `id` still lacks at `now`, rounded up; `None` when it is not on the link.
    pub fn remaining(&self, now: Nanos, id: u32) -> Option<u64> {
        let until = self.transfers.iter().find(|transfer| transfer.id == id)?.until;
        if self.config.alone() == u64::MAX {
            return Some(0);
        }
        let (got, _) = self.progress(now);
        Some(u64::try_from(until.saturating_sub(got).div_ceil(BILLION)).unwrap_or(u64::MAX))
    }

    fn has(&self, until: u128) -> bool {
        self.config.alone() == u64::MAX || self.got >= until
    }

    /// Each transfer's bandwidth where a limit of its own binds and not its share.
    fn capped(&self) -> Option<u128> {
        let k = self.transfers.len() as u128;
        let each = u128::from(self.config.each_bytes_per_s?);
        (each * k <= u128::from(self.config.bytes_per_s)).then_some(each)
    }

    /// The counter and the carry at `now`.
    fn progress(&self, now: Nanos) -> (u128, u128) {
        let elapsed = u128::from(now.since(self.at).0);
        let k = self.transfers.len() as u128;
        if k == 0 {
            return (0, 0);
        }
        if self.config.alone() == u64::MAX {
            return (self.got, self.carry);
        }
        if let Some(each) = self.capped() {
            return (self.got + elapsed * each, self.carry);
        }
        let all = elapsed * u128::from(self.config.bytes_per_s) + self.carry;
        (self.got + all / k, all % k)
    }

    fn advance(&mut self, now: Nanos) {
        (self.got, self.carry) = self.progress(now);
        self.at = now.max(self.at);
    }

    /// From [`SharedLink::at`] until the counter reaches `until`.
    fn time_until(&self, until: u128) -> Nanos {
        let missing = until.saturating_sub(self.got);
        if missing == 0 || self.config.alone() == u64::MAX {
            return Nanos::ZERO;
        }
        if let Some(each) = self.capped() {
            return nanos(missing.div_ceil(each.max(1)));
        }
        let all = (missing * self.transfers.len() as u128).saturating_sub(self.carry);
        nanos(all.div_ceil(u128::from(self.config.bytes_per_s.max(1))))
    }
}

/// Numbers that JSON readers need not hold: as their upper and lower half.
mod wide {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &u128, to: S) -> Result<S::Ok, S::Error> {
        ((value >> 64) as u64, *value as u64).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let (high, low) = <(u64, u64)>::deserialize(from)?;
        Ok(u128::from(high) << 64 | u128::from(low))
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "transfer_tests.rs"]
mod tests;
