//! Replicas that start for real: weights of their own are fetched, brought to the device and warmed up.
//!
//! Replicas that are there from the beginning share one set of weights, because they are the same and a tab has little memory. One that starts
//! later shares nothing: what is measured would otherwise be the time of doing nothing.

use crate::bench::plan;
use crate::executor::TinyGptExecutor;
use crate::forward::Kernels;
use crate::weights::Weights;
use servelab_engine::{ExecuteError, Executor};
use servelab_spec::experiment::Stage;
use std::pin::Pin;

/// Gets weights from where they are kept, each time anew.
pub type Fetch = Box<dyn FnMut() -> Pin<Box<dyn Future<Output = Result<Weights, String>>>>>;

/// Tokens of the prompt that warms a replica up: two blocks of the default size.
const WARM_UP_PROMPT: u32 = 32;

/// What a replica has that started by itself.
pub(crate) struct Own<K> {
    /// On the host, until they are on the device.
    pub(crate) host: Option<Weights>,
    pub(crate) kernels: Option<K>,
}

impl<K> Default for Own<K> {
    fn default() -> Self {
        Own { host: None, kernels: None }
    }
}

impl<K: Kernels> TinyGptExecutor<K> {
    /// Where weights of replicas that start come from. Without it nothing can be started.
    #[must_use]
    pub fn fetching(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// Replicas with weights of their own.
    pub fn started(&self) -> usize {
        self.own.iter().filter(|own| own.kernels.is_some()).count()
    }

    /// Does a stage, and those before it that were not done here.
    pub(crate) async fn boot_stage(&mut self, replica: u32, stage: Stage) -> Result<(), ExecuteError> {
        let index = replica as usize;
        if self.fetch.is_none() {
            return Err(ExecuteError::NoStart { replica, stage });
        }
        if self.own.len() <= index {
            self.own.resize_with(index + 1, Own::default);
        }
        match stage {
            Stage::WeightsToHost => self.load_host(replica).await,
            Stage::WeightsToDevice => self.load_device(replica).await,
            Stage::WarmUp => self.warm_up(replica).await,
            _ => Err(ExecuteError::NoStart { replica, stage }),
        }
    }

    async fn load_host(&mut self, replica: u32) -> Result<(), ExecuteError> {
        self.drop_replica(replica);
        let Some(fetch) = &mut self.fetch else { return Ok(()) };
        let refuse = |reason| ExecuteError::Weights { replica, reason };
        let weights = fetch().await.map_err(refuse)?;
        if weights.config != *self.kernels.config() {
            return Err(refuse("they are of another model than the replicas that are there".into()));
        }
        self.own[replica as usize].host = Some(weights);
        Ok(())
    }

    async fn load_device(&mut self, replica: u32) -> Result<(), ExecuteError> {
        if self.own[replica as usize].host.is_none() {
            self.load_host(replica).await?;
        }
        let own = &mut self.own[replica as usize];
        if let Some(weights) = own.host.take() {
            own.kernels = Some(self.kernels.beside(&weights)?);
        }
        Ok(())
    }

    /// A first generation: a prompt of two blocks, and one token after it. On a GPU it waits for all that was queued before, the upload as well.
    async fn warm_up(&mut self, replica: u32) -> Result<(), ExecuteError> {
        if self.own[replica as usize].kernels.is_none() {
            self.load_device(replica).await?;
        }
        let block_tokens = self.shape().block_tokens;
        for (start, end) in [(0, WARM_UP_PROMPT), (WARM_UP_PROMPT, WARM_UP_PROMPT + 1)] {
            self.execute(replica, &plan(1, start, end, block_tokens)).await?;
        }
        Ok(())
    }
}
