//! The network in burn's own operations: runs on every burn device, and is the yardstick for faster kernels.
//!
//! Nothing here reads back before the logits, and nothing uses an operation without a GPU kernel. Decoding
//! sequences attend together, padded to the longest; a prefill chunk attends by itself.
//!
//! Within a block, K and V lie as `[block_tokens, kv_heads, head_width]`.

use crate::batch::Batch;
use crate::config::TinyGptConfig;
use crate::forward::Kernels;
use crate::kv::{KvCache, KvLayer, KvShape};
use crate::rope::RopeTable;
use crate::weights::Weights;
use burn::tensor::activation::{silu, softmax};
use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData};
use servelab_engine::ExecuteError;

/// Added to the scores of masked positions; far below any score, and finite, so that no backend makes a NaN of it.
const MASKED: f32 = -1e30;

/// burn's own operations on a device.
#[derive(Debug)]
pub struct Portable {
    config: TinyGptConfig,
    device: Device,
    write: CacheWrite,
    embedding: Tensor<2>,
    layers: Vec<Layer>,
    final_norm: Tensor<2>,
    head: Tensor<2>,
    /// `[context, 1, head width ÷ 2]`.
    cos: Tensor<3>,
    sin: Tensor<3>,
    step: Option<Step>,
}

/// How rows get to their slots in place: which operation does that differs between backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheWrite {
    /// All rows by one `scatter_nd`: one dispatch on a GPU; flex would copy the whole cache for it.
    Scatter,
    /// Every run of consecutive slots by one `slice_assign`: flex does that in place; on a GPU it is a dispatch a block.
    Slices,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor<2>,
    /// Query, key and value side by side.
    qkv: Tensor<2>,
    output: Tensor<2>,
    feed_forward_norm: Tensor<2>,
    /// Gate and up side by side.
    gate_up: Tensor<2>,
    down: Tensor<2>,
}

/// What one step keeps on the device.
#[derive(Debug)]
struct Step {
    x: Tensor<2>,
    cos: Tensor<3>,
    sin: Tensor<3>,
    slots: Tensor<2, Int>,
    q: Option<Tensor<3>>,
    groups: Vec<Group>,
    /// Puts the groups' rows back into the batch's order; absent where they are.
    order: Option<Tensor<1, Int>>,
    sampled: Option<Tensor<1, Int>>,
}

/// Sequences that attend together: all with `rows` rows, padded to `context` tokens.
#[derive(Debug)]
struct Group {
    sequences: usize,
    rows: usize,
    context: usize,
    /// Rows of the batch.
    members: Tensor<1, Int>,
    /// Slots of their contexts, sequence by sequence.
    slots: Tensor<1, Int>,
    /// 0 or [`MASKED`], `[sequences, 1, rows, context]`.
    bias: Tensor<4>,
}

impl Portable {
    /// Loads weights onto a device.
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let config = weights.config.clone();
        let (width, kv, hidden) = (config.width, config.kv_width(), config.hidden);
        let matrix = |data: &[f32], columns: usize| {
            Tensor::<2>::from_data(TensorData::new(data.to_vec(), [data.len() / columns, columns]), device)
        };
        let beside = |parts: &[(&[f32], usize)]| {
            Tensor::cat(parts.iter().map(|&(data, columns)| matrix(data, columns)).collect(), 1)
        };
        let layers = weights.layers.iter().map(|layer| Layer {
            attention_norm: matrix(&layer.attention_norm, width),
            qkv: beside(&[(&layer.query, width), (&layer.key, kv), (&layer.value, kv)]),
            output: matrix(&layer.output, width),
            feed_forward_norm: matrix(&layer.feed_forward_norm, width),
            gate_up: beside(&[(&layer.gate, hidden), (&layer.up, hidden)]),
            down: matrix(&layer.down, width),
        });
        let rope = RopeTable::new(&config);
        let table = |data: Vec<f32>| {
            Tensor::<3>::from_data(TensorData::new(data, [config.context, 1, config.head_width() / 2]), device)
        };
        Portable {
            write: if is_flex(device) { CacheWrite::Slices } else { CacheWrite::Scatter },
            embedding: matrix(&weights.embedding, width),
            layers: layers.collect(),
            final_norm: matrix(&weights.final_norm, width),
            head: matrix(&weights.head, config.vocabulary),
            cos: table(rope.cos),
            sin: table(rope.sin),
            device: device.clone(),
            step: None,
            config,
        }
    }

    fn indices<const D: usize>(&self, values: Vec<u32>, dims: [usize; D]) -> Tensor<D, Int> {
        let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
        Tensor::from_data(TensorData::new(values, dims), &self.device)
    }

    fn group(&self, batch: &Batch, spans: &[usize], block_tokens: usize) -> Group {
        let rows = batch.spans[spans[0]].len;
        let blocks = spans.iter().map(|&index| batch.spans[index].table_len).max().unwrap_or(1);
        let context = blocks * block_tokens;
        let (mut members, mut slots) = (Vec::new(), Vec::new());
        let mut bias = Vec::with_capacity(spans.len() * rows * context);
        for span in spans.iter().map(|&index| &batch.spans[index]) {
            members.extend((span.row..span.row + rows).map(|row| row as u32));
            // Padding reads block 0: its numbers are finite, and masked.
            let table = batch.table(span).iter().copied().chain(std::iter::repeat(0)).take(blocks);
            let block_tokens = block_tokens as u32;
            slots.extend(table.flat_map(|block| (0..block_tokens).map(move |offset| block * block_tokens + offset)));
            for row in 0..rows {
                let seen = span.start + row + 1;
                bias.extend((0..context).map(|position| if position < seen { 0.0 } else { MASKED }));
            }
        }
        let dims = [spans.len(), 1, rows, context];
        Group {
            sequences: spans.len(),
            rows,
            context,
            members: self.indices(members, [spans.len() * rows]),
            slots: self.indices(slots, [spans.len() * context]),
            bias: Tensor::from_data(TensorData::new(bias, dims), &self.device),
        }
    }

    fn norm(&self, x: Tensor<2>, gain: &Tensor<2>) -> Tensor<2> {
        let mean_square = (x.clone() * x.clone()).mean_dim(1);
        x * (mean_square + self.config.norm_epsilon as f32).sqrt().recip() * gain.clone()
    }

    fn attend_group(&self, group: &Group, q: &Tensor<3>, k: Tensor<2>, v: Tensor<2>) -> Tensor<2> {
        let (kv_heads, shared, width) = (self.config.kv_heads, self.config.group(), self.config.head_width());
        let (sequences, rows, context) = (group.sequences, group.rows, group.context);
        let q = q.clone().select(0, group.members.clone()).reshape([sequences, rows, kv_heads, shared, width]);
        let q = q.permute([0, 2, 3, 1, 4]).reshape([sequences * kv_heads, shared * rows, width]);
        let gather = |cache: Tensor<2>| {
            cache.select(0, group.slots.clone()).reshape([sequences, context, kv_heads, width]).swap_dims(1, 2)
        };
        let k = gather(k).swap_dims(2, 3).reshape([sequences * kv_heads, width, context]);
        let v = gather(v).reshape([sequences * kv_heads, context, width]);
        let scores = q.matmul(k) * (1.0 / (width as f32).sqrt());
        let scores = scores.reshape([sequences, kv_heads * shared, rows, context]) + group.bias.clone();
        let weights = softmax(scores, 3).reshape([sequences * kv_heads, shared * rows, context]);
        let out = weights.matmul(v).reshape([sequences, kv_heads, shared, rows, width]);
        out.permute([0, 3, 1, 2, 4]).reshape([sequences * rows, kv_heads * shared * width])
    }
}

/// Turns `[rows, heads, head width]` by each row's angles.
fn rotate(x: Tensor<3>, cos: &Tensor<3>, sin: &Tensor<3>) -> Tensor<3> {
    let half = cos.dims()[2];
    let (first, second) = (x.clone().narrow(2, 0, half), x.narrow(2, half, half));
    let turned_first = first.clone() * cos.clone() - second.clone() * sin.clone();
    let turned_second = second * cos.clone() + first * sin.clone();
    Tensor::cat(vec![turned_first, turned_second], 2)
}

/// Whether a device is the flex backend.
pub(crate) fn is_flex(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    return *device == Device::flex();
    #[cfg(not(feature = "flex"))]
    return {
        _ = device;
        false
    };
}

impl Kernels for Portable {
    fn config(&self) -> &TinyGptConfig {
        &self.config
    }

    fn device(&self) -> String {
        format!("{:?} (burn operations)", self.device)
    }

    fn beside(&self, weights: &Weights) -> Result<Self, ExecuteError> {
        Ok(Portable::new(weights, &self.device))
    }

    fn new_cache(&self, shape: KvShape) -> Result<KvCache, ExecuteError> {
        KvCache::new(&self.config, shape, &self.device)
    }

    fn embed(&mut self, batch: &Batch) {
        let rows = batch.rows();
        let tokens = self.indices(batch.tokens.clone(), [rows]);
        let positions = self.indices(batch.positions.clone(), [rows]);
        self.step = Some(Step {
            x: self.embedding.clone().select(0, tokens),
            cos: self.cos.clone().select(0, positions.clone()),
            sin: self.sin.clone().select(0, positions),
            slots: self.indices(batch.slots.clone(), [rows, 1]),
            q: None,
            groups: Vec::new(),
            order: None,
            sampled: (!batch.sampled.is_empty()).then(|| self.indices(batch.sampled.clone(), [batch.sampled.len()])),
        });
    }

    fn write_kv(&mut self, layer: usize, kv: &mut KvLayer, batch: &Batch) {
        let Some(mut step) = self.step.take() else { return };
        let weights = &self.layers[layer];
        let (rows, width, head) = (batch.rows(), self.config.width, self.config.head_width());
        let (heads, kv_heads, kv_width) = (self.config.heads, self.config.kv_heads, self.config.kv_width());
        let qkv = self.norm(step.x.clone(), &weights.attention_norm).matmul(weights.qkv.clone());
        let q = qkv.clone().narrow(1, 0, width).reshape([rows, heads, head]);
        let k = qkv.clone().narrow(1, width, kv_width).reshape([rows, kv_heads, head]);
        let v = qkv.narrow(1, width + kv_width, kv_width);
        let k = rotate(k, &step.cos, &step.sin).reshape([rows, kv_width]);
        step.q = Some(rotate(q, &step.cos, &step.sin));
        let write = |cache: Tensor<3>, new: Tensor<2>| {
            let dims @ [blocks, block_tokens, _] = cache.dims();
            let cache: Tensor<2> = cache.reshape([blocks * block_tokens, kv_width]);
            let cache = match self.write {
                CacheWrite::Scatter => cache.scatter_nd(step.slots.clone(), new, IndexingUpdateOp::Assign),
                CacheWrite::Slices => write_runs(cache, &batch.slots, new),
            };
            cache.reshape(dims)
        };
        kv.update(|old_k, old_v| (write(old_k, k), write(old_v, v)));
        self.step = Some(step);
    }

    fn attend(&mut self, layer: usize, kv: &KvLayer, batch: &Batch) {
        let Some(mut step) = self.step.take() else { return };
        let (k, v) = kv.read();
        let [blocks, block_tokens, kv_width] = k.dims();
        if step.groups.is_empty() {
            let single: Vec<usize> = (0..batch.spans.len()).filter(|&index| batch.spans[index].len == 1).collect();
            let chunks: Vec<usize> = (0..batch.spans.len()).filter(|&index| batch.spans[index].len > 1).collect();
            let groups = std::iter::once(single.as_slice()).filter(|group| !group.is_empty());
            let spans: Vec<&[usize]> = groups.chain(chunks.chunks(1)).collect();
            step.groups = spans.iter().map(|spans| self.group(batch, spans, block_tokens)).collect();
            // Row r of the concatenated groups is row `placed[r]` of the batch; its inverse brings them back.
            let placed: Vec<usize> = spans
                .iter()
                .flat_map(|spans| spans.iter())
                .flat_map(|&index| batch.spans[index].row..batch.spans[index].row + batch.spans[index].len)
                .collect();
            if !placed.is_sorted() {
                let mut order = vec![0; placed.len()];
                for (from, &to) in placed.iter().enumerate() {
                    order[to] = from as u32;
                }
                step.order = Some(self.indices(order, [placed.len()]));
            }
        }
        let k: Tensor<2> = k.reshape([blocks * block_tokens, kv_width]);
        let v: Tensor<2> = v.reshape([blocks * block_tokens, kv_width]);
        if let Some(q) = step.q.take() {
            let parts = step.groups.iter().map(|group| self.attend_group(group, &q, k.clone(), v.clone()));
            let mut out = Tensor::cat(parts.collect(), 0);
            if let Some(order) = &step.order {
                out = out.select(0, order.clone());
            }
            step.x = step.x + out.matmul(self.layers[layer].output.clone());
        }
        self.step = Some(step);
    }

    fn feed_forward(&mut self, layer: usize, _batch: &Batch) {
        let Some(mut step) = self.step.take() else { return };
        let weights = &self.layers[layer];
        let hidden = self.config.hidden;
        let both = self.norm(step.x.clone(), &weights.feed_forward_norm).matmul(weights.gate_up.clone());
        let gated = silu(both.clone().narrow(1, 0, hidden)) * both.narrow(1, hidden, hidden);
        step.x = step.x + gated.matmul(weights.down.clone());
        self.step = Some(step);
    }

    async fn logits(&mut self, batch: &Batch, out: &mut Vec<f32>) -> Result<(), ExecuteError> {
        out.clear();
        let Some(step) = self.step.take() else { return Ok(()) };
        let Some(sampled) = step.sampled else {
            // Nobody asks for a token, but a step ends when the device is done with it.
            step.x.slice([0..1, 0..1]).into_data_async().await.map_err(|error| self.failure(&error))?;
            return Ok(());
        };
        let x = self.norm(step.x.select(0, sampled), &self.final_norm);
        let data = x.matmul(self.head.clone()).into_data_async().await.map_err(|error| self.failure(&error))?;
        out.extend(data.iter::<f32>());
        debug_assert_eq!(out.len(), batch.sampled.len() * self.config.vocabulary);
        Ok(())
    }
}

impl Portable {
    /// What burn reports when a queued operation failed, as the engine's error.
    fn failure(&self, error: &dyn std::fmt::Display) -> ExecuteError {
        let reason = error.to_string();
        if reason.to_lowercase().contains("out of memory") {
            ExecuteError::OutOfMemory { device: self.device(), reason }
        } else {
            ExecuteError::DeviceLost { reason }
        }
    }
}

/// Writes rows to their slots, one `slice_assign` for each run of consecutive slots.
fn write_runs(mut cache: Tensor<2>, slots: &[u32], new: Tensor<2>) -> Tensor<2> {
    let width = new.dims()[1];
    let mut row = 0;
    for run in slots.chunk_by(|a, b| a + 1 == *b) {
        let slot = run[0] as usize;
        let values = new.clone().slice([row..row + run.len(), 0..width]);
        cache = cache.slice_assign([slot..slot + run.len(), 0..width], values);
        row += run.len();
    }
    cache
}
