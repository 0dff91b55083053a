//! One picture of the fleet at one instant of virtual time: what the stage draws.

use serde::{Deserialize, Serialize};

/// The fleet under one policy at `t_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Index of the policy in the spec.
    pub policy: u32,
    /// Virtual time, seconds.
    pub t_s: f64,
    /// Requests that have arrived so far.
    pub arrived: u32,
    /// Requests that have finished so far.
    pub finished: u32,
    /// Requests refused so far.
    pub rejected: u32,
    /// The latest routing decisions, newest last, at most 16.
    pub decisions: Vec<Decision>,
    /// Every replica, by index.
    pub replicas: Vec<ReplicaFrame>,
}

/// One routing decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When, seconds of virtual time.
    pub t_s: f64,
    /// The request.
    pub request: u32,
    /// Its tenant.
    pub tenant: u32,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// The router that decided.
    pub router: u32,
    /// The chosen replica.
    pub replica: u32,
    /// What the policy compared, one value per replica (none for one that could not be chosen); empty when it compares nothing.
    pub scores: Vec<Option<f64>>,
    /// One phrase on why, in the policy's words.
    pub why: String,
}

/// One replica. Requests, blocks and steps are listed only where somebody looks at this one by itself; counts always are there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaFrame {
    /// Life-cycle state.
    pub state: ReplicaState,
    /// Waiting requests, next first; at most 64 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Pill>,
    /// All waiting requests, listed or not.
    pub waiting_total: u32,
    /// Running sequences in batch order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Pill>,
    /// All running sequences, listed or not.
    pub running_total: u32,
    /// Every KV block, see [`BlockCell`] for the packing. Written as text, a character for each.
    #[serde(with = "cells", default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u16>,
    /// The step in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepFrame>,
    /// The steps before it, newest last, at most 24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<StepFrame>,
    /// Prompt tokens served from cache so far.
    pub hit_tokens: u64,
    /// Prompt tokens admitted so far.
    pub prompt_tokens: u64,
    /// Cached blocks evicted so far.
    pub evictions: u64,
    /// Sequences preempted so far.
    pub preemptions: u64,
    /// Blocks held by running sequences ÷ all blocks.
    pub kv_usage: f64,
}

/// A replica's life-cycle state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    /// To be created later.
    Planned,
    /// Created and not yet ready.
    Starting,
    /// Takes requests.
    #[default]
    Ready,
    /// Out of rotation: it goes on with what it has and may come back.
    NotReady,
    /// Started, and kept without traffic until it is needed.
    Standby,
    /// Finishes what it has and takes no more.
    Draining,
    /// Removed, killed or crashed.
    Gone,
}

/// A request as drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pill {
    /// Request index in the workload.
    pub request: u32,
    /// Tenant index.
    pub tenant: u32,
    /// Which try of the request this is, from 1.
    pub attempt: u32,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens found in the cache.
    pub cached_tokens: u32,
    /// Prompt tokens that came from the store beyond those.
    #[serde(default)]
    pub fetched_tokens: u32,
    /// Prompt tokens whose K and V exist (cached ones included).
    pub computed_tokens: u32,
    /// Tokens produced so far.
    pub output_tokens: u32,
    /// Output budget (`max_tokens`).
    pub max_tokens: u32,
}

/// A step as drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepFrame {
    /// Start, seconds of virtual time.
    pub start_s: f64,
    /// End, seconds of virtual time.
    pub end_s: f64,
    /// Prompt tokens computed.
    pub prefill_tokens: u32,
    /// Sequences that decode one token.
    pub decode_sequences: u32,
}

/// One KV block, packed in 16 bits: bits 0–11 tenant + 1 (0: no content), bit 12 in use,
/// bit 13 shared by two sequences or more, bit 14 in the prefix cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCell {
    /// Whose tokens it holds; `None` when empty.
    pub tenant: Option<u32>,
    /// Referenced by a running sequence.
    pub used: bool,
    /// Referenced by two or more.
    pub shared: bool,
    /// Findable by content (reusable once unreferenced).
    pub cached: bool,
}

impl BlockCell {
    /// Packs the cell; tenants from 4094 on share the last colour.
    pub fn pack(self) -> u16 {
        let owner = self.tenant.map_or(0, |tenant| tenant.min(4094) as u16 + 1);
        owner | (self.used as u16) << 12 | (self.shared as u16) << 13 | (self.cached as u16) << 14
    }

    /// Reads a packed cell; every bit pattern is valid.
    pub fn unpack(bits: u16) -> Self {
        let owner = u32::from(bits & 0x0fff);
        BlockCell {
            tenant: owner.checked_sub(1),
            used: bits & 1 << 12 != 0,
            shared: bits & 1 << 13 != 0,
            cached: bits & 1 << 14 != 0,
        }
    }
}

/// Packed cells as one string, a character for each: a fleet has hundreds of thousands, and as numbers they take ten times as long to
/// write and to read.
mod cells {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;

    /// What is added to a cell: all that JSON escapes lies below, and all surrogates above what 15 bits can reach from here.
    const BASE: u32 = 0x5d;

    /// The flags first, so that few tenants make short characters.
    fn turned(cell: u16) -> u32 {
        u32::from((cell & 0x0fff) << 3 | (cell >> 12 & 7))
    }

    pub(super) fn serialize<S: Serializer>(blocks: &[u16], to: S) -> Result<S::Ok, S::Error> {
        let cells = blocks.iter().filter_map(|&cell| char::from_u32(turned(cell) + BASE));
        let mut text = String::with_capacity(blocks.len() * 2);
        text.extend(cells);
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u16>, D::Error> {
        struct Cells;
        impl Visitor<'_> for Cells {
            type Value = Vec<u16>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a character for each block")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u16>, E> {
                let mut cells = Vec::with_capacity(text.len() / 2);
                for character in text.chars() {
                    let turned = u32::from(character).wrapping_sub(BASE);
                    if turned > 0x7fff {
                        return Err(E::custom(format_args!("a block is no character {:#x}", u32::from(character))));
                    }
                    cells.push((turned >> 3) as u16 | (turned as u16 & 7) << 12);
                }
                Ok(cells)
            }
        }
        from.deserialize_str(Cells)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_block_survives_the_way_to_the_page() {
        let frame = ReplicaFrame { blocks: (0..=0x7fff).collect(), ..ReplicaFrame::default() };
        let text = crate::wire::to_text(&frame).unwrap();
        assert!(!text.contains('\\'), "nothing is escaped");
        assert_eq!(crate::wire::from_text::<ReplicaFrame>(&text).unwrap(), frame);
        let wrong = text.replacen('\u{5d}', "\u{20}", 1);
        assert!(wrong != text && crate::wire::from_text::<ReplicaFrame>(&wrong).is_err());
    }

    #[test]
    fn block_cells_survive_packing() {
        for tenant in [None, Some(0), Some(5), Some(4094)] {
            for bits in 0..8u8 {
                let cell = BlockCell { tenant, used: bits & 1 != 0, shared: bits & 2 != 0, cached: bits & 4 != 0 };
                assert_eq!(BlockCell::unpack(cell.pack()), cell);
            }
        }
    }
}
