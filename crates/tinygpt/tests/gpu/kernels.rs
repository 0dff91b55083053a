//! Each kernel by itself, against plain f64 loops.

use super::gpu;
use servelab_engine::random::Stream;
use servelab_tinygpt::Batch;
use servelab_tinygpt::batch::Span;
use servelab_tinygpt::gpu::kernels::{Attention, Buffer, Fuse, Projection, Rope, Rows, embed, pack};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

/// Largest difference ÷ largest magnitude: sums of up to a thousand f32 products in some order.
const TOLERANCE: f64 = 2e-5;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut stream = Stream::new(seed, b"gpu kernels");
    (0..count).map(|_| (stream.unit() * 2.0 - 1.0) as f32).collect()
}

fn agree(what: &str, got: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(1e-30, |most: f64, x| most.max(x.abs()));
    let difference = got.iter().zip(wanted).fold(0.0, |most: f64, (&a, b)| most.max((f64::from(a) - b).abs()));
    assert!(got.iter().all(|x| x.is_finite()), "{what}: not a number");
    assert!(difference / largest <= TOLERANCE, "{what}: off by {:.2e}", difference / largest);
    difference / largest
}

/// A batch of one-row items, each with its own context.
fn decodes(contexts: &[usize], block_tokens: usize, blocks: usize) -> Batch {
    let mut batch = Batch::default();
    let mut next = 0;
    for (row, &context) in contexts.iter().enumerate() {
        let table_len = context.div_ceil(block_tokens);
        batch.spans.push(Span { row, len: 1, start: context - 1, table_at: batch.tables.len(), table_len });
        for _ in 0..table_len {
            // Scattered: neighbours in a table are far apart in the pool. 7 shares no factor with the pools used here.
            batch.tables.push((next * 7 % blocks) as u32);
            next += 1;
        }
        batch.tokens.push((row * 3 % 5) as u32);
        batch.positions.push(context as u32 - 1);
        let block = *batch.tables.last().unwrap() as usize;
        batch.slots.push((block * block_tokens + (context - 1) % block_tokens) as u32);
    }
    assert!(next <= blocks, "the test's pool holds {blocks} blocks, {next} are needed");
    batch
}

#[wasm_bindgen_test]
async fn embedding_rows_are_looked_up() {
    let gpu = gpu().await;
    let client = gpu.client();
    let (width, table) = (40, numbers(1, 5 * 40));
    let batch = decodes(&[1; 11], 4, 17);
    let step = Buffer::step(client, &batch, &mut vec![]);
    let out = Buffer::floats(client, &vec![9.0; 16 * width]);
    embed(client, &step, 11, &Buffer::floats(client, &table), &out, width);
    let got = out.read(client, 16 * width).await.unwrap();
    for row in 0..11 {
        let token = batch.tokens[row] as usize;
        assert_eq!(got[row * width..(row + 1) * width], table[token * width..(token + 1) * width]);
    }
    assert!(got[11 * width..].iter().all(|&x| x == 9.0), "rows past the batch were written");
}

#[wasm_bindgen_test]
async fn products_norms_and_fusions() {
    let gpu = gpu().await;
    let client = gpu.client();
    let mut worst: f64 = 0.0;
    // Rows on both sides of every tile's edge and of the switch between kernels; widths that fill no tile.
    let shapes = [
        (1, 64, 64),
        (3, 40, 36),
        (8, 256, 384),
        (9, 256, 260),
        (32, 1024, 64),
        (33, 40, 36),
        (64, 256, 260),
        (129, 1032, 72),
    ];
    let fuses = [Fuse::Store, Fuse::Add, Fuse::Gate];
    for (case, (rows, inputs, outputs)) in shapes.into_iter().enumerate() {
        for (fuse, norm) in fuses.into_iter().flat_map(|fuse| [(fuse, None), (fuse, Some(1e-5f32))]) {
            let seed = case as u64 * 10;
            let columns = if fuse == Fuse::Gate { 2 * outputs } else { outputs };
            let (x, gain) = (numbers(seed, rows * inputs), numbers(seed + 1, inputs));
            let (matrix, before) = (numbers(seed + 2, inputs * columns), numbers(seed + 3, rows * outputs));
            let product = Projection { inputs, outputs, norm, fuse, rows: Rows::All };
            let out = Buffer::floats(client, &before);
            let step = Buffer::step(client, &decodes(&vec![1; rows], 4, 131), &mut vec![]);
            let buffers = [&x, &gain, &matrix].map(|values| Buffer::floats(client, values));
            product.launch(client, &step, rows, &buffers[0], &buffers[1], &buffers[2], &out);
            let got = out.read(client, rows * outputs).await.unwrap();
            let wanted = project(&product, &x, &gain, &matrix, &before);
            let what = format!("{rows} × {inputs} × {outputs}, {fuse:?}, norm {norm:?}");
            worst = worst.max(agree(&what, &got, &wanted));
        }
    }
    console_log!("products differ by {worst:.1e} at most");
}

#[wasm_bindgen_test]
async fn sampled_rows_are_packed() {
    let gpu = gpu().await;
    let client = gpu.client();
    let (inputs, outputs) = (64, 260);
    // Few and many: both kernels pick rows.
    for (rows, every) in [(20, 3), (120, 2)] {
        let mut batch = decodes(&vec![1; rows], 4, 131);
        batch.sampled = (0..rows as u32).filter(|row| row % every == 1).collect();
        let samples = batch.sampled.len();
        let (x, gain, matrix) = (numbers(1, rows * inputs), numbers(2, inputs), numbers(3, inputs * outputs));
        let picked: Vec<f32> =
            batch.sampled.iter().flat_map(|&row| &x[row as usize * inputs..][..inputs]).copied().collect();
        let product = Projection { inputs, outputs, norm: Some(1e-5), fuse: Fuse::Store, rows: Rows::Sampled };
        let wanted = project(&product, &picked, &gain, &matrix, &vec![0.0; samples * outputs]);
        let step = Buffer::step(client, &batch, &mut vec![]);
        let [x, gain, matrix] = [&x, &gain, &matrix].map(|values| Buffer::floats(client, values));
        let packed = Buffer::floats(client, &vec![7.0; (samples + 1) * inputs]);
        pack(client, &step, samples, &x, &packed, inputs);
        let got = packed.read(client, (samples + 1) * inputs).await.unwrap();
        assert_eq!(got, [picked, vec![7.0; inputs]].concat());
        for (rows, input) in [(Rows::Sampled, &x), (Rows::Packed, &packed)] {
            let out = Buffer::floats(client, &vec![7.0; (samples + 1) * outputs]);
            Projection { rows, ..product }.launch(client, &step, samples, input, &gain, &matrix, &out);
            let got = out.read(client, (samples + 1) * outputs).await.unwrap();
            agree("sampled rows", &got[..samples * outputs], &wanted);
            assert!(got[samples * outputs..].iter().all(|&x| x == 7.0), "a row past the samples was written");
        }
    }
}

fn project(p: &Projection, x: &[f32], gain: &[f32], matrix: &[f32], before: &[f32]) -> Vec<f64> {
    let columns = matrix.len() / p.inputs;
    let mut out = vec![];
    for (row, x) in x.chunks(p.inputs).enumerate() {
        let squares: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
        let root = p.norm.map(|epsilon| (squares / p.inputs as f64 + f64::from(epsilon)).sqrt());
        let product = |column: usize| -> f64 {
            (0..p.inputs)
                .map(|k| {
                    let x = root.map_or(f64::from(x[k]), |root| f64::from(x[k]) / root * f64::from(gain[k]));
                    x * f64::from(matrix[k * columns + column])
                })
                .sum()
        };
        for column in 0..p.outputs {
            out.push(match p.fuse {
                Fuse::Store => product(column),
                Fuse::Add => f64::from(before[row * p.outputs + column]) + product(column),
                Fuse::Gate => {
                    let gate = product(column);
                    gate / (1.0 + (-gate).exp()) * product(p.outputs + column)
                }
            });
        }
    }
    out
}

#[wasm_bindgen_test]
async fn rotation_and_cache_write() {
    let gpu = gpu().await;
    let client = gpu.client();
    for (heads, kv_heads, head_width) in [(8, 2, 32), (2, 1, 32), (3, 3, 8)] {
        let (block_tokens, blocks) = (4, 101);
        let batch = decodes(&[1, 7, 8, 60, 200], block_tokens, blocks);
        let (rows, half, kv_width) = (batch.rows(), head_width / 2, kv_heads * head_width);
        let row_width = (heads + 2 * kv_heads) * head_width;
        let qkv = numbers(4, rows * row_width);
        let turns = numbers(5, 200 * half * 2);
        let slots = blocks * block_tokens;
        let buffers = [&qkv, &turns, &vec![3.0; slots * kv_width], &vec![4.0; slots * kv_width]];
        let [qkv_buffer, turns_buffer, k, v] = buffers.map(|values| Buffer::floats(client, values));
        let step = Buffer::step(client, &batch, &mut vec![]);
        Rope { heads, kv_heads, head_width }.launch(client, &step, rows, &turns_buffer, &qkv_buffer, &k, &v);

        let mut wanted_q = vec![];
        let (mut wanted_k, mut wanted_v) = (vec![3.0; slots * kv_width], vec![4.0; slots * kv_width]);
        for row in 0..rows {
            let position = batch.positions[row] as usize;
            let of = |head: usize, d: usize| f64::from(qkv[row * row_width + head * head_width + d]);
            let turned = |head: usize, d: usize| {
                let pair = d % half;
                let at = (position * half + pair) * 2;
                let (cos, sin) = (f64::from(turns[at]), f64::from(turns[at + 1]));
                if d < half {
                    of(head, d) * cos - of(head, d + half) * sin
                } else {
                    of(head, d) * cos + of(head, pair) * sin
                }
            };
            wanted_q
                .extend((0..heads).flat_map(|head| (0..head_width).map(move |d| (head, d))).map(|(h, d)| turned(h, d)));
            for (head, d) in (0..kv_heads).flat_map(|head| (0..head_width).map(move |d| (head, d))) {
                let at = batch.slots[row] as usize * kv_width + head * head_width + d;
                wanted_k[at] = turned(heads + head, d);
                wanted_v[at] = of(heads + kv_heads + head, d);
            }
        }
        let got = qkv_buffer.read(client, rows * row_width).await.unwrap();
        let got_q: Vec<f32> = got.chunks(row_width).flat_map(|row| &row[..heads * head_width]).copied().collect();
        agree("queries", &got_q, &wanted_q);
        agree("keys", &k.read(client, slots * kv_width).await.unwrap(), &wanted_k);
        agree("values", &v.read(client, slots * kv_width).await.unwrap(), &wanted_v);
    }
}

#[wasm_bindgen_test]
async fn attention_through_block_tables() {
    let gpu = gpu().await;
    let client = gpu.client();
    let mut worst: f64 = 0.0;
    // Groups of one, four and eight heads; outputs that fill the cube's units and outputs that leave some over.
    for (heads, kv_heads, head_width, block_tokens) in
        [(8, 2, 32, 16), (2, 1, 32, 4), (3, 3, 8, 5), (8, 1, 64, 16), (6, 2, 24, 16)]
    {
        let blocks = 401;
        let mut batch = decodes(&[1, 15, 16, 17, 127, 128, 129, 256, 300], block_tokens, blocks);
        batch.sampled = vec![3, 8];
        let (rows, kv_width, slots) = (batch.rows(), kv_heads * head_width, blocks * block_tokens);
        let row_width = (heads + 2 * kv_heads) * head_width;
        let (qkv, k, v) = (numbers(6, rows * row_width), numbers(7, slots * kv_width), numbers(8, slots * kv_width));
        // Queries large enough that the softmax is far from uniform.
        let qkv: Vec<f32> = qkv.iter().map(|q| q * 6.0).collect();
        let [qkv_buffer, k_buffer, v_buffer] = [&qkv, &k, &v].map(|values| Buffer::floats(client, values));
        let out = Buffer::empty(client, rows * heads * head_width);
        let step = Buffer::step(client, &batch, &mut vec![]);
        let shape = Attention { heads, kv_heads, head_width, block_tokens, rows: Rows::All };
        assert_eq!(shape.validate(), Ok(()));
        shape.launch(client, &step, rows, &qkv_buffer, &k_buffer, &v_buffer, &out);
        let got = out.read(client, rows * heads * head_width).await.unwrap();
        // Sampled rows are attended to alike, one after the other.
        let sampled = Attention { rows: Rows::Sampled, ..shape };
        sampled.launch(client, &step, 2, &qkv_buffer, &k_buffer, &v_buffer, &out);
        let packed = out.read(client, 2 * heads * head_width).await.unwrap();
        assert_eq!(
            packed,
            [&got[3 * heads * head_width..][..heads * head_width], &got[8 * heads * head_width..]].concat()
        );

        let mut wanted = vec![];
        for span in &batch.spans {
            let table = batch.table(span);
            for head in 0..heads {
                let shared = head / (heads / kv_heads);
                let q = &qkv[span.row * row_width + head * head_width..][..head_width];
                let at = |position: usize| {
                    let slot = table[position / block_tokens] as usize * block_tokens + position % block_tokens;
                    slot * kv_width + shared * head_width
                };
                let scores: Vec<f64> = (0..span.context())
                    .map(|position| {
                        let k = &k[at(position)..][..head_width];
                        let dot: f64 = q.iter().zip(k).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                        dot / (head_width as f64).sqrt()
                    })
                    .collect();
                let most = scores.iter().copied().fold(f64::MIN, f64::max);
                let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                for d in 0..head_width {
                    let sum: f64 = (0..span.context())
                        .map(|position| (scores[position] - most).exp() / total * f64::from(v[at(position) + d]))
                        .sum();
                    wanted.push(sum);
                }
            }
        }
        worst = worst.max(agree(&format!("{shape:?}"), &got, &wanted));
    }
    console_log!("attention differs by {worst:.1e} at most");
}

#[wasm_bindgen_test]
fn too_wide_a_group_is_refused() {
    let shape = Attention { heads: 16, kv_heads: 1, head_width: 64, block_tokens: 16, rows: Rows::All };
    assert!(shape.validate().unwrap_err().contains("16 query heads of 64"));
}
