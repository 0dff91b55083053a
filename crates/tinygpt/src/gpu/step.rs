//! A batch as the one buffer that every kernel reads.
//!
//! ```text
//! word 0      rows
//!      1      sampled rows
//!      2      where the sampled rows' indices start
//!      3      spare
//! 4 + 4·row   token, position, where the row's block table starts (in words of this buffer), slot
//! ...         indices of the sampled rows
//! ...         block tables
//! ```
//!
//! Counts and offsets travel in the buffer, not as kernel arguments: the runtime caches a uniform for each distinct set of
//! arguments, and arguments that change every step would make it write one for every launch.

use crate::batch::Batch;

/// Words before the rows.
pub(crate) const HEADER: usize = 4;
/// Words of a row.
pub(crate) const ROW: usize = 4;
/// Header word: number of rows.
pub(crate) const ROWS: usize = 0;
/// Header word: number of sampled rows.
pub(crate) const SAMPLES: usize = 1;
/// Header word: where the sampled rows' indices start.
pub(crate) const SAMPLED_AT: usize = 2;
/// Row word: token.
pub(crate) const TOKEN: usize = 0;
/// Row word: position in its sequence.
pub(crate) const POSITION: usize = 1;
/// Row word: where its block table starts.
pub(crate) const TABLE: usize = 2;
/// Row word: slot its K and V go to.
pub(crate) const SLOT: usize = 3;

/// Encodes a batch into `words`, which it clears first. What the batch says was checked when it was filled: a kernel
/// has no way to complain.
pub(crate) fn encode(batch: &Batch, words: &mut Vec<u32>) {
    let rows = batch.rows();
    let sampled_at = HEADER + ROW * rows;
    let tables_at = sampled_at + batch.sampled.len();
    words.clear();
    words.reserve(tables_at + batch.tables.len());
    words.extend([rows as u32, batch.sampled.len() as u32, sampled_at as u32, 0]);
    for span in &batch.spans {
        let table = (tables_at + span.table_at) as u32;
        for row in span.row..span.row + span.len {
            words.extend([batch.tokens[row], batch.positions[row], table, batch.slots[row]]);
        }
    }
    words.extend_from_slice(&batch.sampled);
    words.extend_from_slice(&batch.tables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Span;

    #[test]
    fn a_mixed_batch_by_hand() {
        let batch = Batch {
            tokens: vec![11, 12, 13, 14],
            positions: vec![3, 4, 5, 8],
            slots: vec![31, 8, 9, 20],
            spans: vec![
                Span { row: 0, len: 3, start: 3, table_at: 0, table_len: 2 },
                Span { row: 3, len: 1, start: 8, table_at: 2, table_len: 3 },
            ],
            tables: vec![7, 2, 9, 0, 5],
            sampled: vec![3],
        };
        let mut words = vec![99];
        encode(&batch, &mut words);
        let expected =
            [[4, 1, 20, 0], [11, 3, 21, 31], [12, 4, 21, 8], [13, 5, 21, 9], [14, 8, 23, 20], [3, 7, 2, 9]].concat();
        assert_eq!(words, [expected, vec![0, 5]].concat());
    }
}
