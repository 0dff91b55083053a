//! The forward pass in burn's autodiff: the same numbers as the serving kernels, over whole sequences from position 0.
//!
//! Written for a CPU, where what is not a matrix product costs memory traffic: gains are multiplied into the matrices that follow them
//! rather than into the activations, a head's turn is a product with a constant matrix, and attention's softmax is normalised
//! after the product with V, to which a column of ones is added that yields the sum.

use crate::config::TinyGptConfig;
use crate::rope::RopeTable;
use crate::weights::Weights;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use servelab_engine::random::Stream;

/// Added to the scores of later positions; far below any score, and finite.
const MASKED: f32 = -1e30;

/// Weights on a device, and what a given number of positions needs.
#[derive(Debug)]
pub struct Graph {
    config: TinyGptConfig,
    device: Device,
    length: usize,
    /// In the order of [`Weights::tensors`]; gains as columns.
    parameters: Vec<Tensor<2>>,
    query_turn: Turn,
    key_turn: Turn,
    /// `[head width, head width]`: brings the other half of a head into place, the second half with a minus.
    halves: Tensor<2>,
    /// `[1, length, length]`.
    mask: Tensor<3>,
}

/// Cosines and sines of all heads side by side, `[1, length, heads × head width]`.
#[derive(Debug)]
struct Turn {
    cos: Tensor<3>,
    sin: Tensor<3>,
}

/// Activations that are set to zero while learning.
#[derive(Clone, Debug)]
pub struct Dropout {
    /// Of 256, how many.
    pub share: u8,
    /// Where the draws come from.
    pub stream: Stream,
}

impl Graph {
    /// Loads weights onto a device, for sequences of `length` tokens. Gradients are kept where the device has autodiff.
    pub fn new(weights: &Weights, length: usize, device: &Device) -> Self {
        let config = weights.config.clone();
        let parameters = weights.tensors().into_iter().zip(Weights::shapes(&config)).map(|((_, data), (_, shape))| {
            let dims = [shape[0], shape.get(1).copied().unwrap_or(1)];
            let tensor = Tensor::<2>::from_data(TensorData::new(data.to_vec(), dims), device);
            if device.is_autodiff() { tensor.require_grad() } else { tensor }
        });
        let parameters = parameters.collect();
        // What follows is constant.
        let device = &device.clone().without_autodiff();
        let rope = RopeTable::new(&TinyGptConfig { context: length, ..config.clone() });
        let turn = |heads: usize, scale: f32| {
            let table = |part: &[f32]| {
                let rows = part.chunks_exact(rope.half);
                let wide = rows.flat_map(|row| row.iter().chain(row).copied().collect::<Vec<f32>>().repeat(heads));
                let wide: Vec<f32> = wide.map(|x| x * scale).collect();
                Tensor::<3>::from_data(TensorData::new(wide, [1, length, heads * 2 * rope.half]), device)
            };
            Turn { cos: table(&rope.cos), sin: table(&rope.sin) }
        };
        let head = config.head_width();
        let mut halves = vec![0.0f32; head * head];
        for i in 0..rope.half {
            halves[(i + rope.half) * head + i] = -1.0;
            halves[i * head + i + rope.half] = 1.0;
        }
        let mask: Vec<f32> =
            (0..length * length).map(|i| if i % length <= i / length { 0.0 } else { MASKED }).collect();
        Graph {
            parameters,
            // The scores' scale goes along with the queries' turn.
            query_turn: turn(config.heads, 1.0 / (head as f32).sqrt()),
            key_turn: turn(config.kv_heads, 1.0),
            halves: Tensor::from_data(TensorData::new(halves, [head, head]), device),
            mask: Tensor::from_data(TensorData::new(mask, [1, length, length]), device),
            device: device.clone(),
            length,
            config,
        }
    }

    /// Logits of all positions, `[sequences × length, vocabulary]`; `tokens` holds whole sequences one after the other.
    pub fn logits(&self, tokens: &[u32], mut dropout: Option<&mut Dropout>) -> Tensor<2> {
        let sequences = tokens.len() / self.length;
        let (embedding, rest) = (&self.parameters[0], &self.parameters[1..]);
        let mut x = embedding.clone().select(0, self.indices(tokens));
        x = self.drop(x, &mut dropout);
        for layer in rest[..9 * self.config.layers].chunks_exact(9) {
            let n = self.norm(x.clone());
            let by_gain = |matrix: usize, gain: usize| layer[matrix].clone() * layer[gain].clone();
            let q = n.clone().matmul(by_gain(1, 0));
            let k = n.clone().matmul(by_gain(2, 0));
            let v = n.matmul(by_gain(3, 0));
            let attended = self.attend(sequences, q, k, v).matmul(layer[4].clone());
            x = x + self.drop(attended, &mut dropout);
            let n = self.norm(x.clone());
            let gate = n.clone().matmul(by_gain(6, 5));
            let up = n.matmul(by_gain(7, 5));
            let hidden = sigmoid(gate.clone()) * gate * up;
            x = x + self.drop(hidden.matmul(layer[8].clone()), &mut dropout);
        }
        let last = &rest[9 * self.config.layers..];
        self.norm(x).matmul(last[1].clone() * last[0].clone())
    }

    /// Loss of each position in nats, `[sequences × length, 1]`.
    pub fn losses(&self, tokens: &[u32], targets: &[u32], dropout: Option<&mut Dropout>) -> Tensor<2> {
        let logits = self.logits(tokens, dropout);
        let most = logits.clone().without_autodiff().max_dim(1);
        let chosen = logits.clone().gather(1, self.indices(targets).reshape([targets.len(), 1]));
        (logits - most.clone()).exp().sum_dim(1).log() + most - chosen
    }

    /// The parameters' gradients, in the order of [`Weights::tensors`].
    pub fn gradients(&self, mut gradients: Gradients) -> Vec<Option<Tensor<2>>> {
        self.parameters.iter().map(|parameter| parameter.grad_remove(&mut gradients)).collect()
    }

    fn indices(&self, values: &[u32]) -> Tensor<1, Int> {
        let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
        let count = values.len();
        Tensor::from_data(TensorData::new(values, [count]), &self.device)
    }

    fn norm(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = (x.clone() * x.clone()).mean_dim(1);
        x * (mean_square + self.config.norm_epsilon as f32).sqrt().recip()
    }

    fn drop(&self, x: Tensor<2>, dropout: &mut Option<&mut Dropout>) -> Tensor<2> {
        let Some(dropout) = dropout.as_mut().filter(|dropout| dropout.share > 0) else { return x };
        let dims = x.dims();
        let kept = 256.0 / (256.0 - f32::from(dropout.share));
        let mut mask = Vec::with_capacity(dims[0] * dims[1] + 8);
        while mask.len() < dims[0] * dims[1] {
            let bytes = dropout.stream.next_u64().to_le_bytes();
            mask.extend(bytes.map(|byte| if byte < dropout.share { 0.0 } else { kept }));
        }
        mask.truncate(dims[0] * dims[1]);
        x * Tensor::from_data(TensorData::new(mask, dims), &self.device)
    }

    fn turn(&self, x: Tensor<2>, sequences: usize, turn: &Turn) -> Tensor<3> {
        let [rows, width] = x.dims();
        let head = self.config.head_width();
        let other = x.clone().reshape([rows * width / head, head]).matmul(self.halves.clone());
        let dims = [sequences, self.length, width];
        x.reshape(dims) * turn.cos.clone() + other.reshape(dims) * turn.sin.clone()
    }

    fn attend(&self, sequences: usize, q: Tensor<2>, k: Tensor<2>, v: Tensor<2>) -> Tensor<2> {
        let (kv_heads, group, head) = (self.config.kv_heads, self.config.group(), self.config.head_width());
        let (length, batch) = (self.length, sequences * kv_heads);
        let q = self.turn(q, sequences, &self.query_turn).reshape([sequences, length, kv_heads, group, head]);
        let q = q.permute([0, 2, 3, 1, 4]).reshape([batch, group * length, head]);
        let k = self.turn(k, sequences, &self.key_turn).reshape([sequences, length, kv_heads, head]);
        let k = k.permute([0, 2, 3, 1]).reshape([batch, head, length]);
        let v = v.reshape([sequences, length, kv_heads, head]).permute([0, 2, 1, 3]).reshape([batch, length, head]);
        let v = Tensor::cat(vec![v, Tensor::ones([batch, length, 1], &self.device)], 2);
        let scores = q.matmul(k).reshape([batch * group, length, length]) + self.mask.clone();
        let most = scores.clone().without_autodiff().max_dim(2);
        let exps = (scores - most).exp().reshape([batch, group * length, length]);
        let out = exps.matmul(v);
        let out = out.clone().narrow(2, 0, head) / out.narrow(2, head, 1);
        let out = out.reshape([sequences, kv_heads, group, length, head]);
        out.permute([0, 3, 1, 2, 4]).reshape([sequences * length, kv_heads * group * head])
    }
}
