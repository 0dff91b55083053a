//! The network in SIMD loops of our own, over the storage of flex tensors.
//!
//! Weights and KV are burn tensors on the flex device; these kernels borrow their storage ([`burn_flex::FlexTensor`]) and work on
//! it in place. What burn's own operations would allocate between two of them (a tensor an operation, the gathered context, a
//! padded batch) is not there: activations live in buffers that grow once.
//!
//! Two properties beyond speed, both tested:
//!
//! 1. *A row's result does not depend on its company*: batched or alone, chunked or whole, with a cached prefix or
//!    without, the logits are the same to the bit, because every sum runs in an order that depends on its row alone.
//! 2. *Host and browser agree to the bit*, because only exactly rounded operations are used and none is fused.
//!
//! A step works layer by layer, in blocks of [`ROW_BLOCK`] rows: first all rows' K and V, then, block by block,
//! attention, output projection and SwiGLU. In the last layer only sampled rows go beyond K and V.

mod attention;
mod math;
mod matmul;
mod touch;

use crate::batch::Batch;
use crate::config::TinyGptConfig;
use crate::forward::Kernels;
use crate::kv::{KvCache, KvLayer, KvShape};
use crate::rope::RopeTable;
use crate::weights::{LayerWeights, Weights};
use attention::{Geometry, LANES, Query, attend};
use burn::backend::Flex;
use burn::tensor::{Device, Tensor, TensorData};
use burn_flex::FlexTensor;
use math::{inverse_rms, silu};
use matmul::{PANEL, PackedRows, Panels, Sink, flex, multiply};
use servelab_engine::ExecuteError;
use wide::{f32x4, f32x8};

/// Rows that go through a layer's matrices together. Each block reads the layer's 3.8 MB of weights once more, from the
/// last-level cache or memory, so more rows are better; but their 64 × 1024 hidden activations, 256 KiB, have to
/// stay in the second-level cache (1 to 2 MB on recent cores, shared with the weights passing through).
const ROW_BLOCK: usize = 64;

/// SIMD loops over flex tensors.
#[derive(Debug)]
pub struct CpuKernels {
    config: TinyGptConfig,
    device: Device,
    rope: RopeTable,
    embedding: FlexTensor,
    layers: Vec<Layer>,
    final_norm: FlexTensor,
    head: Panels,
    scratch: Scratch,
}

#[derive(Debug)]
struct Layer {
    attention_norm: FlexTensor,
    /// Query, key and value side by side.
    qkv: Panels,
    output: Panels,
    feed_forward_norm: FlexTensor,
    /// A panel of gate, the same columns of up, the next panel of gate, and so on.
    gate_up: Panels,
    down: Panels,
}

/// Buffers that live from step to step; they grow to the largest step seen.
#[derive(Debug, Default)]
struct Scratch {
    /// The residual stream, `[rows, width]`.
    x: Vec<f32>,
    /// The queries, `[active rows, kv heads, ⌈group ÷ 4⌉, head width]`, a lane a head.
    q: Vec<f32x4>,
    /// Item of each row.
    item: Vec<u32>,
    /// Rows that go through attention and SwiGLU of this layer.
    active: Vec<u32>,
    /// A row block's inputs to a matrix.
    packed: PackedRows,
    /// A row block's activations inside SwiGLU.
    hidden: PackedRows,
    /// A row block's q, k, v, `[rows, width + 2 × kv width]`.
    qkv: Vec<f32>,
    scores: Vec<f32x4>,
    attended: Vec<f32x4>,
}

impl CpuKernels {
    /// Loads weights into panels.
    pub fn new(weights: &Weights) -> Self {
        let config = weights.config.clone();
        let device = Device::flex();
        let vector = |data: &[f32], columns: usize| {
            flex(Tensor::<2>::from_data(TensorData::new(data.to_vec(), [data.len() / columns, columns]), &device))
        };
        let matrix = |data: &[f32], columns: usize| {
            Panels::new(data.len() / columns, columns, &device, |k, n| data[k * columns + n])
        };
        let layers = weights.layers.iter().map(|layer| Layer {
            attention_norm: vector(&layer.attention_norm, config.width),
            qkv: qkv(&config, layer, &device),
            output: matrix(&layer.output, config.width),
            feed_forward_norm: vector(&layer.feed_forward_norm, config.width),
            gate_up: Panels::new(config.width, 2 * config.hidden, &device, |k, n| {
                let source = if (n / PANEL).is_multiple_of(2) { &layer.gate } else { &layer.up };
                source[k * config.hidden + n / (2 * PANEL) * PANEL + n % PANEL]
            }),
            down: matrix(&layer.down, config.width),
        });
        CpuKernels {
            rope: RopeTable::new(&config),
            embedding: vector(&weights.embedding, config.width),
            layers: layers.collect(),
            final_norm: vector(&weights.final_norm, config.width),
            head: matrix(&weights.head, config.vocabulary),
            scratch: Scratch::default(),
            device,
            config,
        }
    }

    fn geometry(&self, kv: &Tensor<3>) -> Geometry {
        let [_, block_tokens, _] = kv.dims();
        Geometry { block_tokens, kv_heads: self.config.kv_heads, head_width: self.config.head_width() }
    }

    /// Vectors that a row's queries of one KV head take: ⌈group ÷ 4⌉.
    fn vectors(&self) -> usize {
        self.config.group().div_ceil(LANES)
    }
}

/// Query, key and value side by side.
fn qkv(config: &TinyGptConfig, layer: &LayerWeights, device: &Device) -> Panels {
    let (width, kv) = (config.width, config.kv_width());
    Panels::new(width, width + 2 * kv, device, |k, n| {
        if n < width {
            layer.query[k * width + n]
        } else if n < width + kv {
            layer.key[k * kv + n - width]
        } else {
            layer.value[k * kv + n - width - kv]
        }
    })
}

/// Packs the RMSNorm of some rows of `x`.
fn pack_normed(packed: &mut PackedRows, x: &[f32], rows: &[u32], gain: &FlexTensor, epsilon: f64) {
    let gain: &[f32] = gain.storage();
    packed.resize(rows.len(), gain.len());
    for (index, &row) in rows.iter().enumerate() {
        let x = &x[row as usize * gain.len()..][..gain.len()];
        let scale = inverse_rms(x, epsilon as f32);
        packed.row_mut(index).zip(x.iter().zip(gain)).for_each(|(to, (x, gain))| *to = x * scale * gain);
    }
}

/// Writes products to rows of a table.
struct Write<'a> {
    out: &'a mut [f32],
    columns: usize,
}

impl Sink<1> for Write<'_> {
    #[inline(always)]
    fn take<const R: usize>(&mut self, row: usize, panel: usize, [sums]: [[f32x8; R]; 1]) {
        let first = panel * PANEL;
        let width = PANEL.min(self.columns - first);
        for (r, sums) in sums.into_iter().enumerate() {
            let at = (row + r) * self.columns + first;
            self.out[at..at + width].copy_from_slice(&sums.to_array()[..width]);
        }
    }
}

/// Adds products to rows of the residual stream.
struct Add<'a> {
    x: &'a mut [f32],
    width: usize,
    rows: &'a [u32],
}

impl Sink<1> for Add<'_> {
    #[inline(always)]
    fn take<const R: usize>(&mut self, row: usize, panel: usize, [sums]: [[f32x8; R]; 1]) {
        for (r, sums) in sums.into_iter().enumerate() {
            let at = self.rows[row + r] as usize * self.width + panel * PANEL;
            let x = &mut self.x[at..at + PANEL];
            x.iter_mut().zip(sums.to_array()).for_each(|(x, sum)| *x += sum);
        }
    }
}

/// Packs SiLU(gate) ∘ up for the next product.
struct Gate<'a> {
    hidden: &'a mut PackedRows,
}

impl Sink<2> for Gate<'_> {
    #[inline(always)]
    fn take<const R: usize>(&mut self, row: usize, panel: usize, [gate, up]: [[f32x8; R]; 2]) {
        let (first, stride) = self.hidden.place(row);
        let at = first + panel / 2 * PANEL * stride;
        let out = &mut self.hidden.data_mut()[at..at + PANEL * stride];
        for r in 0..R {
            let product = (silu(gate[r]) * up[r]).to_array();
            out[r..].iter_mut().step_by(stride).zip(product).for_each(|(out, product)| *out = product);
        }
    }
}

/// Turns one head by a position's angles: split halves.
#[inline(always)]
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for ((a, b), (&cos, &sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

impl Kernels for CpuKernels {
    fn beside(&self, weights: &Weights) -> Result<Self, ExecuteError> {
        Ok(CpuKernels::new(weights))
    }

    fn config(&self) -> &TinyGptConfig {
        &self.config
    }

    fn device(&self) -> String {
        let simd = if cfg!(target_arch = "wasm32") { "WebAssembly SIMD128" } else { "SIMD" };
        format!("CPU, one thread, {simd}")
    }

    fn new_cache(&self, shape: KvShape) -> Result<KvCache, ExecuteError> {
        KvCache::new(&self.config, shape, &self.device)
    }

    fn embed(&mut self, batch: &Batch) {
        let Scratch { x, item, active, .. } = &mut self.scratch;
        let table: &[f32] = self.embedding.storage();
        let width = self.config.width;
        x.clear();
        x.extend(batch.tokens.iter().flat_map(|&token| &table[token as usize * width..][..width]));
        item.clear();
        item.extend(batch.spans.iter().zip(0..).flat_map(|(span, index)| std::iter::repeat_n(index, span.len)));
        active.clear();
        active.extend(0..batch.rows() as u32);
    }

    fn write_kv(&mut self, layer: usize, kv: &mut KvLayer, batch: &Batch) {
        let (width, kv_width, head_width) = (self.config.width, self.config.kv_width(), self.config.head_width());
        let (group, vectors, columns) = (self.config.group(), self.vectors(), width + 2 * kv_width);
        let weights = &self.layers[layer];
        let Scratch { x, q, active, packed, qkv, .. } = &mut self.scratch;
        qkv.resize(ROW_BLOCK * columns, 0.0);
        if layer + 1 == self.config.layers {
            active.clone_from(&batch.sampled);
        }
        let all_queried = active.len() == batch.rows();
        q.clear();
        let scale = 1.0 / (head_width as f32).sqrt();
        let mut keep_queries = |row: u32, qkv: &mut [f32], rope: &RopeTable| {
            let (cos, sin) = rope.at(batch.positions[row as usize] as usize);
            qkv[..width].chunks_exact_mut(head_width).for_each(|head| rotate(head, cos, sin));
            for heads in qkv[..width].chunks_exact(group * head_width) {
                for vector in 0..vectors {
                    q.extend((0..head_width).map(|i| {
                        let lane = |lane| {
                            let head = vector * LANES + lane;
                            if head < group { heads[head * head_width + i] * scale } else { 0.0 }
                        };
                        f32x4::new(std::array::from_fn(lane))
                    }));
                }
            }
        };
        kv.update(|k, v| {
            let geometry = Geometry { block_tokens: k.dims()[1], kv_heads: self.config.kv_heads, head_width };
            let (mut k, mut v) = (flex(k), flex(v));
            debug_assert!(k.is_unique() && v.is_unique(), "a handle to the cache is alive: this write would copy it");
            let (k_cache, v_cache): (&mut [f32], &mut [f32]) = (k.storage_mut(), v.storage_mut());
            let panels = if all_queried { weights.qkv.all() } else { width / PANEL..weights.qkv.all().end };
            for first in (0..batch.rows()).step_by(ROW_BLOCK) {
                let rows: [u32; ROW_BLOCK] = std::array::from_fn(|i| (first + i) as u32);
                let rows = &rows[..ROW_BLOCK.min(batch.rows() - first)];
                pack_normed(packed, x, rows, &weights.attention_norm, self.config.norm_epsilon);
                multiply::<1>(packed, &weights.qkv, panels.clone(), &mut Write { out: qkv, columns });
                for (&row, qkv) in rows.iter().zip(qkv.chunks_exact_mut(columns)) {
                    let (cos, sin) = self.rope.at(batch.positions[row as usize] as usize);
                    let (new_k, new_v) = qkv[width..].split_at_mut(kv_width);
                    new_k.chunks_exact_mut(head_width).for_each(|head| rotate(head, cos, sin));
                    geometry.write(batch.slots[row as usize] as usize, new_k, new_v, k_cache, v_cache);
                    if all_queried {
                        keep_queries(row, qkv, &self.rope);
                    }
                }
            }
            (Tensor::from_primitive::<Flex>(k), Tensor::from_primitive::<Flex>(v))
        });
        if !all_queried {
            for rows in active.chunks(ROW_BLOCK) {
                pack_normed(packed, x, rows, &weights.attention_norm, self.config.norm_epsilon);
                multiply::<1>(packed, &weights.qkv, 0..width / PANEL, &mut Write { out: qkv, columns });
                for (&row, qkv) in rows.iter().zip(qkv.chunks_exact_mut(columns)) {
                    keep_queries(row, qkv, &self.rope);
                }
            }
        }
    }

    fn attend(&mut self, layer: usize, kv: &KvLayer, batch: &Batch) {
        let (k, v) = kv.read();
        let geometry = self.geometry(&k);
        let (k, v) = (flex(k), flex(v));
        let (k, v): (&[f32], &[f32]) = (k.storage(), v.storage());
        let (width, head_width, group, vectors) =
            (self.config.width, self.config.head_width(), self.config.group(), self.vectors());
        let Scratch { x, q, item, active, packed, scores, attended, .. } = &mut self.scratch;
        scores.resize(geometry.block_tokens, f32x4::splat(0.0));
        attended.resize(head_width, f32x4::splat(0.0));
        let mut queries = q.chunks_exact(head_width);
        for rows in active.chunks(ROW_BLOCK) {
            packed.resize(rows.len(), width);
            for (index, &row) in rows.iter().enumerate() {
                let span = &batch.spans[item[row as usize] as usize];
                let context = batch.positions[row as usize] as usize + 1;
                let (first, stride) = packed.place(index);
                for kv_head in 0..self.config.kv_heads {
                    for vector in 0..vectors {
                        let Some(q) = queries.next() else { return };
                        let query = Query { q, kv_head, context, table: batch.table(span), k, v, cold: span.len == 1 };
                        attend(geometry, query, scores, attended);
                        let head = kv_head * group + vector * LANES;
                        let lanes = LANES.min(group - vector * LANES);
                        let out = packed.data_mut();
                        for (i, values) in attended.iter().enumerate() {
                            for (lane, value) in values.to_array().into_iter().take(lanes).enumerate() {
                                out[first + ((head + lane) * head_width + i) * stride] = value;
                            }
                        }
                    }
                }
            }
            let output = &self.layers[layer].output;
            multiply::<1>(packed, output, output.all(), &mut Add { x, width, rows });
        }
    }

    fn feed_forward(&mut self, layer: usize, _batch: &Batch) {
        let weights = &self.layers[layer];
        let Scratch { x, active, packed, hidden, .. } = &mut self.scratch;
        for rows in active.chunks(ROW_BLOCK) {
            pack_normed(packed, x, rows, &weights.feed_forward_norm, self.config.norm_epsilon);
            hidden.resize(rows.len(), self.config.hidden);
            multiply::<2>(packed, &weights.gate_up, weights.gate_up.all(), &mut Gate { hidden });
            let mut add = Add { x, width: self.config.width, rows };
            multiply::<1>(hidden, &weights.down, weights.down.all(), &mut add);
        }
    }

    async fn logits(&mut self, batch: &Batch, out: &mut Vec<f32>) -> Result<(), ExecuteError> {
        let Scratch { x, packed, .. } = &mut self.scratch;
        let columns = self.head.columns();
        out.clear();
        out.resize(batch.sampled.len() * columns, 0.0);
        for (rows, out) in batch.sampled.chunks(ROW_BLOCK).zip(out.chunks_mut(ROW_BLOCK * columns)) {
            pack_normed(packed, x, rows, &self.final_norm, self.config.norm_epsilon);
            multiply::<1>(packed, &self.head, self.head.all(), &mut Write { out, columns });
        }
        Ok(())
    }
}
