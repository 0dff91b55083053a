//! TinyGPT on WebGPU.
//!
//! A software adapter is taken only when the visitor asked for WebGPU by name (or for a measurement that admits it): it is slower than the
//! CPU model and would pass for a GPU. In all other cases the page hears why and goes on on the CPU.

use servelab_spec::Spec;
use servelab_spec::experiment::{DeviceChoice, ModelChoice};
use servelab_spec::protocol::DeviceReport;
use servelab_tinygpt::bench::{BenchOptions, bench};
use servelab_tinygpt::gpu::{Gpu, GpuKernels, GpuOptions};
use servelab_tinygpt::{Alphabet, KvShape, TinyGptExecutor, trained};
use servelab_worker::browser::{fetch, fetch_anew};
use servelab_worker::{Devices, OpenError, Opened};
use std::rc::Rc;

/// Where the trained model lies, seen from the worker's script.
const FOLDER: &str = "./model/";

/// Files of the trained model; `anew`: not from what the browser keeps.
fn get(anew: bool) -> trained::Get {
    Rc::new(move |file, hash| {
        let version = hash.map(|hash| format!("?{}", hash.get(..12).unwrap_or(&hash)));
        let address = format!("{FOLDER}{file}{}", version.unwrap_or_default());
        Box::pin(async move { if anew { fetch_anew(&address).await } else { fetch(&address, &mut |_, _| {}).await } })
    })
}

/// Seconds spent on each number of the side-by-side measurement, and readings of each. As on the CPU; a software adapter takes its
/// one step, however long.
const MEASURE_SECONDS: f64 = 0.2;
const MEASURE_READINGS: u32 = 3;

type GpuExecutor = TinyGptExecutor<GpuKernels>;

/// The GPU of this browser.
pub(crate) struct WebGpu {
    /// Seconds since some instant.
    clock: fn() -> f64,
    /// Acquired at first use and kept until lost.
    gpu: Option<Gpu>,
    /// Weights of the run before, with the model that they are of.
    kept: Option<(ModelChoice, GpuExecutor)>,
    open: Option<ModelChoice>,
    /// Words of the trained model, once it was opened.
    alphabet: Option<Alphabet>,
}

impl WebGpu {
    /// The GPU, timed by `clock` in seconds. Nothing is asked of the browser yet.
    pub(crate) fn new(clock: fn() -> f64) -> Self {
        WebGpu { clock, gpu: None, kept: None, open: None, alphabet: None }
    }

    /// The device: the one at hand unless it is lost or a software one that is not wanted.
    async fn acquire(&mut self, allow_software: bool) -> Result<Gpu, String> {
        if let Some(gpu) = self.gpu.take_if(|gpu| gpu.check().is_err()) {
            drop(gpu);
            self.kept = None;
        }
        match &self.gpu {
            Some(gpu) if allow_software || !gpu.adapter().software => Ok(gpu.clone()),
            Some(gpu) => Err(format!("the only WebGPU adapter is software: {}", gpu.adapter().name)),
            None => {
                let gpu = Gpu::acquire(GpuOptions { allow_software }).await.map_err(|error| error.to_string())?;
                self.gpu = Some(gpu.clone());
                Ok(gpu)
            }
        }
    }

    async fn executor(&mut self, gpu: &Gpu, model: ModelChoice, shape: KvShape) -> Result<GpuExecutor, String> {
        if let Some((_, mut executor)) = self.kept.take_if(|(kept, _)| *kept == model) {
            executor.reset(shape);
            return Ok(executor);
        }
        // One set of weights at a time: a second would double what the tab holds.
        self.kept = None;
        let (weights, alphabet) = trained::open(model, &get(false)).await?;
        let kernels = GpuKernels::new(&weights, gpu).map_err(|error| error.to_string())?;
        let clock = self.clock;
        let executor = TinyGptExecutor::new(kernels, shape, Some(Box::new(clock)));
        let executor = executor.fetching(trained::fetch(model, get(true)));
        Ok(match alphabet {
            Some(alphabet) => executor.speaking(self.alphabet.insert(alphabet).clone()),
            None => executor,
        })
    }

    async fn measured(&mut self, allow_software: bool) -> Result<DeviceReport, String> {
        let gpu = self.acquire(allow_software).await?;
        let adapter = gpu.adapter().clone();
        let mut executor = self.executor(&gpu, ModelChoice::Reference, KvShape::default()).await?;
        let options = BenchOptions {
            prompt: 128,
            seconds: MEASURE_SECONDS,
            readings: MEASURE_READINGS,
            ..BenchOptions::default()
        };
        let report = bench(&mut executor, &self.clock, &options).await.map_err(|error| error.to_string())?;
        let kernels_per_step = Some(GpuKernels::decode_dispatches(executor.config()));
        self.kept = Some((ModelChoice::Reference, executor));
        let ms = |seconds: f64| Some(seconds * 1e3);
        Ok(DeviceReport {
            kind: "webgpu".into(),
            name: adapter.name,
            software: adapter.software,
            decode_1_ms: ms(report.decode_1),
            decode_8_ms: ms(report.decode_8),
            prefill_128_ms: ms(report.prefill_cold),
            kernels_per_step,
            error: None,
        })
    }
}

impl Devices for WebGpu {
    type Executor = GpuExecutor;

    async fn open(&mut self, spec: &Spec) -> Result<Opened<GpuExecutor>, OpenError> {
        // No field: the page then goes on on the CPU and says why.
        let unusable = |message: String| OpenError { message, field: None };
        let allow_software = spec.execution.device == DeviceChoice::Webgpu;
        let gpu = self.acquire(allow_software).await.map_err(unusable)?;
        let model = spec.execution.model;
        let shape = KvShape { blocks: spec.engine.blocks, block_tokens: spec.engine.block_tokens };
        let executor = self.executor(&gpu, model, shape).await.map_err(unusable)?;
        self.open = Some(model);
        Ok(Opened { executor, fallback: None })
    }

    fn close(&mut self, mut executor: GpuExecutor) {
        // The weights stay, the KV of all replicas goes.
        let shape = executor.shape();
        executor.reset(shape);
        self.kept = self.open.take().map(|model| (model, executor));
    }

    fn text(&self, tokens: &[u32]) -> Option<String> {
        self.alphabet.as_ref().map(|alphabet| alphabet.text(tokens))
    }

    async fn measure(&mut self, allow_software: bool) -> Vec<DeviceReport> {
        let failed = |error| DeviceReport { kind: "webgpu".into(), error: Some(error), ..DeviceReport::default() };
        vec![self.measured(allow_software).await.unwrap_or_else(failed)]
    }
}
