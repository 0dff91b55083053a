//! Matrix products with what stands before and after them: RMSNorm, residual, SwiGLU.
//!
//! Two kernels share an interface. [`few`](project_few) serves decode: eight rows, 64 columns a cube, the sum over inputs
//! split over eight groups of units, because eight rows alone would not wake a GPU; weights are read once, straight from memory.
//! [`many`](project_many) serves prefill: tiles of 64 × 64 through shared memory, sixteen sums of four in every unit.
//!
//! RMSNorm costs no pass of its own: the gain goes onto the inputs as they are loaded, the mean square is collected from
//! the same loads, and its root divides the finished sums.

use super::{Buffer, Four, Rows, row_count, row_of};
use cubecl::prelude::*;

/// What becomes of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fuse {
    /// It is stored.
    Store,
    /// It is added to what is there.
    Add,
    /// The matrix is gate and up side by side, and SiLU(gate) · up is stored.
    Gate,
}

/// The shape of a product and what is fused with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Projection {
    /// Width of the input, a multiple of 4.
    pub inputs: usize,
    /// Width of the output, a multiple of 4.
    pub outputs: usize,
    /// RMSNorm of the input, with this epsilon's bits.
    pub norm: Option<u32>,
    /// What becomes of the product.
    pub fuse: Fuse,
    /// Which rows.
    pub rows: Rows,
}

/// Units side by side: 16 × 4 columns a cube.
const LANES: usize = 16;
/// Rows of a cube in the kernel for few rows, all held by every unit.
const FEW: usize = 8;
/// Groups of units that share the sum over inputs there, added by three halvings. 128 units a cube.
const SLICES: usize = 8;
/// Groups of four inputs loaded at a time there: 8 rows × 128 inputs are 4 KiB of the 16 KiB every GPU has.
const DEPTH: usize = 32;
/// Rows of a cube in the kernel for many rows.
const MANY: usize = 64;
/// Rows a unit holds there; 256 units a cube, the most WebGPU promises.
const HELD: usize = 4;
/// Groups of four inputs loaded at a time there: with gate and up 12 KiB of shared memory.
const STEP: usize = 4;

/// From how many rows on tiles pay. Below, most of a tile would be empty; above, the kernel for few rows would read
/// the weights more than four times.
const TILES_FROM: usize = 33;

/// The row's index in the input, kept inside it: rows past the end compute a copy of the last one and store nothing.
#[cube]
fn source(step: &[u32], row: usize, #[comptime] rows: Rows) -> usize {
    row_of(step, min(row, row_count(step, rows) - 1), rows)
}

/// `1 ÷ √(mean square + ε)`.
#[cube]
fn inverse_root(squares: f32, #[comptime] p: Projection) -> f32 {
    let epsilon = f32::new(comptime!(f32::from_bits(p.norm.unwrap_or(0))));
    f32::new(1.0) / (squares * f32::new(comptime!(1.0 / p.inputs as f32)) + epsilon).sqrt()
}

/// SiLU(gate) · up. The bound keeps `exp` finite; SiLU is 0 to the last bit long before.
#[cube]
fn swiglu(gate: Four, up: Four) -> Four {
    let shrink = max(gate, Four::new(-80.0));
    gate / (Four::new(1.0) + (-shrink).exp()) * up
}

#[cube]
fn store(out: &mut [Four], at: usize, product: Four, second: Four, #[comptime] fuse: Fuse) {
    if comptime!(fuse == Fuse::Gate) {
        out[at] = swiglu(product, second);
    } else if comptime!(fuse == Fuse::Add) {
        out[at] += product;
    } else {
        out[at] = product;
    }
}

/// Adds all slices' sums into the first slice's.
#[cube]
fn fold(sums: &mut Array<Four>, parts: &mut Shared<[Four]>, slice: usize, lane: usize) {
    halve(sums, parts, slice, lane, comptime!(SLICES / 2));
    halve(sums, parts, slice, lane, comptime!(SLICES / 4));
    halve(sums, parts, slice, lane, comptime!(SLICES / 8));
}

/// Adds the sums of slices `half..2 · half` to those of slices `0..half`.
#[cube]
fn halve(sums: &mut Array<Four>, parts: &mut Shared<[Four]>, slice: usize, lane: usize, #[comptime] half: usize) {
    sync_cube();
    if slice >= half && slice < comptime!(2 * half) {
        #[unroll]
        for row in 0..FEW {
            parts[((slice - half) * FEW + row) * LANES + lane] = sums[row];
        }
    }
    sync_cube();
    if slice < half {
        #[unroll]
        for row in 0..FEW {
            sums[row] += parts[(slice * FEW + row) * LANES + lane];
        }
    }
}

/// Four inputs times their four rows of the matrix, four columns of it.
#[cube]
fn product(x: Four, w0: Four, w1: Four, w2: Four, w3: Four) -> Four {
    w0 * Four::new(x.extract(0usize))
        + w1 * Four::new(x.extract(1usize))
        + w2 * Four::new(x.extract(2usize))
        + w3 * Four::new(x.extract(3usize))
}

/// Adds four inputs' share of four columns to the sums of all rows.
#[cube]
fn gather(sums: &mut Array<Four>, xs: &Shared<[Four]>, matrix: &[Four], at: usize, stride: usize, depth: usize) {
    let w0 = matrix[at];
    let w1 = matrix[at + stride];
    let w2 = matrix[at + 2 * stride];
    let w3 = matrix[at + 3 * stride];
    #[unroll]
    for row in 0..FEW {
        sums[row] += product(xs[row * DEPTH + depth], w0, w1, w2, w3);
    }
}

/// The same from a tile in shared memory, to one row's sum.
#[cube]
fn share(x: Four, tile: &Shared<[Four]>, at: usize) -> Four {
    product(x, tile[at], tile[at + LANES], tile[at + 2 * LANES], tile[at + 3 * LANES])
}

#[cube(launch_unchecked)]
fn project_few(
    step: &[u32],
    input: &[Four],
    gain: &[Four],
    matrix: &[Four],
    out: &mut [Four],
    #[comptime] p: Projection,
) {
    let inputs4 = comptime!(p.inputs / 4);
    let outputs4 = comptime!(p.outputs / 4);
    let stride = comptime!(if p.fuse == Fuse::Gate { 2 * p.outputs / 4 } else { p.outputs / 4 });
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let slice = unit / LANES;
    let column = CUBE_POS_X as usize * LANES + lane;
    let first = CUBE_POS_Y as usize * FEW;

    let mut xs = Shared::<[Four]>::new_slice(comptime!(FEW * DEPTH));
    let mut parts = Shared::<[Four]>::new_slice(comptime!(SLICES / 2 * FEW * LANES));
    let mut squares = Shared::<[f32]>::new_slice(comptime!(SLICES * LANES));
    let mut sums = Array::<Four>::new(FEW);
    let mut seconds = Array::<Four>::new(FEW);
    #[unroll]
    for row in 0..FEW {
        sums[row] = Four::new(0.0);
        seconds[row] = Four::new(0.0);
    }

    // As a loader, the unit's slice is its row.
    let from = source(step, first + slice, p.rows) * inputs4;
    let mut square = f32::new(0.0);
    for chunk in 0..comptime!((p.inputs / 4).div_ceil(DEPTH)) {
        sync_cube();
        #[unroll]
        for half in 0..comptime!(DEPTH / LANES) {
            let depth = half * LANES + lane;
            let k = chunk * DEPTH + depth;
            if k < inputs4 {
                let mut x = input[from + k];
                if comptime!(p.norm.is_some()) {
                    square += x.dot(x);
                    x *= gain[k];
                }
                xs[slice * DEPTH + depth] = x;
            }
        }
        sync_cube();
        #[unroll]
        for turn in 0..comptime!(DEPTH / SLICES) {
            let depth = slice * comptime!(DEPTH / SLICES) + turn;
            let k = chunk * DEPTH + depth;
            if k < inputs4 && column < outputs4 {
                let at = k * 4 * stride + column;
                gather(&mut sums, &xs, matrix, at, stride, depth);
                if comptime!(p.fuse == Fuse::Gate) {
                    gather(&mut seconds, &xs, matrix, at + outputs4, stride, depth);
                }
            }
        }
    }

    squares[unit] = square;
    fold(&mut sums, &mut parts, slice, lane);
    if comptime!(p.fuse == Fuse::Gate) {
        fold(&mut seconds, &mut parts, slice, lane);
    }
    if slice == 0 && column < outputs4 {
        let rows = row_count(step, p.rows);
        #[unroll]
        for row in 0..FEW {
            if first + row < rows {
                let mut scale = f32::new(1.0);
                if comptime!(p.norm.is_some()) {
                    let mut total = f32::new(0.0);
                    for other in 0..LANES {
                        total += squares[row * LANES + other];
                    }
                    scale = inverse_root(total, p);
                }
                let scale = Four::new(scale);
                store(out, (first + row) * outputs4 + column, sums[row] * scale, seconds[row] * scale, p.fuse);
            }
        }
    }
}

#[cube(launch_unchecked)]
fn project_many(
    step: &[u32],
    input: &[Four],
    gain: &[Four],
    matrix: &[Four],
    out: &mut [Four],
    #[comptime] p: Projection,
) {
    let inputs4 = comptime!(p.inputs / 4);
    let outputs4 = comptime!(p.outputs / 4);
    let stride = comptime!(if p.fuse == Fuse::Gate { 2 * p.outputs / 4 } else { p.outputs / 4 });
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let band = unit / LANES;
    let column = CUBE_POS_X as usize * LANES + lane;
    let first = CUBE_POS_Y as usize * MANY;

    let mut xs = Shared::<[Four]>::new_slice(comptime!(MANY * STEP));
    let mut ws = Shared::<[Four]>::new_slice(comptime!(4 * STEP * LANES));
    let mut us = Shared::<[Four]>::new_slice(comptime!(if p.fuse == Fuse::Gate { 4 * STEP * LANES } else { 1 }));
    let mut squares = Shared::<[f32]>::new_slice(comptime!(MANY * STEP));
    let mut sums = Array::<Four>::new(HELD);
    let mut seconds = Array::<Four>::new(HELD);
    #[unroll]
    for row in 0..HELD {
        sums[row] = Four::new(0.0);
        seconds[row] = Four::new(0.0);
    }

    // As a loader of inputs the unit has one group of four of one row; as a loader of weights, four columns of one input.
    let loaded = unit % STEP;
    let from = source(step, first + unit / STEP, p.rows) * inputs4;
    let mut square = f32::new(0.0);
    for chunk in 0..comptime!((p.inputs / 4).div_ceil(STEP)) {
        sync_cube();
        let k = chunk * STEP + loaded;
        let mut x = Four::new(0.0);
        if k < inputs4 {
            x = input[from + k];
            if comptime!(p.norm.is_some()) {
                square += x.dot(x);
                x *= gain[k];
            }
        }
        xs[unit] = x;
        let depth = chunk * comptime!(4 * STEP) + band;
        let mut w = Four::new(0.0);
        let mut u = Four::new(0.0);
        if depth < p.inputs && column < outputs4 {
            w = matrix[depth * stride + column];
            if comptime!(p.fuse == Fuse::Gate) {
                u = matrix[depth * stride + outputs4 + column];
            }
        }
        ws[unit] = w;
        if comptime!(p.fuse == Fuse::Gate) {
            us[unit] = u;
        }
        sync_cube();
        for four in 0..STEP {
            #[unroll]
            for row in 0..HELD {
                let x = xs[(band * HELD + row) * STEP + four];
                let at = four * comptime!(4 * LANES) + lane;
                sums[row] += share(x, &ws, at);
                if comptime!(p.fuse == Fuse::Gate) {
                    seconds[row] += share(x, &us, at);
                }
            }
        }
    }

    squares[unit] = square;
    sync_cube();
    if column < outputs4 {
        let rows = row_count(step, p.rows);
        #[unroll]
        for row in 0..HELD {
            let index = band * HELD + row;
            if first + index < rows {
                let mut scale = f32::new(1.0);
                if comptime!(p.norm.is_some()) {
                    let mut total = f32::new(0.0);
                    for other in 0..STEP {
                        total += squares[index * STEP + other];
                    }
                    scale = inverse_root(total, p);
                }
                let scale = Four::new(scale);
                store(out, (first + index) * outputs4 + column, sums[row] * scale, seconds[row] * scale, p.fuse);
            }
        }
    }
}

impl Projection {
    /// `out = fuse(norm(input) · matrix)` over `rows` rows, as many as [`Projection::rows`] are.
    #[allow(clippy::too_many_arguments)]
    pub fn launch(
        &self,
        client: &Client,
        step: &Buffer,
        rows: usize,
        input: &Buffer,
        gain: &Buffer,
        matrix: &Buffer,
        out: &Buffer,
    ) {
        let columns = self.outputs.div_ceil(4 * LANES) as u32;
        let arguments = (step.scalars(), input.fours(), gain.fours(), matrix.fours(), out.fours());
        // SAFETY: the kernels guard rows and columns; `source` stays inside the input.
        unsafe {
            if rows < TILES_FROM {
                let count = CubeCount::Static(columns, rows.div_ceil(FEW) as u32, 1);
                let dim = CubeDim::new_1d((SLICES * LANES) as u32);
                let (step, input, gain, matrix, out) = arguments;
                project_few::launch_unchecked(client, count, dim, step, input, gain, matrix, out, *self);
            } else {
                let count = CubeCount::Static(columns, rows.div_ceil(MANY) as u32, 1);
                let dim = CubeDim::new_1d((MANY / HELD * LANES) as u32);
                let (step, input, gain, matrix, out) = arguments;
                project_many::launch_unchecked(client, count, dim, step, input, gain, matrix, out, *self);
            }
        }
    }
}
