//! Rows times a matrix: the loops in which nearly all time goes.
//!
//! A matrix is kept in *panels* of eight columns, `[columns ÷ 8, depth, 8]`, zero-padded, so that a product streams through it once and
//! in order. Rows are packed four at a time, `[depth, 4]`: one step of the innermost loop then reads 8 weights and 4 numbers,
//! side by side, for 32 multiply-adds, with 8 vector accumulators of four lanes and 16 registers to hold them (SSE2, SIMD128).
//! Leftover rows (a decode of one to three sequences has nothing else) keep eight accumulators busy by
//! taking several panels at once: with fewer, the additions wait for each other.
//!
//! **Every output is one sum over the depth in ascending order, in one accumulator, whatever the number of rows.** Hence a row's
//! result does not depend on what else is in the batch, to the bit, and neither on host or browser.

use super::touch::touch;
use burn::backend::Flex;
use burn::tensor::{Device, Tensor, TensorData};
use burn_flex::FlexTensor;
use std::ops::Range;
use wide::f32x8;

/// Columns of a panel.
pub(crate) const PANEL: usize = 8;
/// Rows of a full tile.
const TILE: usize = 4;
/// Panels that all tiles of a row block pass before the next ones are read: 32 KiB at depth 256, so that they stay in the first-level
/// cache from tile to tile (48 KiB on recent x86, 64 and more on Arm) and a leftover row gets its four at once.
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

/// Rows packed for the innermost loop: tiles of four, `[depth, 4]` each, then what is left, `[depth, rows % 4]`.
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

    /// Where a row's numbers lie: the first one, and the distance from one to the next.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> (usize, usize) {
        let tile = row / TILE * TILE;
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

/// Multiplies packed rows with panels of a matrix, `UNIT` neighbouring panels going to the sink together.
pub(crate) fn multiply<const UNIT: usize>(
    rows: &PackedRows,
    matrix: &Panels,
    panels: Range<usize>,
    sink: &mut impl Sink<UNIT>,
) {
    debug_assert!(rows.depth == matrix.depth && panels.end <= matrix.all().end && panels.len().is_multiple_of(UNIT));
    let full = rows.rows / TILE;
    let weights: &[f32] = matrix.tensor.storage();
    let panel = |index: usize| {
        let size = matrix.depth * PANEL;
        weights[index * size..(index + 1) * size].as_chunks::<PANEL>().0
    };
    let left = rows.rows % TILE;
    let rest = rows.tile(full * TILE, left);
    for group in panels.clone().step_by(GROUP) {
        let end = panels.end.min(group + GROUP);
        // The first of several tiles would wait for memory while the others' arithmetic leaves it idle. (A single tile streams by itself.)
        if full > 1 {
            let size = matrix.depth * PANEL;
            touch(&weights[group * size..end * size]);
        }
        for unit in (group..end).step_by(UNIT) {
            for tile in 0..full {
                let a = rows.tile(tile * TILE, TILE).as_chunks::<TILE>().0;
                let sums = std::array::from_fn(|u| one::<TILE>(a, panel(unit + u)));
                sink.take(tile * TILE, unit, sums);
            }
        }
        let row = full * TILE;
        match left {
            1 if end - group == GROUP => {
                let a = rest.as_chunks::<1>().0;
                let sums = several::<1, 4>(a, std::array::from_fn(|p| panel(group + p)));
                for unit in (0..GROUP).step_by(UNIT) {
                    sink.take(row, group + unit, std::array::from_fn(|u| sums[unit + u]));
                }
            }
            2 if end - group == GROUP => {
                let a = rest.as_chunks::<2>().0;
                for pair in (0..GROUP).step_by(2) {
                    let sums = several::<2, 2>(a, [panel(group + pair), panel(group + pair + 1)]);
                    for unit in (0..2).step_by(UNIT) {
                        sink.take(row, group + pair + unit, std::array::from_fn(|u| sums[unit + u]));
                    }
                }
            }
            _ => {
                for unit in (group..end).step_by(UNIT) {
                    match left {
                        1 => {
                            sink.take(row, unit, std::array::from_fn(|u| one::<1>(rest.as_chunks().0, panel(unit + u))))
                        }
                        2 => {
                            sink.take(row, unit, std::array::from_fn(|u| one::<2>(rest.as_chunks().0, panel(unit + u))))
                        }
                        3 => {
                            sink.take(row, unit, std::array::from_fn(|u| one::<3>(rest.as_chunks().0, panel(unit + u))))
                        }
                        _ => {}
                    }
                }
            }
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
