//! Matrix products with what stands before and after them: RMSNorm, residual, SwiGLU.
//!
//! Two kernels share an interface. [`few`](project_few) serves decode: four rows, 64 columns a cube, the sum over inputs
//! split over eight groups of units, because a few rows alone would not wake a GPU; weights are read straight from
//! memory, once for every four rows. [`many`](project_many) serves prefill: tiles of 64 × 64 through shared memory, four rows of four columns in every
//! unit.
//!
//! RMSNorm costs no pass of its own: the gain goes onto the inputs as they are loaded, the mean square is collected from
//! the same loads, and its root divides the finished sums.
//!
//! Sizes are arguments and loops over them are left rolled, so that one pipeline serves every matrix of a kind: the browser compiles a pipeline in
//! 10 ms to a second, and a visitor waits for it. Only what a unit holds in registers is unrolled.

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    /// Width of the input, a multiple of 4.
    pub inputs: usize,
    /// Width of the output, a multiple of 4.
    pub outputs: usize,
    /// RMSNorm of the input, with this epsilon.
    pub norm: Option<f32>,
    /// What becomes of the product.
    pub fuse: Fuse,
    /// Which rows.
    pub rows: Rows,
}

/// What a pipeline is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    norm: bool,
    fuse: Fuse,
}

/// Units side by side: 16 × 4 columns a cube.
const LANES: usize = 16;
/// Rows of a cube in the kernel for few rows, all held by every unit.
const FEW: usize = 4;
/// Groups of units that share the sum over inputs there: 128 units a cube. Their sums take 8 of the 16 KiB of shared memory that every
/// GPU has.
const SLICES: usize = 8;
/// Groups of four inputs loaded at a time there, one by each unit.
const DEPTH: usize = SLICES * LANES / FEW;
/// Rows of a cube in the kernel for many rows.
const MANY: usize = 64;
/// Rows a unit holds there; 256 units a cube, the most WebGPU promises.
const HELD: usize = 4;
/// Groups of four inputs loaded at a time there, one by each unit; with gate and up 12 KiB of shared memory.
const STEP: usize = MANY / HELD * LANES / MANY;

/// From how many rows on tiles pay. Below, most of a tile would be empty; above, the kernel for few rows would read
/// the weights more than eight times.
const TILES_FROM: usize = 33;

/// The row's index in the input, kept inside it: rows past the end compute a copy of the last one and store nothing.
#[cube]
fn source(step: &[u32], row: usize, rows: u32) -> usize {
    row_of(step, min(row, row_count(step, rows) - 1), rows)
}

/// `1 ÷ √(mean square + ε)`.
#[cube]
fn inverse_root(squares: f32, inputs4: usize, epsilon: f32) -> f32 {
    f32::new(1.0) / (squares / f32::cast_from(inputs4 * 4) + epsilon).sqrt()
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

/// Four inputs times their four rows of the matrix, four columns of it.
#[cube]
fn product(x: Four, w0: Four, w1: Four, w2: Four, w3: Four) -> Four {
    w0 * Four::new(x.extract(0usize))
        + w1 * Four::new(x.extract(1usize))
        + w2 * Four::new(x.extract(2usize))
        + w3 * Four::new(x.extract(3usize))
}

/// Adds four inputs' share to the sums of a unit's rows, whose inputs lie `pitch` apart from `x` on.
#[cube]
fn share(
    sums: &mut Array<Four>,
    xs: &Shared<[Four]>,
    x: usize,
    pitch: usize,
    w0: Four,
    w1: Four,
    w2: Four,
    w3: Four,
    #[comptime] held: usize,
) {
    #[unroll]
    for row in 0..held {
        sums[row] += product(xs[x + row * pitch], w0, w1, w2, w3);
    }
}

/// All slices' sums of the row that this unit finishes: its slice's.
#[cube]
fn fold(sums: &Array<Four>, parts: &mut Shared<[Four]>, slice: usize, lane: usize) -> Four {
    sync_cube();
    #[unroll]
    for row in 0..FEW {
        parts[(slice * FEW + row) * LANES + lane] = sums[row];
    }
    sync_cube();
    let mut sum = Four::new(0.0);
    if slice < FEW {
        for other in 0..SLICES {
            sum += parts[(other * FEW + slice) * LANES + lane];
        }
    }
    sum
}

#[cube]
fn zeros(#[comptime] len: usize) -> Array<Four> {
    let mut sums = Array::<Four>::new(len);
    #[unroll]
    for row in 0..len {
        sums[row] = Four::new(0.0);
    }
    sums
}

#[cube(launch_unchecked)]
fn project_few(
    step: &[u32],
    input: &[Four],
    gain: &[Four],
    matrix: &[Four],
    out: &mut [Four],
    inputs4: usize,
    outputs4: usize,
    stride: usize,
    epsilon: f32,
    rows: u32,
    #[comptime] kind: Kind,
) {
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let slice = unit / LANES;
    let column = CUBE_POS_X as usize * LANES + lane;
    let first = CUBE_POS_Y as usize * FEW;

    let mut xs = Shared::<[Four]>::new_slice(comptime!(FEW * DEPTH));
    let mut parts = Shared::<[Four]>::new_slice(comptime!(SLICES * FEW * LANES));
    let mut squares = Shared::<[f32]>::new_slice(comptime!(FEW * DEPTH));
    let mut sums = zeros(FEW);
    let mut seconds = zeros(comptime!(if kind.fuse == Fuse::Gate { FEW } else { 1 }));

    let loaded = unit % DEPTH;
    let from = source(step, first + unit / DEPTH, rows) * inputs4;
    let mut square = f32::new(0.0);
    let chunks = (inputs4 + comptime!(DEPTH - 1)) / DEPTH;
    for chunk in 0..chunks {
        let base = chunk * DEPTH;
        sync_cube();
        if base + loaded < inputs4 {
            let mut x = input[from + base + loaded];
            if comptime!(kind.norm) {
                square += x.dot(x);
                x *= gain[base + loaded];
            }
            xs[unit] = x;
        }
        sync_cube();
        if column < outputs4 {
            for turn in 0..comptime!(DEPTH / SLICES) {
                let depth = slice * comptime!(DEPTH / SLICES) + turn;
                if base + depth < inputs4 {
                    let at = (base + depth) * 4 * stride + column;
                    let (w0, w1) = (matrix[at], matrix[at + stride]);
                    let (w2, w3) = (matrix[at + 2 * stride], matrix[at + 3 * stride]);
                    share(&mut sums, &xs, depth, DEPTH, w0, w1, w2, w3, FEW);
                    if comptime!(kind.fuse == Fuse::Gate) {
                        let at = at + outputs4;
                        let (u0, u1) = (matrix[at], matrix[at + stride]);
                        let (u2, u3) = (matrix[at + 2 * stride], matrix[at + 3 * stride]);
                        share(&mut seconds, &xs, depth, DEPTH, u0, u1, u2, u3, FEW);
                    }
                }
            }
        }
    }

    squares[unit] = square;
    let mut sum = fold(&sums, &mut parts, slice, lane);
    let mut second = sum;
    if comptime!(kind.fuse == Fuse::Gate) {
        second = fold(&seconds, &mut parts, slice, lane);
    }
    if slice < FEW && column < outputs4 && first + slice < row_count(step, rows) {
        if comptime!(kind.norm) {
            let mut total = f32::new(0.0);
            for other in 0..DEPTH {
                total += squares[slice * DEPTH + other];
            }
            let scale = Four::new(inverse_root(total, inputs4, epsilon));
            sum *= scale;
            second *= scale;
        }
        store(out, (first + slice) * outputs4 + column, sum, second, kind.fuse);
    }
}

#[cube(launch_unchecked)]
fn project_many(
    step: &[u32],
    input: &[Four],
    gain: &[Four],
    matrix: &[Four],
    out: &mut [Four],
    inputs4: usize,
    outputs4: usize,
    stride: usize,
    epsilon: f32,
    rows: u32,
    #[comptime] kind: Kind,
) {
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let band = unit / LANES;
    let column = CUBE_POS_X as usize * LANES + lane;
    let first = CUBE_POS_Y as usize * MANY;

    let tile = comptime!(4 * STEP * LANES);
    let mut xs = Shared::<[Four]>::new_slice(comptime!(MANY * STEP));
    let mut ws = Shared::<[Four]>::new_slice(tile);
    let mut us = Shared::<[Four]>::new_slice(comptime!(if kind.fuse == Fuse::Gate { tile } else { 1 }));
    let mut squares = Shared::<[f32]>::new_slice(comptime!(MANY * STEP));
    let mut sums = zeros(HELD);
    let mut seconds = zeros(comptime!(if kind.fuse == Fuse::Gate { HELD } else { 1 }));

    // As a loader of inputs the unit has one group of four of one row; as a loader of weights, four columns of one input.
    let loaded = unit % STEP;
    let from = source(step, first + unit / STEP, rows) * inputs4;
    let mut square = f32::new(0.0);
    let chunks = (inputs4 + comptime!(STEP - 1)) / STEP;
    for chunk in 0..chunks {
        sync_cube();
        let k = chunk * STEP + loaded;
        let mut x = Four::new(0.0);
        if k < inputs4 {
            x = input[from + k];
            if comptime!(kind.norm) {
                square += x.dot(x);
                x *= gain[k];
            }
        }
        xs[unit] = x;
        let depth = chunk * comptime!(4 * STEP) + band;
        let mut w = Four::new(0.0);
        let mut u = Four::new(0.0);
        if depth < inputs4 * 4 && column < outputs4 {
            w = matrix[depth * stride + column];
            if comptime!(kind.fuse == Fuse::Gate) {
                u = matrix[depth * stride + outputs4 + column];
            }
        }
        ws[unit] = w;
        if comptime!(kind.fuse == Fuse::Gate) {
            us[unit] = u;
        }
        sync_cube();
        for four in 0..STEP {
            let x = band * comptime!(HELD * STEP) + four;
            let at = four * comptime!(4 * LANES) + lane;
            let (w0, w1) = (ws[at], ws[at + LANES]);
            let (w2, w3) = (ws[at + comptime!(2 * LANES)], ws[at + comptime!(3 * LANES)]);
            share(&mut sums, &xs, x, STEP, w0, w1, w2, w3, HELD);
            if comptime!(kind.fuse == Fuse::Gate) {
                let (u0, u1) = (us[at], us[at + LANES]);
                let (u2, u3) = (us[at + comptime!(2 * LANES)], us[at + comptime!(3 * LANES)]);
                share(&mut seconds, &xs, x, STEP, u0, u1, u2, u3, HELD);
            }
        }
    }

    squares[unit] = square;
    sync_cube();
    let count = row_count(step, rows);
    if column < outputs4 {
        #[unroll]
        for row in 0..HELD {
            let index = band * HELD + row;
            if first + index < count {
                let mut sum = sums[row];
                let mut second = sum;
                if comptime!(kind.fuse == Fuse::Gate) {
                    second = seconds[row];
                }
                if comptime!(kind.norm) {
                    let mut total = f32::new(0.0);
                    for other in 0..STEP {
                        total += squares[index * STEP + other];
                    }
                    let scale = Four::new(inverse_root(total, inputs4, epsilon));
                    sum *= scale;
                    second *= scale;
                }
                store(out, (first + index) * outputs4 + column, sum, second, kind.fuse);
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
        let few = rows < TILES_FROM;
        let (height, units) = if few { (FEW, SLICES * LANES) } else { (MANY, MANY / HELD * LANES) };
        let count = CubeCount::Static(self.outputs.div_ceil(4 * LANES) as u32, rows.div_ceil(height) as u32, 1);
        let dim = CubeDim::new_1d(units as u32);
        let (inputs4, outputs4) = (self.inputs / 4, self.outputs / 4);
        let stride = if self.fuse == Fuse::Gate { 2 * outputs4 } else { outputs4 };
        let (epsilon, which) = (self.norm.unwrap_or(0.0), self.rows.code());
        let kind = Kind { norm: self.norm.is_some(), fuse: self.fuse };
        let (step, input, gain) = (step.scalars(), input.fours(), gain.fours());
        let (matrix, out) = (matrix.fours(), out.fours());
        // SAFETY: the kernels guard rows and columns; `source` stays inside the input.
        unsafe {
            if few {
                project_few::launch_unchecked(
                    client, count, dim, step, input, gain, matrix, out, inputs4, outputs4, stride, epsilon, which, kind,
                );
            } else {
                project_many::launch_unchecked(
                    client, count, dim, step, input, gain, matrix, out, inputs4, outputs4, stride, epsilon, which, kind,
                );
            }
        }
    }
}
