//! Rotary positions, and K and V into their pages.

use super::{Buffer, flat};
use crate::gpu::step::{HEADER, POSITION, ROW, ROWS, SLOT};
use cubecl::prelude::*;

/// The shape of a row of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rope {
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head, even.
    pub head_width: usize,
}

/// One unit turns one pair (`d`, `d + half`) of one head: queries in place, keys into the page; values it copies to the page.
#[cube(launch_unchecked)]
fn rope_kernel(step: &[u32], turns: &[f32], qkv: &mut [f32], k: &mut [f32], v: &mut [f32], #[comptime] shape: Rope) {
    let turned = comptime!(shape.heads + shape.kv_heads);
    let half = comptime!(shape.head_width / 2);
    let pairs = comptime!((shape.heads + 2 * shape.kv_heads) * shape.head_width / 2);
    let row = ABSOLUTE_POS / pairs;
    if row < step[ROWS] as usize {
        let at = HEADER + ROW * row;
        let position = step[at + POSITION] as usize;
        let page = step[at + SLOT] as usize * comptime!(shape.kv_heads * shape.head_width);
        let pair = ABSOLUTE_POS % pairs;
        let head = pair / half;
        let d = pair % half;
        let source = row * comptime!(2 * pairs) + head * comptime!(shape.head_width) + d;
        let a = qkv[source];
        let b = qkv[source + half];
        if head < turned {
            let turn = (position * half + d) * 2;
            let cos = turns[turn];
            let sin = turns[turn + 1];
            let first = a * cos - b * sin;
            let second = b * cos + a * sin;
            if head < comptime!(shape.heads) {
                qkv[source] = first;
                qkv[source + half] = second;
            } else {
                let target = page + (head - comptime!(shape.heads)) * comptime!(shape.head_width) + d;
                k[target] = first;
                k[target + half] = second;
            }
        } else {
            let target = page + (head - turned) * comptime!(shape.head_width) + d;
            v[target] = a;
            v[target + half] = b;
        }
    }
}

impl Rope {
    /// Turns queries in place and writes K and V of all rows to their slots. `turns` holds cosine and sine of every
    /// position and pair: WGSL promises its own only within 2⁻¹¹ and only up to π, so they come from the host.
    #[allow(clippy::too_many_arguments)]
    pub fn launch(
        &self,
        client: &Client,
        step: &Buffer,
        rows: usize,
        turns: &Buffer,
        qkv: &Buffer,
        k: &Buffer,
        v: &Buffer,
    ) {
        let (count, dim) = flat(rows * (self.heads + 2 * self.kv_heads) * self.head_width / 2);
        // SAFETY: units past the last row do nothing; positions and slots were checked against context and pool.
        unsafe {
            rope_kernel::launch_unchecked(
                client,
                count,
                dim,
                step.scalars(),
                turns.scalars(),
                qkv.scalars(),
                k.scalars(),
                v.scalars(),
                *self,
            );
        }
    }
}
