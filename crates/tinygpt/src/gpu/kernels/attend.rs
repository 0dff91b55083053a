//! Attention through block tables, with a running softmax.
//!
//! One cube per row (token) and KV head, for all query heads that share it. Keys are taken in chunks of one per
//! unit: each unit finds its key's slot and scores it against the group's queries; then units regroup, each holding four
//! dimensions of one head's output over a strided part of the chunk, with a maximum and a sum of its own, so that no
//! reduction is needed within a chunk; parts are merged at the end. Rows of one sequence read the same pages from
//! the GPU's cache; sharing them through shared memory would need tiles of rows and is left to a measurement on real hardware.

use super::{Buffer, Four, Rows, row_of};
use crate::gpu::step::{HEADER, POSITION, ROW, TABLE};
use cubecl::prelude::*;

/// The shape of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head, a multiple of 4.
    pub head_width: usize,
    /// Tokens of a block.
    pub block_tokens: usize,
    /// Which rows; queries are read where the step's rows are, results written one after the other.
    pub rows: Rows,
}

/// What a pipeline is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Heads {
    heads: usize,
    kv_heads: usize,
    head_width: usize,
}

/// Units of a cube, and keys of a chunk. 128 is the output of a group of four heads of 32 in groups of four, times four
/// parts; 64 to 256 are what GPUs schedule well.
const UNITS: usize = 128;

/// Below every score and still finite: WGSL has no infinity. `exp` of it less anything is 0.
const LOWEST: f32 = -1.0e30;

#[cube(launch_unchecked)]
fn attend_kernel(
    step: &[u32],
    qkv: &[Four],
    k: &[Four],
    v: &[Four],
    out: &mut [Four],
    block: usize,
    rows: u32,
    #[comptime] shape: Heads,
) {
    let group = comptime!(shape.heads / shape.kv_heads);
    let dim4 = comptime!(shape.head_width / 4);
    let outputs = comptime!(group * dim4);
    let parts = comptime!(UNITS / outputs);
    let kv4 = comptime!(shape.kv_heads * dim4);
    let row4 = comptime!((shape.heads + 2 * shape.kv_heads) * dim4);

    let row = row_of(step, CUBE_POS_X as usize, rows);
    let kv_head = CUBE_POS_Y as usize;
    let unit = UNIT_POS_X as usize;
    let at = HEADER + ROW * row;
    let context = step[at + POSITION] as usize + 1;
    let table = step[at + TABLE] as usize;

    let mut queries = Shared::<[Four]>::new_slice(outputs);
    let mut scores = Shared::<[f32]>::new_slice(comptime!(UNITS * group));
    let mut slots = Shared::<[u32]>::new_slice(UNITS);
    let mut sums = Shared::<[Four]>::new_slice(UNITS);
    let mut highs = Shared::<[f32]>::new_slice(UNITS);
    let mut weights = Shared::<[f32]>::new_slice(UNITS);

    if unit < outputs {
        let scale = f32::new(comptime!(1.0 / (shape.head_width as f32).sqrt()));
        queries[unit] = qkv[row * row4 + kv_head * outputs + unit] * Four::new(scale);
    }

    // The part of the output this unit holds: four dimensions of one head over every `parts`-th key.
    let part = unit / outputs;
    let output = unit % outputs;
    let head = output / dim4;
    let dim = output % dim4;
    let mut high = f32::new(LOWEST);
    let mut weight = f32::new(0.0);
    let mut sum = Four::new(0.0);

    let chunks = (context + comptime!(UNITS - 1)) / UNITS;
    for chunk in 0..chunks {
        let base = chunk * UNITS;
        // Queries are in place, and nobody still reads the previous chunk.
        sync_cube();
        let key = base + unit;
        if key < context {
            let slot = step[table + key / block] as usize * block + key % block;
            slots[unit] = slot as u32;
            let page = slot * kv4 + kv_head * dim4;
            let mut score = Array::<f32>::new(group);
            #[unroll]
            for g in 0..group {
                score[g] = f32::new(0.0);
            }
            for d in 0..dim4 {
                let four = k[page + d];
                #[unroll]
                for g in 0..group {
                    score[g] += queries[g * dim4 + d].dot(four);
                }
            }
            #[unroll]
            for g in 0..group {
                scores[unit * group + g] = score[g];
            }
        }
        sync_cube();
        if part < parts {
            let mut keys = context - base;
            if keys > UNITS {
                keys = UNITS;
            }
            let mut new_high = high;
            let mut key = part;
            while key < keys {
                new_high = max(new_high, scores[key * group + head]);
                key += parts;
            }
            let rescale = (high - new_high).exp();
            weight *= rescale;
            sum *= Four::new(rescale);
            high = new_high;
            key = part;
            while key < keys {
                let probability = (scores[key * group + head] - high).exp();
                let page = slots[key] as usize * kv4 + kv_head * dim4 + dim;
                weight += probability;
                sum += v[page] * Four::new(probability);
                key += parts;
            }
        }
    }

    highs[unit] = high;
    weights[unit] = weight;
    sums[unit] = sum;
    sync_cube();
    if unit < outputs {
        let mut top = high;
        #[unroll]
        for other in 1..parts {
            top = max(top, highs[other * outputs + unit]);
        }
        let own = (high - top).exp();
        weight *= own;
        sum *= Four::new(own);
        #[unroll]
        for other in 1..parts {
            let from = other * outputs + unit;
            let rescale = (highs[from] - top).exp();
            weight += weights[from] * rescale;
            sum += sums[from] * Four::new(rescale);
        }
        out[CUBE_POS_X as usize * comptime!(shape.heads * dim4) + kv_head * outputs + unit] = sum / Four::new(weight);
    }
}

impl Attention {
    /// Whether the kernel can do it.
    ///
    /// # Errors
    /// Names what would be accepted.
    pub fn validate(&self) -> Result<(), String> {
        let outputs = self.heads / self.kv_heads.max(1) * self.head_width / 4;
        if outputs > UNITS {
            return Err(format!(
                "a group of {} query heads of {} is too wide for the GPU's attention kernel; accepted is up to {} together",
                self.heads / self.kv_heads.max(1),
                self.head_width,
                UNITS * 4
            ));
        }
        Ok(())
    }

    /// `out[row] = softmax(q·K ÷ √d)·V` over positions up to the row's own; `qkv` as [`Rope`](super::Rope) leaves it.
    #[allow(clippy::too_many_arguments)]
    pub fn launch(
        &self,
        client: &Client,
        step: &Buffer,
        rows: usize,
        qkv: &Buffer,
        k: &Buffer,
        v: &Buffer,
        out: &Buffer,
    ) {
        let count = CubeCount::Static(rows as u32, self.kv_heads as u32, 1);
        // SAFETY: one cube for each row and KV head; tables were checked against the pool.
        unsafe {
            attend_kernel::launch_unchecked(
                client,
                count,
                CubeDim::new_1d(UNITS as u32),
                step.scalars(),
                qkv.fours(),
                k.fours(),
                v.fours(),
                out.fours(),
                self.block_tokens,
                self.rows.code(),
                Heads { heads: self.heads, kv_heads: self.kv_heads, head_width: self.head_width },
            );
        }
    }
}
