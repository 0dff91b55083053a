//! The network as a sequence of launches.

use super::device::Gpu;
use super::kernels::{Attention, Buffer, Fuse, Projection, Rope, Rows, embed, pack};
use crate::batch::Batch;
use crate::config::TinyGptConfig;
use crate::forward::Kernels;
use crate::kv::{KvCache, KvLayer, KvShape};
use crate::rope::RopeTable;
use crate::weights::Weights;
use burn::backend::Wgpu;
use burn::backend::wgpu::CubeTensor;
use burn::tensor::{Tensor, TensorData};
use cubecl::prelude::Client;
use servelab_engine::ExecuteError;

/// Kernels of our own on WebGPU, with the weights loaded: six dispatches a layer, and two or three.
#[derive(Debug)]
pub struct GpuKernels {
    gpu: Gpu,
    config: TinyGptConfig,
    embedding: Buffer,
    turns: Buffer,
    layers: Vec<Layer>,
    final_norm: Buffer,
    head: Buffer,
    shapes: Shapes,
    scratch: Option<Scratch>,
    words: Vec<u32>,
    step: Option<Buffer>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Buffer,
    /// Query, key and value side by side.
    qkv: Buffer,
    output: Buffer,
    feed_forward_norm: Buffer,
    /// Gate and up side by side.
    gate_up: Buffer,
    down: Buffer,
}

/// What the launches of a layer and the head are specialised to.
#[derive(Clone, Copy, Debug)]
struct Shapes {
    qkv: Projection,
    rope: Rope,
    output: Projection,
    gate_up: Projection,
    down: Projection,
    /// Its outputs are the vocabulary, rounded up to a multiple of four.
    head: Projection,
}

/// Activations of a step, `rows` at most.
#[derive(Debug)]
struct Scratch {
    rows: usize,
    x: Buffer,
    /// The sampled rows of `x`, from the last layer's attention on.
    packed: Buffer,
    qkv: Buffer,
    attended: Buffer,
    hidden: Buffer,
    logits: Buffer,
}

/// Scratch rows at least, so that decode does not make them grow.
const FEWEST_ROWS: usize = 16;

impl GpuKernels {
    /// Loads weights onto a GPU.
    ///
    /// # Errors
    /// When the device is lost or full, or the configuration is not one these kernels compute.
    pub fn new(weights: &Weights, gpu: &Gpu) -> Result<Self, ExecuteError> {
        let config = weights.config.clone();
        let refuse = |reason: String| ExecuteError::BadPlan { step: 0, reason };
        config.validate().map_err(|error| refuse(error.to_string()))?;
        attention(&config, 1, Rows::All).validate().map_err(refuse)?;
        let (width, kv, hidden) = (config.width, config.kv_width(), config.hidden);
        let shapes = Shapes::new(&config);
        let upload = |values: Vec<f32>| {
            let len = values.len();
            buffer(Tensor::<1>::from_data(TensorData::new(values, [len]), gpu.device()))
        };
        let mut layers = Vec::with_capacity(config.layers);
        for layer in &weights.layers {
            let qkv = [(&layer.query, width), (&layer.key, kv), (&layer.value, kv)];
            let gate_up = [(&layer.gate, hidden), (&layer.up, hidden)];
            layers.push(Layer {
                attention_norm: upload(layer.attention_norm.clone())?,
                qkv: upload(side_by_side(width, &qkv))?,
                output: upload(layer.output.clone())?,
                feed_forward_norm: upload(layer.feed_forward_norm.clone())?,
                gate_up: upload(side_by_side(width, &gate_up))?,
                down: upload(layer.down.clone())?,
            });
        }
        let spare = shapes.head.outputs - config.vocabulary;
        let padding = vec![0.0; width * spare];
        let rope = RopeTable::new(&config);
        let turns = rope.cos.iter().zip(&rope.sin).flat_map(|(&cos, &sin)| [cos, sin]).collect();
        let kernels = GpuKernels {
            embedding: upload(weights.embedding.clone())?,
            turns: upload(turns)?,
            layers,
            final_norm: upload(weights.final_norm.clone())?,
            head: upload(side_by_side(width, &[(&weights.head, config.vocabulary), (&padding, spare)]))?,
            shapes,
            scratch: None,
            words: Vec::new(),
            step: None,
            gpu: gpu.clone(),
            config,
        };
        gpu.check()?;
        Ok(kernels)
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Dispatches of a step that only decodes: six a layer, the look-up and the head. The browser's own count of
    /// `dispatchWorkgroups` is held against it in `tests/gpu/network.rs`.
    pub fn decode_dispatches(config: &TinyGptConfig) -> u32 {
        6 * config.layers as u32 + 2
    }

    /// What a step works with between `embed` and `logits`.
    fn parts(&self) -> Option<(&Client, &Buffer, &Scratch)> {
        Some((&self.gpu.client, self.step.as_ref()?, self.scratch.as_ref()?))
    }

    /// Which rows matter after a layer's K and V are written, and how many. Nobody reads the others behind the last layer.
    fn wanted(&self, layer: usize, batch: &Batch) -> (Rows, usize) {
        let packs = layer + 1 == self.config.layers && batch.sampled.len() < batch.rows();
        if packs { (Rows::Packed, batch.sampled.len()) } else { (Rows::All, batch.rows()) }
    }

    /// A failure that is no fault of the plan: the device can not be trusted any more.
    fn failed(&self, reason: String) -> ExecuteError {
        self.gpu.check().err().unwrap_or(ExecuteError::DeviceLost { reason })
    }
}

impl Kernels for GpuKernels {
    fn config(&self) -> &TinyGptConfig {
        &self.config
    }

    fn device(&self) -> String {
        self.gpu.name()
    }

    fn beside(&self, weights: &Weights) -> Result<Self, ExecuteError> {
        GpuKernels::new(weights, &self.gpu)
    }

    fn new_cache(&self, shape: KvShape) -> Result<KvCache, ExecuteError> {
        let cache = KvCache::new(&self.config, shape, self.gpu.device())?;
        self.gpu.check()?;
        Ok(cache)
    }

    fn embed(&mut self, batch: &Batch) {
        let rows = batch.rows();
        let client = &self.gpu.client;
        if self.scratch.as_ref().is_none_or(|scratch| scratch.rows < rows) {
            let rows = rows.next_power_of_two().max(FEWEST_ROWS);
            self.scratch = Some(Scratch::new(client, &self.config, self.shapes.head.outputs, rows));
        }
        self.step = Some(Buffer::step(client, batch, &mut self.words));
        if let Some((client, step, scratch)) = self.parts() {
            embed(client, step, rows, &self.embedding, &scratch.x, self.config.width);
        }
    }

    fn write_kv(&mut self, layer: usize, kv: &mut KvLayer, batch: &Batch) {
        let (weights, rows) = (&self.layers[layer], batch.rows());
        let (Some((client, step, scratch)), Some((k, v))) = (self.parts(), pages(kv)) else { return };
        self.shapes.qkv.launch(client, step, rows, &scratch.x, &weights.attention_norm, &weights.qkv, &scratch.qkv);
        self.shapes.rope.launch(client, step, rows, &self.turns, &scratch.qkv, &k, &v);
    }

    fn attend(&mut self, layer: usize, kv: &KvLayer, batch: &Batch) {
        let (weights, (rows, count)) = (&self.layers[layer], self.wanted(layer, batch));
        let (Some((client, step, scratch)), Some((k, v))) = (self.parts(), pages(kv)) else { return };
        if count == 0 {
            return;
        }
        let (x, from) = match rows {
            Rows::All => (&scratch.x, Rows::All),
            _ => (&scratch.packed, Rows::Sampled),
        };
        if from == Rows::Sampled {
            pack(client, step, count, &scratch.x, x, self.config.width);
        }
        let attention = attention(&self.config, kv.read().0.dims()[1], from);
        attention.launch(client, step, count, &scratch.qkv, &k, &v, &scratch.attended);
        let output = Projection { rows, ..self.shapes.output };
        output.launch(client, step, count, &scratch.attended, &weights.attention_norm, &weights.output, x);
    }

    fn feed_forward(&mut self, layer: usize, batch: &Batch) {
        let (weights, (rows, count)) = (&self.layers[layer], self.wanted(layer, batch));
        let Some((client, step, scratch)) = self.parts() else { return };
        if count == 0 {
            return;
        }
        let x = if rows == Rows::All { &scratch.x } else { &scratch.packed };
        let gain = &weights.feed_forward_norm;
        let gate_up = Projection { rows, ..self.shapes.gate_up };
        gate_up.launch(client, step, count, x, gain, &weights.gate_up, &scratch.hidden);
        let down = Projection { rows, ..self.shapes.down };
        down.launch(client, step, count, &scratch.hidden, gain, &weights.down, x);
    }

    async fn logits(&mut self, batch: &Batch, out: &mut Vec<f32>) -> Result<(), ExecuteError> {
        out.clear();
        let samples = batch.sampled.len();
        let Some((client, step, scratch)) = self.parts() else { return Ok(()) };
        if samples == 0 {
            // Nobody asks for a token, but a step ends when the device is done with it.
            let done = client.sync().await;
            self.step = None;
            self.gpu.check()?;
            return done.map_err(|error| self.failed(error.to_string()));
        }
        let columns = self.shapes.head.outputs;
        // One layer at least has packed the rows by now, or all of them are sampled.
        let (rows, _) = self.wanted(self.config.layers - 1, batch);
        let x = if rows == Rows::All { &scratch.x } else { &scratch.packed };
        let head = Projection { rows, ..self.shapes.head };
        head.launch(client, step, samples, x, &self.final_norm, &self.head, &scratch.logits);
        let read = scratch.logits.read(client, samples * columns).await;
        self.step = None;
        self.gpu.check()?;
        let values = read.map_err(|reason| self.failed(reason))?;
        out.extend(values.chunks_exact(columns).flat_map(|row| &row[..self.config.vocabulary]));
        Ok(())
    }
}

impl Shapes {
    fn new(config: &TinyGptConfig) -> Self {
        let norm = Some(config.norm_epsilon as f32);
        let width = config.width;
        let plain = Projection { inputs: width, outputs: width, norm: None, fuse: Fuse::Store, rows: Rows::All };
        Shapes {
            qkv: Projection { outputs: width + 2 * config.kv_width(), norm, ..plain },
            rope: Rope { heads: config.heads, kv_heads: config.kv_heads, head_width: config.head_width() },
            output: Projection { fuse: Fuse::Add, ..plain },
            gate_up: Projection { outputs: config.hidden, norm, fuse: Fuse::Gate, ..plain },
            down: Projection { inputs: config.hidden, fuse: Fuse::Add, ..plain },
            head: Projection { outputs: config.vocabulary.next_multiple_of(4), norm, ..plain },
        }
    }
}

impl Scratch {
    fn new(client: &Client, config: &TinyGptConfig, logits: usize, rows: usize) -> Self {
        Scratch {
            rows,
            x: Buffer::empty(client, rows * config.width),
            packed: Buffer::empty(client, rows * config.width),
            qkv: Buffer::empty(client, rows * (config.width + 2 * config.kv_width())),
            attended: Buffer::empty(client, rows * config.width),
            hidden: Buffer::empty(client, rows * config.hidden),
            logits: Buffer::empty(client, rows * logits),
        }
    }
}

fn attention(config: &TinyGptConfig, block_tokens: usize, rows: Rows) -> Attention {
    Attention { heads: config.heads, kv_heads: config.kv_heads, head_width: config.head_width(), block_tokens, rows }
}

/// Row-major matrices of `rows` rows, one beside the other.
fn side_by_side(rows: usize, parts: &[(&Vec<f32>, usize)]) -> Vec<f32> {
    let mut all = Vec::with_capacity(rows * parts.iter().map(|(_, width)| width).sum::<usize>());
    for row in 0..rows {
        for (matrix, width) in parts {
            all.extend_from_slice(&matrix[row * width..(row + 1) * width]);
        }
    }
    all
}

/// The memory of K and V. Kernels write to it whoever else holds the tensors.
fn pages(kv: &KvLayer) -> Option<(Buffer, Buffer)> {
    let (k, v) = kv.read();
    Some((buffer(k).ok()?, buffer(v).ok()?))
}

/// The memory of a tensor, which it keeps alive.
fn buffer<const D: usize>(tensor: Tensor<D>) -> Result<Buffer, ExecuteError> {
    let refuse = |reason: String| ExecuteError::DeviceLost { reason };
    let len = tensor.shape().num_elements();
    let cube: CubeTensor = tensor.try_into_primitive::<Wgpu>().map_err(|error| refuse(format!("{error:?}")))?;
    if !cube.is_contiguous() || cube.handle.size_in_used() < (len * size_of::<f32>()) as u64 {
        return Err(refuse(format!("burn laid a tensor of {len} out in a way these kernels do not read")));
    }
    Ok(Buffer::of(cube.handle, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_stand_side_by_side() {
        let (a, b) = (vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0]);
        assert_eq!(side_by_side(2, &[(&a, 2), (&b, 1)]), [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
    }
}
