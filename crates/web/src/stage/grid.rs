//! The KV block grid of a replica: one small square a block.
//!
//! Colour is the owner; full means a sequence holds it, a stripe that two or more do; pale is content kept for reuse, an outline
//! is empty. A mark in the corner says that cached content was evicted from here a moment ago.

use super::canvas::surface_kept;
use crate::palette::Scheme;
use servelab_spec::frame::BlockCell;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

/// Cells are between these many pixels, gap included. Below three they cannot be told apart, above nine the grid only
/// gets bigger.
const LARGEST: f64 = 9.0;
const SMALLEST: f64 = 3.0;

/// Height that a grid aims at, CSS pixels.
const HEIGHT: f64 = 56.0;

/// How pale reusable content is, and how thick its frame, CSS pixels.
const PALE: f64 = 0.22;
const FRAME: f64 = 0.9;

/// Width of the frame that marks an eviction, CSS pixels.
const MARK: f64 = 1.5;

/// How faint an empty block is: there are many, and nothing happens in them.
const EMPTY: f64 = 0.45;

/// A grid and what it remembers of the frames before.
#[derive(Default)]
pub(crate) struct Grid {
    blocks: Vec<u16>,
    /// Virtual time at which cached content was last evicted, by block; negative for never.
    evicted_at: Vec<f64>,
    t_s: f64,
    /// What each square on the canvas shows, and whether it is marked.
    drawn: Vec<(u16, bool)>,
    drawn_as: Option<(Layout, &'static Scheme)>,
}

/// How blocks lie on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    pub cell: f64,
    pub columns: usize,
    pub rows: usize,
    /// Blocks that one square stands for.
    pub each: usize,
}

impl Layout {
    /// The largest cells with which `blocks` fit `width`.
    pub(crate) fn of(blocks: usize, width: f64) -> Layout {
        let fit = |cell: f64| {
            let columns = (width / cell).floor().max(1.0) as usize;
            (columns, blocks.div_ceil(columns))
        };
        let mut cell = LARGEST;
        while cell > SMALLEST {
            if fit(cell).1 as f64 * cell <= HEIGHT {
                break;
            }
            cell -= 0.5;
        }
        let (columns, rows) = fit(cell);
        // Very large pools: a square stands for several blocks rather than the grid growing past the card.
        let most_rows = (2.0 * HEIGHT / SMALLEST) as usize;
        let each = if rows > most_rows { blocks.div_ceil(columns * most_rows) } else { 1 };
        Layout { cell, columns, rows: blocks.div_ceil(each).div_ceil(columns), each }
    }

    /// The block at a point of the canvas.
    pub(crate) fn block_at(&self, x: f64, y: f64) -> Option<usize> {
        let column = (x / self.cell).floor();
        if x < 0.0 || y < 0.0 || column as usize >= self.columns {
            return None;
        }
        Some(((y / self.cell).floor() as usize * self.columns + column as usize) * self.each)
    }
}

impl Grid {
    /// Draws `blocks` as of `t_s`; evictions stay marked for `fade_s` of virtual time.
    pub(crate) fn draw(
        &mut self,
        canvas: &HtmlCanvasElement,
        width: f64,
        blocks: &[u16],
        t_s: f64,
        fade_s: f64,
        scheme: &'static Scheme,
    ) {
        self.remember(blocks, t_s);
        let layout = Layout::of(blocks.len(), width);
        let height = (layout.rows as f64 * layout.cell).max(layout.cell);
        let Some((area, resized)) = surface_kept(canvas, width, height) else { return };
        if resized || self.drawn_as.replace((layout, scheme)) != Some((layout, scheme)) {
            area.context.clear_rect(0.0, 0.0, area.width, area.height);
            self.drawn.clear();
        }
        let side = if layout.cell >= 4.0 { layout.cell - 1.0 } else { layout.cell - 0.5 };
        for (at, &bits) in blocks.iter().step_by(layout.each).enumerate() {
            let when = self.evicted_at.get(at * layout.each).copied().filter(|when| *when >= 0.0);
            let age = when.map(|when| t_s - when).filter(|age| (0.0..=fade_s).contains(age));
            let before = self.drawn.get(at).copied();
            // A mark fades from picture to picture, all else stays as it is.
            if before == Some((bits, false)) && age.is_none() {
                continue;
            }
            let x = (at % layout.columns) as f64 * layout.cell;
            let y = (at / layout.columns) as f64 * layout.cell;
            match self.drawn.get_mut(at) {
                Some(drawn) => {
                    *drawn = (bits, age.is_some());
                    area.context.clear_rect(x - 0.25, y - 0.25, side + 0.5, side + 0.5);
                }
                None => self.drawn.push((bits, age.is_some())),
            }
            draw_cell(&area.context, BlockCell::unpack(bits), x, y, side, scheme);
            if let Some(age) = age {
                mark_eviction(&area.context, x, y, side, 1.0 - age / fade_s.max(1e-12), scheme);
            }
        }
        self.drawn.truncate(blocks.len().div_ceil(layout.each));
    }

    /// Compares with the frame before. Going back in time forgets what has not happened yet.
    fn remember(&mut self, blocks: &[u16], t_s: f64) {
        if self.blocks.len() != blocks.len() {
            self.evicted_at = vec![-1.0; blocks.len()];
        } else if t_s < self.t_s {
            self.evicted_at.iter_mut().filter(|when| **when > t_s).for_each(|when| *when = -1.0);
        } else {
            for ((before, now), when) in self.blocks.iter().zip(blocks).zip(&mut self.evicted_at) {
                let (before, now) = (BlockCell::unpack(*before), BlockCell::unpack(*now));
                if before.cached && !before.used && (!now.cached || before.tenant != now.tenant) {
                    *when = t_s;
                }
            }
        }
        self.blocks.clear();
        self.blocks.extend_from_slice(blocks);
        self.t_s = t_s;
    }

    /// The block under a point, in words for a tooltip.
    pub(crate) fn describe_at(&self, width: f64, x: f64, y: f64) -> Option<String> {
        let block = Layout::of(self.blocks.len(), width).block_at(x, y)?;
        Some(crate::text::block_label(block, BlockCell::unpack(*self.blocks.get(block)?)))
    }
}

fn draw_cell(context: &CanvasRenderingContext2d, cell: BlockCell, x: f64, y: f64, side: f64, scheme: &Scheme) {
    match cell.tenant {
        Some(tenant) if cell.used || cell.cached => {
            let colour = scheme.tenant(tenant);
            context.set_fill_style_str(colour);
            if cell.used {
                context.fill_rect(x, y, side, side);
            } else {
                // Pale alone would fall under the contrast that marks need, so the frame stays full.
                context.set_global_alpha(PALE);
                context.fill_rect(x, y, side, side);
                context.set_global_alpha(1.0);
                context.set_stroke_style_str(colour);
                context.set_line_width(FRAME);
                context.stroke_rect(x + FRAME / 2.0, y + FRAME / 2.0, side - FRAME, side - FRAME);
            }
            if cell.shared {
                context.set_stroke_style_str(scheme.surface);
                context.set_line_width((side / 5.0).max(0.8));
                context.begin_path();
                context.move_to(x, y + side);
                context.line_to(x + side, y);
                context.stroke();
            }
        }
        _ => {
            context.set_fill_style_str(scheme.cost);
            context.set_global_alpha(EMPTY);
            let inset = side / 3.0;
            context.fill_rect(x + inset, y + inset, side - 2.0 * inset, side - 2.0 * inset);
            context.set_global_alpha(1.0);
        }
    }
}

fn mark_eviction(context: &CanvasRenderingContext2d, x: f64, y: f64, side: f64, strength: f64, scheme: &Scheme) {
    context.set_global_alpha(strength.clamp(0.25, 1.0));
    context.set_stroke_style_str(scheme.waiting);
    // Inside its square, so that no neighbour has to be drawn anew when it fades.
    context.set_line_width(MARK);
    context.stroke_rect(x + MARK / 2.0, y + MARK / 2.0, side - MARK, side - MARK);
    context.set_global_alpha(1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_square() {
        for blocks in [1, 7, 384, 1000, 4096, 100_000, 1_000_000] {
            for width in [120.0, 290.0, 600.0] {
                let layout = Layout::of(blocks, width);
                assert!(layout.columns * layout.rows * layout.each >= blocks, "{blocks} blocks in {width} px");
                assert!(layout.columns as f64 * layout.cell <= width, "{blocks} blocks in {width} px");
                assert!(layout.rows as f64 * layout.cell <= 3.0 * HEIGHT, "{blocks} blocks in {width} px");
            }
        }
    }

    #[test]
    fn the_square_under_the_pointer_is_the_block() {
        let layout = Layout::of(384, 300.0);
        let at = layout.columns + 3;
        let point = (3.5 * layout.cell, 1.5 * layout.cell);
        assert_eq!(layout.block_at(point.0, point.1), Some(at));
        assert_eq!(layout.block_at(-1.0, 2.0), None);
        assert_eq!(layout.block_at(layout.columns as f64 * layout.cell + 1.0, 2.0), None);
    }

    #[test]
    fn evictions_are_seen_once_and_forgotten_on_the_way_back() {
        let kept = BlockCell { tenant: Some(1), used: false, shared: false, cached: true }.pack();
        let held = BlockCell { tenant: Some(2), used: true, shared: false, cached: true }.pack();
        let mut grid = Grid::default();
        grid.remember(&[kept, held], 1.0);
        grid.remember(&[held, 0], 2.0);
        assert_eq!(grid.evicted_at, [2.0, -1.0], "a freed block is no eviction, overwritten content is");
        grid.remember(&[kept, held], 1.0);
        assert_eq!(grid.evicted_at, [-1.0, -1.0]);
    }
}
