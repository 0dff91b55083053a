//! TinyGPT on the CPU.

mod files;

use crate::devices::{Devices, OpenError, Opened, Scribe};
use servelab_engine::Executor;
use servelab_spec::Spec;
use servelab_spec::experiment::ModelChoice;
use servelab_spec::protocol::{DeviceReport, WriterFiles};
use servelab_spec::writing::WriterModel;
use servelab_tinygpt::bench::{BenchOptions, bench};
use servelab_tinygpt::{Alphabet, CpuKernels, KvShape, TinyGptExecutor, trained};

/// KV blocks of the replica that writes, and its longest sequence, tokens: small enough that a visitor sees the pool fill and
/// cached blocks being given away.
const WRITER_BLOCKS: u32 = 96;
const WRITER_CONTEXT: u32 = 512;

/// Seconds spent on each number of the side-by-side measurement, and readings of each: about a second for all.
const MEASURE_SECONDS: f64 = 0.2;
const MEASURE_READINGS: u32 = 3;

/// The CPU of this worker.
pub struct Cpu {
    /// Seconds since some instant.
    clock: fn() -> f64,
    /// Weights of the run before, with the model that they are of.
    kept: Option<(ModelChoice, TinyGptExecutor<CpuKernels>)>,
    open: Option<ModelChoice>,
    /// Words of the trained model, once it was opened.
    alphabet: Option<Alphabet>,
}

impl Cpu {
    /// The CPU, timed by `clock` in seconds.
    pub fn new(clock: fn() -> f64) -> Self {
        Cpu { clock, kept: None, open: None, alphabet: None }
    }

    async fn executor(&mut self, model: ModelChoice, shape: KvShape) -> Result<TinyGptExecutor<CpuKernels>, OpenError> {
        if let Some((_, mut executor)) = self.kept.take_if(|(kept, _)| *kept == model) {
            executor.reset(shape);
            return Ok(executor);
        }
        // One set of weights at a time: a second would double what the tab holds.
        self.kept = None;
        let opened = trained::open(model, &files::get(false)).await;
        let (weights, alphabet) = opened.map_err(|message| {
            let message = format!("the {} model can not be used: {message}", catalog_name(model));
            OpenError { message, field: Some("execution.model".into()) }
        })?;
        let clock = self.clock;
        let executor = TinyGptExecutor::new(CpuKernels::new(&weights), shape, Some(Box::new(clock)));
        let executor = executor.fetching(trained::fetch(model, files::get(true)));
        Ok(match alphabet {
            Some(alphabet) => executor.speaking(self.alphabet.insert(alphabet).clone()),
            None => executor,
        })
    }
}

fn catalog_name(model: ModelChoice) -> &'static str {
    match model {
        ModelChoice::Reference => "reference",
        ModelChoice::Small => "small",
        ModelChoice::Trained => "trained",
    }
}

impl Devices for Cpu {
    type Executor = TinyGptExecutor<CpuKernels>;

    async fn open(&mut self, spec: &Spec) -> Result<Opened<Self::Executor>, OpenError> {
        let model = spec.execution.model;
        let shape = KvShape { blocks: spec.engine.blocks, block_tokens: spec.engine.block_tokens };
        let executor = self.executor(model, shape).await?;
        self.open = Some(model);
        Ok(Opened { executor, fallback: None })
    }

    fn close(&mut self, mut executor: Self::Executor) {
        // The weights stay, the KV of all replicas goes.
        let shape = executor.shape();
        executor.reset(shape);
        self.kept = self.open.take().map(|model| (model, executor));
    }

    fn text(&self, tokens: &[u32]) -> Option<String> {
        self.alphabet.as_ref().map(|alphabet| alphabet.text(tokens))
    }

    async fn open_writer(
        &mut self,
        files: Option<&WriterFiles>,
        loading: &mut dyn FnMut(f64, Option<f64>),
    ) -> Result<Scribe<Self::Executor>, OpenError> {
        let (model, notice) = match files {
            // Of files that somebody chose, whatever is wrong is said; nothing takes their place.
            Some(files) => {
                let own = files::own(files, loading).await;
                (own.map_err(|message| OpenError { message, field: None })?, None)
            }
            None => files::shipped(loading).await,
        };
        let config = &model.weights.config;
        let name = format!("{:.1} million parameters, {} tokens", config.parameters() as f64 / 1e6, config.vocabulary);
        let context = WRITER_CONTEXT.min(config.context as u32);
        let shape = KvShape { blocks: WRITER_BLOCKS, ..KvShape::default() };
        let clock = self.clock;
        let executor = TinyGptExecutor::new(CpuKernels::new(&model.weights), shape, Some(Box::new(clock)));
        let model_words = WriterModel { name, device: executor.device(), context, notice };
        let codec = Box::new(files::Text(model.tokenizer));
        Ok(Scribe { executor, codec, model: model_words, blocks: WRITER_BLOCKS })
    }

    async fn measure(&mut self, _: bool) -> Vec<DeviceReport> {
        let kind = "cpu".to_owned();
        let failed = |error: String| DeviceReport { kind: "cpu".into(), error: Some(error), ..DeviceReport::default() };
        let mut executor = match self.executor(ModelChoice::Reference, KvShape::default()).await {
            Ok(executor) => executor,
            Err(error) => return vec![failed(error.message)],
        };
        let options = BenchOptions {
            prompt: 128,
            seconds: MEASURE_SECONDS,
            readings: MEASURE_READINGS,
            ..BenchOptions::default()
        };
        let measured = bench(&mut executor, &self.clock, &options).await;
        self.kept = Some((ModelChoice::Reference, executor));
        let ms = |seconds: f64| Some(seconds * 1e3);
        vec![match measured {
            Ok(report) => DeviceReport {
                kind,
                name: report.device,
                software: false,
                decode_1_ms: ms(report.decode_1),
                decode_8_ms: ms(report.decode_8),
                prefill_128_ms: ms(report.prefill_cold),
                kernels_per_step: None,
                error: None,
            },
            Err(error) => failed(error.to_string()),
        }]
    }
}
