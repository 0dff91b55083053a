//! Rows times a matrix: the loops in which nearly all time goes.
//!
//! A matrix is kept in *panels* of eight columns, `[columns ÷ 8, depth, 8]`, zero-padded, so that a product streams through it once and
//! in order. Rows are packed in *tiles* of four, `[depth, 4]`: one step of the innermost loop then reads 8 weights and 4 numbers,
//! side by side, for 32 multiply-adds, with 8 vector accumulators of four lanes and 16 registers to hold them (SSE2, SIMD128).
//! Tiles of fewer rows keep as many accumulators busy by taking several panels at once: with fewer, the additions
//! wait for each other.
//!
//! **Every output is one sum over the depth in ascending order, in one accumulator, whatever the number of rows.** Hence a row's
//! result does not depend on what else is in the batch, to the bit, and neither on host or browser.

use burn::backend::Flex;
use burn::tensor::{Device, Tensor, TensorData};
use burn_flex::FlexTensor;
use std::ops::Range;
use wide::f32x8;

/// Columns of a panel.
pub(crate) const PANEL: usize = 8;
/// Rows of a full tile.
const TILE: usize = 4;
/// Rows of the first tile, where there are more than [`TILE`]. The first tile brings the weights from memory for all that follow. With
/// four rows it does so much between two cache lines that the core's reordering window holds few of them, and waits for
/// memory; two rows on two panels at once run at memory's speed (22 GB/s here), and what they compute meanwhile is free.
const FIRST_TILE: usize = 2;
/// Panels that all tiles pass before the next ones are read: 32 KiB at depth 256, so that they stay in the first-level cache from
/// tile to tile (48 KiB on recent x86, 64 and more on Arm), and a tile of one row gets the four it wants.
const GROUP: usize = 4;

/// A matrix in panels, in the storage of a burn tensor.
#[derive(Debug)]
pub(crate) struct Panels {
    tensor: FlexTensor,
    depth: usize,
    columns: usize,
}

impl Panels {
    /// Packs a matrix given column by column: `at(depth, column)`.
    pub(crate) fn new(depth: usize, columns: usize, device: &Device, at: impl Fn(usize, usize) -> f32) -> Self {
        let panels = columns.div_ceil(PANEL);
        let mut data = Vec::with_capacity(panels * depth * PANEL);
        for panel in 0..panels {
            for k in 0..depth {
                let lane = |lane| {
                    let column = panel * PANEL + lane;
                    if column < columns { at(k, column) } else { 0.0 }
                };
                data.extend((0..PANEL).map(lane));
            }
        }
        let tensor = Tensor::<3>::from_data(TensorData::new(data, [panels, depth, PANEL]), device);
        Panels { tensor: flex(tensor), depth, columns }
    }

    /// Columns without padding.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// All panels.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.columns.div_ceil(PANEL)
    }
}

/// The storage of a tensor on the flex device.
///
/// # Panics
/// When the tensor lives elsewhere: CPU kernels are built on flex only, which their constructor checks.
pub(crate) fn flex<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    tensor.try_into_primitive::<Flex>().expect("a tensor on the flex device")
}

/// Rows packed for the innermost loop, tile by tile, `[depth, tile's rows]` each.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedRows {
    data: Vec<f32>,
    depth: usize,
    rows: usize,
}

impl PackedRows {
    /// Makes room for `rows` rows; their content is what it was.
    pub(crate) fn resize(&mut self, rows: usize, depth: usize) {
        (self.rows, self.depth) = (rows, depth);
        if self.data.len() < rows * depth {
            self.data.resize(rows * depth, 0.0);
        }
    }

    /// Rows of the first tile if it is special, else 0.
    fn first_tile(&self) -> usize {
        if self.rows > TILE { FIRST_TILE } else { 0 }
    }

    /// The tiles: first row, and rows.
    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (first, rows) = (self.first_tile(), self.rows);
        let others = (first..rows).step_by(TILE).map(move |row| (row, TILE.min(rows - row)));
        (first > 0).then_some((0, first)).into_iter().chain(others)
    }

    /// Where a row's numbers lie: the first one, and the distance from one to the next.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> (usize, usize) {
        let first = self.first_tile();
        if row < first {
            return (row, first);
        }
        let tile = first + (row - first) / TILE * TILE;
        (tile * self.depth + (row - tile), TILE.min(self.rows - tile))
    }

    /// A row's numbers, one by one.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, row: usize) -> impl Iterator<Item = &mut f32> {
        let (first, stride) = self.place(row);
        let end = first + (self.depth - 1) * stride + 1;
        self.data[first..end].iter_mut().step_by(stride)
    }

    /// All numbers, for writing at [`PackedRows::place`]s.
    #[inline(always)]
    pub(crate) fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    fn tile(&self, first_row: usize, rows: usize) -> &[f32] {
        &self.data[first_row * self.depth..(first_row + rows) * self.depth]
    }
}

/// Takes products as they come: `sums[u][r]` belongs to row `row + r` and panel `panel + u`.
pub(crate) trait Sink<const UNIT: usize> {
    /// Takes the sums of `R` rows and `UNIT` panels.
    fn take<const R: usize>(&mut self, row: usize, panel: usize, sums: [[f32x8; R]; UNIT]);
}

/// Multiplies packed rows with panels of a matrix, `UNIT` neighbouring panels (1 or 2) going to the sink together.
pub(crate) fn multiply<const UNIT: usize>(
    rows: &PackedRows,
    matrix: &Panels,
    panels: Range<usize>,
    sink: &mut impl Sink<UNIT>,
) {
    debug_assert!(rows.depth == matrix.depth && panels.end <= matrix.all().end && panels.len().is_multiple_of(UNIT));
    let size = matrix.depth * PANEL;
    let weights: &[f32] = &matrix.tensor.storage()[..matrix.all().end * size];
    for group in panels.clone().step_by(GROUP) {
        let group = group..panels.end.min(group + GROUP);
        let whole = group.len() == GROUP;
        let group = Group { first: group.start, weights: &weights[group.start * size..group.end * size], size };
        for (row, count) in rows.tiles() {
            let a = rows.tile(row, count);
            match count {
                1 if whole => together::<1, 4, UNIT>(a, &group, row, sink),
                2 if whole => together::<2, 2, UNIT>(a, &group, row, sink),
                1 => apart::<1, UNIT>(a, &group, row, sink),
                2 => apart::<2, UNIT>(a, &group, row, sink),
                3 => apart::<3, UNIT>(a, &group, row, sink),
                _ => apart::<TILE, UNIT>(a, &group, row, sink),
            }
        }
    }
}

/// Panels that stay in the cache from tile to tile.
struct Group<'a> {
    /// The first one's number.
    first: usize,
    weights: &'a [f32],
    /// Numbers of a panel.
    size: usize,
}

impl Group<'_> {
    fn panels(&self) -> usize {
        self.weights.len() / self.size
    }

    fn panel(&self, index: usize) -> &[[f32; PANEL]] {
        self.weights[index * self.size..(index + 1) * self.size].as_chunks().0
    }
}

/// A tile of `R` rows times a group, panel by panel.
#[inline(always)]
fn apart<const R: usize, const UNIT: usize>(a: &[f32], group: &Group<'_>, row: usize, sink: &mut impl Sink<UNIT>) {
    for unit in (0..group.panels()).step_by(UNIT) {
        let sums = std::array::from_fn(|u| one::<R>(a.as_chunks().0, group.panel(unit + u)));
        sink.take(row, group.first + unit, sums);
    }
}

/// A tile of `R` rows times a group, `P` panels at a time.
#[inline(always)]
fn together<const R: usize, const P: usize, const UNIT: usize>(
    a: &[f32],
    group: &Group<'_>,
    row: usize,
    sink: &mut impl Sink<UNIT>,
) {
    for first in (0..group.panels()).step_by(P) {
        let sums = several::<R, P>(a.as_chunks().0, std::array::from_fn(|p| group.panel(first + p)));
        for unit in (0..P).step_by(UNIT) {
            sink.take(row, group.first + first + unit, std::array::from_fn(|u| sums[unit + u]));
        }
    }
}

/// `R` rows times one panel. Not inlined, as a small function of its own gets its accumulators into registers everywhere.
#[inline(never)]
fn one<const R: usize>(a: &[[f32; R]], b: &[[f32; PANEL]]) -> [f32x8; R] {
    let mut sums = [f32x8::splat(0.0); R];
    for (a, &b) in a.iter().zip(b) {
        let b = f32x8::new(b);
        for r in 0..R {
            sums[r] += f32x8::splat(a[r]) * b;
        }
    }
    sums
}

/// `R` rows times `P` panels.
#[inline(never)]
fn several<const R: usize, const P: usize>(a: &[[f32; R]], b: [&[[f32; PANEL]]; P]) -> [[f32x8; R]; P] {
    let mut sums = [[f32x8::splat(0.0); R]; P];
    // Equal lengths, stated, so that the loop runs without bounds checks.
    let b = b.map(|b| &b[..a.len()]);
    for k in 0..a.len() {
        for p in 0..P {
            let b = f32x8::new(b[p][k]);
            for r in 0..R {
                sums[p][r] += f32x8::splat(a[k][r]) * b;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Table<'a> {
        out: &'a mut [f32],
        columns: usize,
    }

    impl<const UNIT: usize> Sink<UNIT> for Table<'_> {
        fn take<const R: usize>(&mut self, row: usize, panel: usize, sums: [[f32x8; R]; UNIT]) {
            for (u, sums) in sums.iter().enumerate() {
                for (r, sums) in sums.iter().enumerate() {
                    for (lane, sum) in sums.to_array().into_iter().enumerate() {
                        let column = (panel + u) * PANEL + lane;
                        if column < self.columns {
                            self.out[(row + r) * self.columns + column] = sum;
                        } else {
                            assert_eq!(sum, 0.0, "padding");
                        }
                    }
                }
            }
        }
    }

    fn product(rows: &[Vec<f32>], matrix: &Panels, unit: usize) -> Vec<f32> {
        let mut packed = PackedRows::default();
        packed.resize(rows.len(), rows[0].len());
        for (index, row) in rows.iter().enumerate() {
            packed.row_mut(index).zip(row).for_each(|(to, from)| *to = *from);
        }
        let mut out = vec![f32::NAN; rows.len() * matrix.columns()];
        let mut sink = Table { out: &mut out, columns: matrix.columns() };
        match unit {
            1 => multiply::<1>(&packed, matrix, matrix.all(), &mut sink),
            _ => multiply::<2>(&packed, matrix, matrix.all(), &mut sink),
        }
        out
    }

    #[test]
    fn every_row_count_gives_the_plain_product_to_the_bit() {
        let (depth, columns) = (24, 44);
        let entry = |k: usize, n: usize| ((k * 31 + n * 17) % 23) as f32 / 7.0 - 1.5;
        let matrix = Panels::new(depth, columns, &Device::flex(), entry);
        for count in 1..=9 {
            let rows: Vec<Vec<f32>> =
                (0..count).map(|r| (0..depth).map(|k| ((r * 13 + k * 5) % 19) as f32 / 3.0 - 3.0).collect()).collect();
            for unit in [1, 2] {
                let out = product(&rows, &matrix, unit);
                for (r, row) in rows.iter().enumerate() {
                    for n in 0..columns {
                        let plain = (0..depth).fold(0.0f32, |sum, k| sum + row[k] * entry(k, n));
                        assert_eq!(out[r * columns + n].to_bits(), plain.to_bits(), "row {r} of {count}, column {n}");
                    }
                }
            }
        }
    }
}
