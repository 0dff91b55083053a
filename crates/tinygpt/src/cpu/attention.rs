//! Paged attention of one row: the query heads that share a KV head ride in the four lanes of a vector.
//!
//! Each block is read where it lies, once for all lanes, with an online softmax (running maximum, sum and weighted values),
//! block after block in the order of the context. No lane ever meets another, so a row's result does not depend on the
//! batch, the chunking or the vector width.
//!
//! Within a block, K lies as `[kv_heads, block_tokens ÷ W, head_width, W]` and V as `[kv_heads, head_width ÷ 8, block_tokens, 8]`: the
//! innermost loops run over the head's width, or over the tokens, and find their W or 8 numbers side by side. W is 8 where the
//! block size allows and 1 elsewhere.

use super::math::exp;
use super::touch::touch;
use wide::f32x4;

/// Query heads that attend together.
pub(crate) const LANES: usize = 4;
/// Elements of a head's V that lie side by side.
const VALUES: usize = 8;

/// Where a head's numbers lie in a layer's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) block_tokens: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_width: usize,
}

impl Geometry {
    /// Tokens of K that lie side by side.
    fn tokens_together(&self) -> usize {
        if self.block_tokens.is_multiple_of(8) { 8 } else { 1 }
    }

    /// First element of a KV head in a block.
    #[inline(always)]
    fn head(&self, block: usize, kv_head: usize) -> usize {
        (block * self.kv_heads + kv_head) * self.block_tokens * self.head_width
    }

    /// Puts one token's K and V, `[kv_heads × head_width]` each, into its slot.
    #[inline]
    pub(crate) fn write(&self, slot: usize, k: &[f32], v: &[f32], k_cache: &mut [f32], v_cache: &mut [f32]) {
        let (block, token) = (slot / self.block_tokens, slot % self.block_tokens);
        let together = self.tokens_together();
        for kv_head in 0..self.kv_heads {
            let from = kv_head * self.head_width..(kv_head + 1) * self.head_width;
            let at = self.head(block, kv_head);
            let first = at + token / together * together * self.head_width + token % together;
            for (i, &k) in k[from.clone()].iter().enumerate() {
                k_cache[first + i * together] = k;
            }
            for (tile, v) in v[from].chunks_exact(VALUES).enumerate() {
                let first = at + (tile * self.block_tokens + token) * VALUES;
                v_cache[first..first + VALUES].copy_from_slice(v);
            }
        }
    }
}

/// One row's queries of one KV head, and the cache to read.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    /// `[head_width]`, scaled by 1/√head width; lanes without a head hold zeros.
    pub(crate) q: &'a [f32x4],
    pub(crate) kv_head: usize,
    /// Tokens to attend to, at least 1.
    pub(crate) context: usize,
    pub(crate) table: &'a [u32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    /// No row before this one has read the same blocks.
    pub(crate) cold: bool,
}

/// Leaves softmax(q · Kᵀ) · V in `out`, `[head_width]`. `scores` holds one block's.
#[inline]
pub(crate) fn attend(geometry: Geometry, query: Query<'_>, scores: &mut [f32x4], out: &mut [f32x4]) {
    if geometry.tokens_together() == 8 {
        attend_by::<8>(geometry, query, scores, out);
    } else {
        attend_by::<1>(geometry, query, scores, out);
    }
}

fn attend_by<const W: usize>(geometry: Geometry, query: Query<'_>, scores: &mut [f32x4], out: &mut [f32x4]) {
    let (block_tokens, size) = (geometry.block_tokens, geometry.block_tokens * geometry.head_width);
    let mut top = f32x4::splat(-1e30);
    let mut sum = f32x4::splat(0.0);
    out.fill(f32x4::splat(0.0));
    for (index, &block) in query.table.iter().enumerate().take(query.context.div_ceil(block_tokens)) {
        let seen = block_tokens.min(query.context - index * block_tokens);
        let at = geometry.head(block as usize, query.kv_head);
        let (k, v) = (&query.k[at..at + size], &query.v[at..at + size]);
        if query.cold {
            touch(k);
            touch(v);
        }
        for (tile, scores) in
            k.chunks_exact(W * geometry.head_width).zip(scores.as_chunks_mut::<W>().0).take(seen.div_ceil(W))
        {
            *scores = score(query.q, tile.as_chunks::<W>().0);
        }
        let scores = &mut scores[..seen];
        let new_top = scores.iter().fold(top, |top, &score| top.fast_max(score));
        if new_top != top {
            // Where the maximum stays, the factor is exactly 1.
            let factor = exp(top - new_top);
            sum *= factor;
            out.iter_mut().for_each(|out| *out *= factor);
            top = new_top;
        }
        for score in scores.iter_mut() {
            *score = exp(*score - top);
            sum += *score;
        }
        for (tile, out) in v.chunks_exact(block_tokens * VALUES).zip(out.as_chunks_mut::<VALUES>().0) {
            *out = weigh(*out, scores, tile.as_chunks::<VALUES>().0);
        }
    }
    let scale = f32x4::splat(1.0) / sum;
    out.iter_mut().for_each(|out| *out *= scale);
}

/// q · k for `W` tokens.
#[inline(always)]
fn score<const W: usize>(q: &[f32x4], k: &[[f32; W]]) -> [f32x4; W] {
    let mut sums = [f32x4::splat(0.0); W];
    for (&q, k) in q.iter().zip(k) {
        for token in 0..W {
            sums[token] += q * f32x4::splat(k[token]);
        }
    }
    sums
}

/// Adds the weighted values of a block's tokens.
#[inline(always)]
fn weigh(mut out: [f32x4; VALUES], weights: &[f32x4], v: &[[f32; VALUES]]) -> [f32x4; VALUES] {
    for (&weight, v) in weights.iter().zip(v) {
        for i in 0..VALUES {
            out[i] += weight * f32x4::splat(v[i]);
        }
    }
    out
}
