//! The engine's executor: N replicas on one set of weights.

use crate::alphabet::Alphabet;
use crate::batch::Batch;
use crate::boot::{Fetch, Own};
use crate::config::TinyGptConfig;
use crate::forward::{Kernels, forward};
use crate::kv::{KvCache, KvShape};
use crate::sampling::Sampler;
use servelab_engine::{ExecuteError, Executor, PlanItem, StepOutput, StepPlan};
use servelab_spec::experiment::Stage;

/// Tells the time in seconds since some instant; handed in, because this crate knows no clock.
pub type Clock = Box<dyn Fn() -> f64>;

/// Computes steps for any number of replicas, each with KV tensors of its own, made when it is first named. They share one set of weights, but for
/// those that have started by themselves ([`crate::boot`]).
pub struct TinyGptExecutor<K> {
    pub(crate) kernels: K,
    pub(crate) own: Vec<Own<K>>,
    pub(crate) fetch: Option<Fetch>,
    alphabet: Option<Alphabet>,
    shape: KvShape,
    clock: Option<Clock>,
    replicas: Vec<Option<KvCache>>,
    batch: Batch,
    logits: Vec<f32>,
    sampler: Sampler,
}

impl<K: Kernels> TinyGptExecutor<K> {
    /// An executor whose replicas have `shape` blocks. With a clock it measures each step, from the plan in hand to the tokens in hand.
    pub fn new(kernels: K, shape: KvShape, clock: Option<Clock>) -> Self {
        TinyGptExecutor {
            kernels,
            own: Vec::new(),
            fetch: None,
            alphabet: None,
            shape,
            clock,
            replicas: Vec::new(),
            batch: Batch::default(),
            logits: Vec::new(),
            sampler: Sampler::default(),
        }
    }

    /// For a model of other tokens than bytes: how it reads and writes them.
    #[must_use]
    pub fn speaking(mut self, alphabet: Alphabet) -> Self {
        self.alphabet = Some(alphabet);
        self
    }

    /// The network's shape.
    pub fn config(&self) -> &TinyGptConfig {
        self.kernels.config()
    }

    /// Blocks of each replica.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// Drops every replica's KV; later ones have `shape` blocks. The shared weights stay.
    pub fn reset(&mut self, shape: KvShape) {
        self.shape = shape;
        self.replicas.clear();
        self.own.clear();
    }

    /// Drops one replica's KV, and its weights if it has some of its own.
    pub fn drop_replica(&mut self, replica: u32) {
        if let Some(own) = self.own.get_mut(replica as usize) {
            *own = Own::default();
        }
        if let Some(cache) = self.replicas.get_mut(replica as usize) {
            *cache = None;
        }
    }

    /// One replica's KV, made if it is not there yet.
    ///
    /// # Errors
    /// When the device can not hold it.
    pub fn cache(&mut self, replica: u32) -> Result<&mut KvCache, ExecuteError> {
        let index = replica as usize;
        if self.replicas.len() <= index {
            self.replicas.resize_with(index + 1, || None);
        }
        let entry = &mut self.replicas[index];
        if entry.is_none() {
            *entry = Some(self.kernels.new_cache(self.shape)?);
        }
        Ok(entry.as_mut().expect("just made"))
    }

    /// Computes a step and gives the logits of the sampled rows, one row of `vocabulary` after the other.
    ///
    /// # Errors
    /// As [`Executor::execute`].
    pub async fn logits(&mut self, replica: u32, plan: &StepPlan) -> Result<&[f32], ExecuteError> {
        self.batch.fill_in(plan, self.kernels.config(), self.shape, self.alphabet.as_ref())?;
        self.cache(replica)?;
        let cache = self.replicas[replica as usize].as_mut().expect("just made");
        let own = self.own.get_mut(replica as usize).and_then(|own| own.kernels.as_mut());
        forward(own.unwrap_or(&mut self.kernels), cache, &self.batch, &mut self.logits).await?;
        Ok(&self.logits)
    }
}

impl<K: Kernels> Executor for TinyGptExecutor<K> {
    async fn execute(&mut self, replica: u32, plan: &StepPlan) -> Result<StepOutput, ExecuteError> {
        // Making a replica's KV is no part of its first step.
        self.cache(replica)?;
        let began = self.clock.as_ref().map(|clock| clock());
        self.logits(replica, plan).await?;
        let rows = self.logits.chunks_exact(self.kernels.config().vocabulary);
        let sampled = plan.items.iter().filter(|item| item.sample);
        let (sampler, alphabet) = (&mut self.sampler, &self.alphabet);
        let choose = |(item, row): (&PlanItem, &[f32])| {
            let token = sampler.choose(row, &item.sampling, item.output_index);
            alphabet.as_ref().map_or(token, |alphabet| alphabet.from_model(token))
        };
        let tokens = sampled.zip(rows).map(choose).collect();
        let seconds = began.zip(self.clock.as_ref()).map(|(began, clock)| clock() - began);
        Ok(StepOutput { tokens, seconds })
    }

    async fn boot(&mut self, replica: u32, stage: Stage) -> Result<f64, ExecuteError> {
        let began = self.clock.as_ref().map(|clock| clock());
        self.boot_stage(replica, stage).await?;
        // Without a clock nothing is measured, and nothing takes time.
        Ok(began.zip(self.clock.as_ref()).map_or(0.0, |(began, clock)| clock() - began))
    }

    fn released(&mut self, replica: u32) {
        self.drop_replica(replica);
    }

    fn device(&self) -> String {
        self.kernels.device()
    }
}
