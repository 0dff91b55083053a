//! A step plan, checked and laid out in rows: one row a token, items one after the other.

use crate::alphabet::Alphabet;
use crate::config::TinyGptConfig;
use crate::kv::KvShape;
use servelab_engine::{ExecuteError, StepPlan};

/// One item's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first row.
    pub row: usize,
    /// Its rows.
    pub len: usize,
    /// Position of its first row in its sequence.
    pub start: usize,
    /// Where its block table starts in [`Batch::tables`].
    pub table_at: usize,
    /// Entries of its block table.
    pub table_len: usize,
}

impl Span {
    /// Tokens the last row attends to, itself included.
    pub fn context(&self) -> usize {
        self.start + self.len
    }
}

/// What kernels are given of a step. Buffers are reused from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Token id of each row, below the vocabulary.
    pub tokens: Vec<u32>,
    /// Position of each row in its sequence, below the context.
    pub positions: Vec<u32>,
    /// Slot (block × block size + offset) that each row's K and V go to.
    pub slots: Vec<u32>,
    /// The items, in row order; together they cover all rows.
    pub spans: Vec<Span>,
    /// Block tables of all items.
    pub tables: Vec<u32>,
    /// Rows whose logits are wanted, ascending.
    pub sampled: Vec<u32>,
}

impl Batch {
    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Block table of an item.
    pub fn table(&self, span: &Span) -> &[u32] {
        &self.tables[span.table_at..span.table_at + span.table_len]
    }

    /// Takes over a plan, after checking everything that kernels rely on.
    ///
    /// # Errors
    /// [`ExecuteError::BadPlan`] naming the item and the value.
    pub fn fill(&mut self, plan: &StepPlan, config: &TinyGptConfig, shape: KvShape) -> Result<(), ExecuteError> {
        self.fill_in(plan, config, shape, None)
    }

    /// The same for a plan whose token ids stand in another alphabet than the model's.
    ///
    /// # Errors
    /// As [`Batch::fill`].
    pub fn fill_in(
        &mut self,
        plan: &StepPlan,
        config: &TinyGptConfig,
        shape: KvShape,
        alphabet: Option<&Alphabet>,
    ) -> Result<(), ExecuteError> {
        let to_model = |token: u32| alphabet.map_or(token, |alphabet| alphabet.to_model(token));
        self.clear();
        let refuse = |reason: String| Err(ExecuteError::BadPlan { step: plan.step, reason });
        if plan.items.is_empty() || plan.repeat != 1 {
            return refuse(format!(
                "it has {} items, repeated {} times; a model runs at least one item, once",
                plan.items.len(),
                plan.repeat
            ));
        }
        let block_tokens = shape.block_tokens as usize;
        for (index, item) in plan.items.iter().enumerate() {
            let (start, len, table_len) = (item.start as usize, item.len as usize, item.table_len as usize);
            let (tokens_at, table_at) = (item.tokens_at as usize, item.table_at as usize);
            let context = start + len;
            if len == 0 || context > config.context {
                return refuse(format!(
                    "item {index} ends at token {context} after {len} rows; the model's context is {}",
                    config.context
                ));
            }
            if table_len != context.div_ceil(block_tokens) {
                return refuse(format!(
                    "item {index} has {table_len} blocks for {context} tokens in blocks of {block_tokens}"
                ));
            }
            let (Some(tokens), Some(table)) =
                (plan.tokens.get(tokens_at..tokens_at + len), plan.tables.get(table_at..table_at + table_len))
            else {
                return refuse(format!("item {index} has no token ids or no block table; TinyGPT needs both"));
            };
            if let Some(token) = tokens.iter().find(|&&token| to_model(token) as usize >= config.vocabulary) {
                return refuse(format!("item {index} has token {token}; the vocabulary is {}", config.vocabulary));
            }
            if let Some(block) = table.iter().find(|&&block| block >= shape.blocks) {
                return refuse(format!("item {index} names block {block}; the replica has {}", shape.blocks));
            }
            let span = Span { row: self.rows(), len, start, table_at: self.tables.len(), table_len };
            self.tokens.extend(tokens.iter().map(|&token| to_model(token)));
            self.tables.extend_from_slice(table);
            self.positions.extend(item.start..item.start + item.len);
            self.slots.extend((start..context).map(|position| {
                table[position / block_tokens] * shape.block_tokens + (position % block_tokens) as u32
            }));
            if item.sample {
                self.sampled.push((span.row + len - 1) as u32);
            }
            self.spans.push(span);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.slots.clear();
        self.spans.clear();
        self.tables.clear();
        self.sampled.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_engine::{PlanItem, Sampling, SequenceId};

    fn item(start: u32, len: u32, tokens_at: u32, table_at: u32, table_len: u32, sample: bool) -> PlanItem {
        PlanItem {
            sequence: SequenceId(0),
            start,
            len,
            sample,
            decode: false,
            output_index: 0,
            sampling: Sampling::default(),
            tokens_at,
            table_at,
            table_len,
        }
    }

    fn plan() -> StepPlan {
        StepPlan {
            repeat: 1,
            items: vec![item(3, 3, 0, 0, 2, false), item(8, 1, 3, 2, 3, true)],
            tokens: vec![10, 11, 12, 13],
            tables: vec![7, 2, 0, 5, 1],
            ..StepPlan::default()
        }
    }

    const SHAPE: KvShape = KvShape { blocks: 8, block_tokens: 4 };

    #[test]
    fn rows_carry_positions_and_slots() {
        let mut batch = Batch::default();
        batch.fill(&plan(), &TinyGptConfig::small(), SHAPE).expect("a good plan");
        assert_eq!(batch.tokens, [10, 11, 12, 13]);
        assert_eq!(batch.positions, [3, 4, 5, 8]);
        assert_eq!(batch.slots, [7 * 4 + 3, 2 * 4, 2 * 4 + 1, 4]);
        assert_eq!(batch.sampled, [3]);
        assert_eq!(batch.table(&batch.spans[1]), [0, 5, 1]);
        assert_eq!((batch.spans[1].row, batch.spans[1].context()), (3, 9));
    }

    #[test]
    fn bad_plans_are_refused() {
        let reason = |change: fn(&mut StepPlan)| {
            let mut bad = plan();
            change(&mut bad);
            match Batch::default().fill(&bad, &TinyGptConfig::small(), SHAPE) {
                Err(ExecuteError::BadPlan { reason, .. }) => reason,
                other => panic!("{other:?}"),
            }
        };
        assert!(reason(|p| p.items.clear()).contains("0 items"));
        assert!(reason(|p| p.repeat = 2).contains("2 times"));
        assert!(reason(|p| p.tokens.clear()).contains("no token ids"));
        assert!(reason(|p| p.tokens[1] = 260).contains("token 260"));
        assert!(reason(|p| p.tables[4] = 8).contains("block 8"));
        assert!(reason(|p| p.items[0].table_len = 1).contains("1 blocks for 6 tokens"));
        assert!(reason(|p| p.items[0].start = 2047).contains("context is 2048"));
        assert!(reason(|p| p.items[0].len = 0).contains("0 rows"));
    }
}
