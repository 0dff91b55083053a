//! One step of the network, and the seam behind which it is computed.
//!
//! A step is a mixed batch of prefill chunks and decodes, all rows concatenated. [`forward`] fixes the order: every layer writes *all* rows'
//! K and V before any row attends, so that an item may read what another item of the same step fills.
//! *How* each part is computed is a [`Kernels`]:
//!
//! | kernels | device | made of |
//! |---|---|---|
//! | [`Portable`](crate::portable::Portable) | any burn device | burn's own operations; the yardstick for the others |
//! | `CpuKernels`, feature `flex` | flex | SIMD loops over the tensors' storage |
//! | `GpuKernels`, feature `webgpu` | WebGPU | kernels of our own, a few dispatches a layer |
//!
//! The seam is coarse on purpose. The activations between two calls belong to the kernels (a scratch buffer on the CPU, tensors on a
//! GPU), so fusing across what a finer seam would separate stays possible: RMSNorm with the projection after
//! it, RoPE with the cache write, SwiGLU with its projections. What crosses it is small: the batch's row
//! numbers, the cache's tensors and, at the end, logits.

use crate::batch::Batch;
use crate::config::TinyGptConfig;
use crate::kv::{KvCache, KvLayer, KvShape};
use crate::weights::Weights;
use servelab_engine::ExecuteError;

/// The parts of a step, on one device, with the weights loaded.
///
/// One step calls [`embed`](Kernels::embed), for each layer [`write_kv`](Kernels::write_kv),
/// [`attend`](Kernels::attend) and [`feed_forward`](Kernels::feed_forward) in this order, then
/// [`logits`](Kernels::logits), all with the same batch. Only `logits` waits for the device. In the last
/// layer only rows in [`Batch::sampled`] are read afterwards: kernels may leave the others out of `attend` and
/// `feed_forward` there (their K and V must still be written).
pub trait Kernels {
    /// The network's shape.
    fn config(&self) -> &TinyGptConfig;

    /// The device in words, for reports.
    fn device(&self) -> String;

    /// The same kernels on the same device with other weights, which share nothing with these.
    ///
    /// # Errors
    /// When the device can not hold them.
    fn beside(&self, weights: &Weights) -> Result<Self, ExecuteError>
    where
        Self: Sized;

    /// A replica's KV tensors, empty.
    ///
    /// # Errors
    /// When the device can not hold them or the block size does not suit these kernels.
    fn new_cache(&self, shape: KvShape) -> Result<KvCache, ExecuteError>;

    /// Starts a step: x ← embedding of each row's token.
    fn embed(&mut self, batch: &Batch);

    /// n ← RMSNorm(x); q, k, v ← n · Wq, n · Wk, n · Wv; RoPE on q and k; k and v to each row's slot. Keeps q.
    fn write_kv(&mut self, layer: usize, kv: &mut KvLayer, batch: &Batch);

    /// x ← x + attention(q, K, V) · Wo, each row over its own context, read through its item's block table.
    fn attend(&mut self, layer: usize, kv: &KvLayer, batch: &Batch);

    /// n ← RMSNorm(x); x ← x + (SiLU(n · Wgate) ∘ (n · Wup)) · Wdown.
    fn feed_forward(&mut self, layer: usize, batch: &Batch);

    /// RMSNorm(x) · Whead of the sampled rows, in their order, into `out`, which it clears first.
    ///
    /// # Errors
    /// When the device was lost or could not run what was queued.
    fn logits(&mut self, batch: &Batch, out: &mut Vec<f32>) -> impl Future<Output = Result<(), ExecuteError>>;
}

/// Runs one step on one replica's cache; `logits` receives one row for each sampled row.
///
/// # Errors
/// Those of [`Kernels::logits`].
pub async fn forward<K: Kernels>(
    kernels: &mut K,
    cache: &mut KvCache,
    batch: &Batch,
    logits: &mut Vec<f32>,
) -> Result<(), ExecuteError> {
    kernels.embed(batch);
    for index in 0..kernels.config().layers {
        let layer = cache.layer(index);
        kernels.write_kv(index, layer, batch);
        kernels.attend(index, layer, batch);
        kernels.feed_forward(index, batch);
    }
    kernels.logits(batch, logits).await
}
