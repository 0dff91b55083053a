//! Copies of rows: embedding look-up, and the sampled rows one after the other.

use super::{Buffer, Four, SAMPLED, flat, row_of};
use crate::gpu::step::{HEADER, ROW, ROWS, SAMPLES, TOKEN};
use cubecl::prelude::*;

#[cube(launch_unchecked)]
fn embed_kernel(step: &[u32], table: &[Four], x: &mut [Four], #[comptime] width4: usize) {
    let row = ABSOLUTE_POS / width4;
    if row < step[ROWS] as usize {
        let token = step[HEADER + ROW * row + TOKEN] as usize;
        x[ABSOLUTE_POS] = table[token * width4 + ABSOLUTE_POS % width4];
    }
}

#[cube(launch_unchecked)]
fn pack_kernel(step: &[u32], x: &[Four], packed: &mut [Four], #[comptime] width4: usize) {
    let row = ABSOLUTE_POS / width4;
    if row < step[SAMPLES] as usize {
        packed[ABSOLUTE_POS] = x[row_of(step, row, SAMPLED) * width4 + ABSOLUTE_POS % width4];
    }
}

/// `x[row] = table[token of row]` for all `rows`, `width` floats each.
pub fn embed(client: &Client, step: &Buffer, rows: usize, table: &Buffer, x: &Buffer, width: usize) {
    let (count, dim) = flat(rows * width / 4);
    // SAFETY: units past the last row do nothing; tokens were checked against the vocabulary.
    unsafe {
        embed_kernel::launch_unchecked(client, count, dim, step.scalars(), table.fours(), x.fours(), width / 4);
    }
}

/// `packed[i] = x[i-th sampled row]` for all `samples`, `width` floats each.
pub fn pack(client: &Client, step: &Buffer, samples: usize, x: &Buffer, packed: &Buffer, width: usize) {
    let (count, dim) = flat(samples * width / 4);
    // SAFETY: units past the last row do nothing; sampled rows are rows of the batch.
    unsafe {
        pack_kernel::launch_unchecked(client, count, dim, step.scalars(), x.fours(), packed.fours(), width / 4);
    }
}
