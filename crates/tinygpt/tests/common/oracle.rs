//! The same network once more: plain loops, f64, one token after the other. Shares nothing with the crate but the weights.

use servelab_tinygpt::Weights;

/// Computes logits of token histories; remembers the last history's K and V.
pub struct Oracle<'a> {
    weights: &'a Weights,
    history: Vec<u32>,
    /// For each layer and token, K of all heads.
    k: Vec<Vec<Vec<f64>>>,
    v: Vec<Vec<Vec<f64>>>,
    logits: Vec<Vec<f64>>,
}

impl<'a> Oracle<'a> {
    pub fn new(weights: &'a Weights) -> Self {
        let layers = weights.layers.len();
        Oracle { weights, history: vec![], k: vec![vec![]; layers], v: vec![vec![]; layers], logits: vec![] }
    }

    /// Logits after `history`.
    pub fn logits(&mut self, history: &[u32]) -> &[f64] {
        let common = self.history.iter().zip(history).take_while(|(a, b)| a == b).count();
        self.history.truncate(common);
        self.logits.truncate(common);
        for layer in self.k.iter_mut().chain(&mut self.v) {
            layer.truncate(common);
        }
        for &token in &history[common..] {
            let logits = self.push(token as usize);
            self.history.push(token);
            self.logits.push(logits);
        }
        &self.logits[history.len() - 1]
    }

    fn push(&mut self, token: usize) -> Vec<f64> {
        let c = &self.weights.config;
        let position = self.history.len() as f64;
        let head = c.width / c.heads;
        let mut x: Vec<f64> =
            self.weights.embedding[token * c.width..(token + 1) * c.width].iter().map(|&w| f64::from(w)).collect();
        for (layer, w) in self.weights.layers.iter().enumerate() {
            let n = norm(&x, &w.attention_norm, c.norm_epsilon);
            let mut q = times(&n, &w.query);
            let mut k = times(&n, &w.key);
            for one in q.chunks_mut(head).chain(k.chunks_mut(head)) {
                turn(one, position, c.rope_base);
            }
            self.k[layer].push(k);
            self.v[layer].push(times(&n, &w.value));
            let mut attended = vec![];
            for h in 0..c.heads {
                let shared = h / (c.heads / c.kv_heads);
                let of = |row: &[f64]| row[shared * head..(shared + 1) * head].to_vec();
                let mut scores: Vec<f64> = vec![];
                for k in &self.k[layer] {
                    let dot: f64 = q[h * head..(h + 1) * head].iter().zip(of(k)).map(|(a, b)| a * b).sum();
                    scores.push(dot / (head as f64).sqrt());
                }
                let most = scores.iter().copied().fold(f64::MIN, f64::max);
                let exps: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let total: f64 = exps.iter().sum();
                let mut out = vec![0.0; head];
                for (e, v) in exps.iter().zip(&self.v[layer]) {
                    for (o, v) in out.iter_mut().zip(of(v)) {
                        *o += e / total * v;
                    }
                }
                attended.extend(out);
            }
            add(&mut x, &times(&attended, &w.output));
            let n = norm(&x, &w.feed_forward_norm, c.norm_epsilon);
            let gate = times(&n, &w.gate);
            let up = times(&n, &w.up);
            let hidden: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(&mut x, &times(&hidden, &w.down));
        }
        times(&norm(&x, &self.weights.final_norm, c.norm_epsilon), &self.weights.head)
    }
}

fn norm(x: &[f64], gain: &[f32], epsilon: f64) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(gain).map(|(x, &g)| x / (mean + epsilon).sqrt() * f64::from(g)).collect()
}

fn times(x: &[f64], matrix: &[f32]) -> Vec<f64> {
    let columns = matrix.len() / x.len();
    let mut out = vec![0.0; columns];
    for (x, row) in x.iter().zip(matrix.chunks(columns)) {
        for (o, &w) in out.iter_mut().zip(row) {
            *o += x * f64::from(w);
        }
    }
    out
}

fn turn(head: &mut [f64], position: f64, base: f64) {
    let half = head.len() / 2;
    for i in 0..half {
        let angle = position * base.powf(-(i as f64) / half as f64);
        let (a, b) = (head[i], head[i + half]);
        head[i] = a * angle.cos() - b * angle.sin();
        head[i + half] = a * angle.sin() + b * angle.cos();
    }
}

fn add(x: &mut [f64], y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}
