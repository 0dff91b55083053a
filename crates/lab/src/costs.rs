//! Cost models by name, each with where its numbers come from, and what a fleet charged by one can serve.
//!
//! Two kinds. *Measured*: fitted to timings of a real engine. *Derived*: a GPU's datasheet and a model's shape, by the
//! roofline argument that a step must read every weight once and do every multiplication once:
//!
//! ```text
//! a = weight bytes ÷ bandwidth              every step reads the weights
//! b = d = 2 · weights ÷ arithmetic          a multiply and an add per weight and token
//! c = 4 · layers · width ÷ arithmetic       q·k and p·v, a multiply and an add each, per token and token of context
//! e = KV bytes of a token ÷ bandwidth       a decoding sequence reads its whole context
//! ```
//!
//! with arithmetic and bandwidth each at [`EFFICIENCY`] of the datasheet. The embedding table is looked up, not multiplied, so it is
//! left out of the weights. The sum charges reading *and* computing where hardware overlaps them, and nothing for
//! the host, so expect the right shape and ratios, and figures within a factor of two.

use servelab_engine::cost::CostModel;
use servelab_spec::catalog::CostInfo;
use servelab_spec::experiment::{Coefficients, EngineSpec, ExecutionMode, RateUnit, Spec};
use servelab_spec::validate::SpecError;
use servelab_workload::mean_request;

/// KV bytes of a token of the reference TinyGPT: 6 layers × (K, V) × 2 heads × 32 × 4 bytes.
const TINYGPT_KV_BYTES: u32 = 3072;

/// Share of a datasheet's arithmetic and bandwidth assumed reached. Well-tuned serving engines report 0.4 to 0.7 of either,
/// depending on batch and kernel; one round factor is easier to argue with than two exact ones.
pub const EFFICIENCY: f64 = 0.6;

/// A GPU by its datasheet.
struct Gpu {
    name: &'static str,
    label: &'static str,
    /// Dense bf16 arithmetic, FLOP/s.
    flops: f64,
    /// Memory bandwidth, bytes/s.
    bandwidth: f64,
}

const GPUS: [Gpu; 3] = [
    Gpu { name: "h100", label: "H100 SXM", flops: 989e12, bandwidth: 3.35e12 },
    Gpu { name: "a100", label: "A100 80 GB SXM", flops: 312e12, bandwidth: 2.039e12 },
    Gpu { name: "l4", label: "L4", flops: 121e12, bandwidth: 300e9 },
];

/// A model by its shape, 16-bit weights and KV.
struct Model {
    name: &'static str,
    label: &'static str,
    parameters: f64,
    vocabulary: f64,
    layers: f64,
    width: f64,
    kv_heads: f64,
    head_dim: f64,
}

/// The shape published with Llama 3 8B: 32 layers of width 4096, 8 KV heads of 128.
const LLAMA3_8B: Model = Model {
    name: "llama3_8b",
    label: "Llama 3 8B",
    parameters: 8.03e9,
    vocabulary: 128_256.0,
    layers: 32.0,
    width: 4096.0,
    kv_heads: 8.0,
    head_dim: 128.0,
};

/// All cost models, in the order shown.
pub fn all() -> Vec<CostInfo> {
    let mut costs = vec![tinygpt_wasm()];
    costs.extend(GPUS.iter().map(|gpu| derived(gpu, &LLAMA3_8B)));
    costs
}

/// The coefficients that a priced run of `spec` is charged.
///
/// # Errors
/// Unknown name, with the known ones; `custom` without coefficients.
pub fn resolve(spec: &Spec) -> Result<Coefficients, SpecError> {
    let x = &spec.execution;
    if x.cost == "custom" {
        let missing =
            || SpecError::new("execution.coefficients", "nothing", "execution.cost=custom needs coefficients");
        return x.coefficients.ok_or_else(missing);
    }
    let costs = all();
    costs.iter().find(|cost| cost.name == x.cost).map(|cost| cost.coefficients).ok_or_else(|| {
        let names: Vec<&str> = costs.iter().map(|cost| cost.name.as_str()).collect();
        SpecError::new("execution.cost", &x.cost, format!("accepted are {} and custom", names.join(", ")))
    })
}

/// KV bytes of one token: what the spec says, else those of the model that its cost model is for; 0 for custom coefficients, which name none.
pub fn token_bytes(spec: &Spec) -> u32 {
    match spec.store.token_bytes {
        0 => all().iter().find(|cost| cost.name == spec.execution.cost).map_or(0, |cost| cost.kv_bytes),
        bytes => bytes,
    }
}

/// TinyGPT in Chromium, one thread of SIMD wasm, from four timings of onnxruntime-web with the same architecture:
/// decode at context 128 with 154 tokens/s alone and 1053 tokens/s at batch 8, 1024 tokens prefilled in 0.94 s.
///
/// Three timings cannot tell five coefficients apart, so the two that concern context follow from arithmetic: a
/// token of context costs 4 · 6 layers · width 256 operations where a token costs 11.68 million.
fn tinygpt_wasm() -> CostInfo {
    let context_share = 4.0 * 6.0 * 256.0 / 11.68e6;
    let (alone_us, batch8_us, prefill_us) = (1e6 / 154.0, 8e6 / 1053.0, 0.94e6);
    let sequence = (batch8_us - alone_us) / 7.0;
    let step_us = alone_us - sequence;
    let decode_sequence_us = sequence / (1.0 + 128.0 * context_share);
    let pairs = 1024.0 * 1025.0 / 2.0;
    let prefill_token_us = (prefill_us - step_us) / (1024.0 + pairs * context_share);
    CostInfo {
        name: "tinygpt_wasm".into(),
        label: "TinyGPT in a browser, one CPU thread".into(),
        source: "fitted to timings in Chromium on a two-core machine: decode 154 tokens/s alone and 1053 tokens/s at batch 8 \
                 (context 128), 1024 tokens prefilled in 0.94 s; the context terms by arithmetic"
            .into(),
        efficiency: 1.0,
        kv_bytes: TINYGPT_KV_BYTES,
        coefficients: rounded(Coefficients {
            step_us,
            prefill_token_us,
            prefill_context_us: prefill_token_us * context_share,
            decode_sequence_us,
            decode_context_us: decode_sequence_us * context_share,
        }),
    }
}

fn derived(gpu: &Gpu, model: &Model) -> CostInfo {
    let weights = model.parameters - model.vocabulary * model.width;
    let (flops, bandwidth) = (gpu.flops * EFFICIENCY, gpu.bandwidth * EFFICIENCY);
    let token_us = 2.0 * weights / flops * 1e6;
    let kv_bytes = 2.0 * model.layers * model.kv_heads * model.head_dim * 2.0;
    CostInfo {
        name: format!("{}_{}", gpu.name, model.name),
        label: format!("{} on {}", model.label, gpu.label),
        source: format!(
            "derived from datasheets: {} dense bf16 TFLOP/s, {} GB/s, {} billion parameters of 2 bytes, {} KV bytes a token; \
             {} % of arithmetic and bandwidth assumed reached",
            gpu.flops / 1e12,
            gpu.bandwidth / 1e9,
            model.parameters / 1e9,
            kv_bytes,
            EFFICIENCY * 100.0
        ),
        efficiency: EFFICIENCY,
        kv_bytes: kv_bytes as u32,
        coefficients: rounded(Coefficients {
            step_us: 2.0 * weights / bandwidth * 1e6,
            prefill_token_us: token_us,
            prefill_context_us: 4.0 * model.layers * model.width / flops * 1e6,
            decode_sequence_us: token_us,
            decode_context_us: kv_bytes / bandwidth * 1e6,
        }),
    }
}

/// To the picosecond, which is what the engine charges: what is shown is what is used.
fn rounded(c: Coefficients) -> Coefficients {
    let round = |us: f64| libm::round(us * 1e6) / 1e6;
    Coefficients {
        step_us: round(c.step_us),
        prefill_token_us: round(c.prefill_token_us),
        prefill_context_us: round(c.prefill_context_us),
        decode_sequence_us: round(c.decode_sequence_us),
        decode_context_us: round(c.decode_context_us),
    }
}

/// Requests per second that the whole fleet can serve when no prompt token is reused.
///
/// A saturated replica keeps `n` sequences running: `max_batch`, or as many mean requests as fit its blocks. The mean
/// request (prompt P, output O) occupies its place for O − 1 decode steps and the ⌈P ÷ token budget⌉ steps of its prefill, so the
/// replica needs (O − 1 + ⌈P ÷ budget⌉) ÷ n steps a request, or (P + O − 1) ÷ budget if the budget is what binds. Hence
///
/// ```text
/// seconds a request = a · steps + b·P + c·P(P+1)/2 + d·(O−1) + e·Σ_{i=1}^{O−1} (P + i)
/// capacity          = replicas ÷ seconds a request
/// ```
///
/// A server serves a request in its mean service time on each of its slots. A fleet that counts ticks serves a request without reuse in its ticks of a miss.
///
/// It is an estimate from means, good to some ten per cent; its use is that `rate = 0.7` means much the same on any device.
pub fn capacity_per_s(spec: &Spec, cost: &CostModel) -> f64 {
    f64::from(spec.replicas) * replica_capacity_per_s(spec, cost, 0.0)
}

/// The same for one replica that finds `reuse` of every prompt cached, 0 to 1.
pub fn replica_capacity_per_s(spec: &Spec, cost: &CostModel, reuse: f64) -> f64 {
    if spec.execution.mode == ExecutionMode::Tick {
        return 1.0 / (f64::from(spec.tick.miss_ticks) * spec.tick.tick_s);
    }
    if spec.execution.mode == ExecutionMode::Server {
        return f64::from(spec.server.slots) / spec.server.service_s;
    }
    let mean = mean_request(&spec.workload);
    let (p, o) = (mean.prompt_tokens, mean.output_tokens);
    let decodes = (o - 1.0).max(0.0);
    let fresh = p * (1.0 - reuse.clamp(0.0, 1.0));
    let steps = steps_a_request(&spec.engine, (p, fresh), decodes);
    let decode_context = decodes * p + decodes * (decodes + 1.0) / 2.0;
    let picos = cost.step as f64 * steps
        + cost.prefill_token as f64 * fresh
        + cost.prefill_context as f64 * (fresh * (p - fresh) + fresh * (fresh + 1.0) / 2.0)
        + cost.decode_sequence as f64 * decodes
        + cost.decode_context as f64 * decode_context;
    1.0 / (picos.max(1.0) / 1e12)
}

/// `prompt`: its length, and how much of it has to be computed.
fn steps_a_request(engine: &EngineSpec, (prompt, fresh): (f64, f64), decodes: f64) -> f64 {
    let blocks_each = libm::ceil((prompt + decodes + 1.0) / f64::from(engine.block_tokens));
    let fitting = libm::floor(f64::from(engine.blocks) / blocks_each).max(1.0);
    let running = f64::from(engine.max_batch).min(fitting);
    if !engine.chunked_prefill {
        return (decodes + 1.0) / running;
    }
    let budget = f64::from(engine.token_budget);
    let occupied = (decodes + libm::ceil(fresh / budget)) / running;
    occupied.max((fresh + decodes) / budget)
}

/// The arrival rate of `spec` in requests per second, its unit resolved. The fixed trace has its own.
pub fn rate_per_s(spec: &Spec, cost: &CostModel) -> f64 {
    match spec.workload.rate() {
        None => 8.0,
        Some((rate, RateUnit::PerSecond)) => rate,
        Some((rate, RateUnit::OfCapacity)) => rate * capacity_per_s(spec, cost),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_engine::StepWork;

    fn seconds(cost: &CostInfo, work: StepWork) -> f64 {
        CostModel::from_coefficients(&cost.coefficients).step(&work).0 as f64 / 1e12
    }

    fn decode(batch: u32, context: u32) -> StepWork {
        let mut work = StepWork::default();
        (0..batch).for_each(|_| work.add_decode(context));
        work
    }

    fn prefill(start: u32, len: u32) -> StepWork {
        let mut work = StepWork::default();
        work.add_prefill(start, len);
        work
    }

    /// The timings it was made from, and one it was not: the last 16 of 1024 tokens took 20 ms.
    #[test]
    fn the_browser_model_gives_its_timings_back() {
        let cost = tinygpt_wasm();
        assert!((1.0 / seconds(&cost, decode(1, 128)) - 154.0).abs() < 0.1);
        assert!((8.0 / seconds(&cost, decode(8, 128)) - 1053.0).abs() < 0.5);
        assert!((seconds(&cost, prefill(0, 1024)) - 0.94).abs() < 1e-4);
        assert!((seconds(&cost, prefill(1008, 16)) / 0.020 - 1.0).abs() < 0.25);
    }

    /// By hand: 7.5 billion weights of 2 bytes at 0.6 · 3.35 TB/s are 7.47 ms a step; 2 · 7.5e9 operations at
    /// 0.6 · 989 TFLOP/s are 25.3 µs a token; 131 072 KV bytes take 65 ns.
    #[test]
    fn the_h100_follows_from_its_datasheet() {
        let c = all().into_iter().find(|cost| cost.name == "h100_llama3_8b").unwrap().coefficients;
        assert!((c.step_us - 7467.0).abs() < 1.0, "{c:?}");
        assert!((c.prefill_token_us - 25.29).abs() < 0.01, "{c:?}");
        assert!((c.decode_context_us - 0.06521).abs() < 0.00001, "{c:?}");
        assert!((c.prefill_context_us - 0.000_883_5).abs() < 1e-6, "{c:?}");
        assert_eq!(all().into_iter().map(|cost| cost.kv_bytes).collect::<Vec<_>>(), [3072, 131_072, 131_072, 131_072]);
    }

    #[test]
    fn every_cost_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = all().into_iter().map(|cost| cost.name).collect();
        assert_eq!(names.len(), all().len());
        let mut spec = Spec::default();
        for name in names {
            spec.execution.cost = name;
            spec.validate().unwrap();
            resolve(&spec).unwrap();
        }
        spec.execution.cost = "abacus".into();
        assert!(resolve(&spec).unwrap_err().accepted.contains("tinygpt_wasm"));
    }
}
