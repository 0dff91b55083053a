//! Paged KV: one replica's K and V, a pair of tensors a layer.
//!
//! A tensor has the shape `[blocks, block_tokens, kv_width]`, block-major, so that a block is one contiguous piece. How numbers lie *within*
//! a block is the business of the kernels that write and read it (see [`crate::forward`]).
//!
//! Writes happen in place, which burn does only where the handle is unique: a cache hands its tensors out by value
//! and takes them back, and nobody keeps a clone over a write.

use crate::config::TinyGptConfig;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use servelab_engine::ExecuteError;

/// How many blocks a replica has, and of what size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvShape {
    /// Blocks. Default 384.
    pub blocks: u32,
    /// Tokens a block holds. Default 16.
    pub block_tokens: u32,
}

impl Default for KvShape {
    fn default() -> Self {
        KvShape { blocks: 384, block_tokens: 16 }
    }
}

/// K and V of one layer.
#[derive(Debug)]
pub struct KvLayer {
    tensors: Option<(Tensor<3>, Tensor<3>)>,
}

impl KvLayer {
    /// Changes K and V; `change` gets the only handles there are, so that burn works in place.
    pub fn update(&mut self, change: impl FnOnce(Tensor<3>, Tensor<3>) -> (Tensor<3>, Tensor<3>)) {
        self.tensors = self.tensors.take().map(|(k, v)| change(k, v));
    }

    /// Handles for reading: drop them before the next write.
    pub fn read(&self) -> (Tensor<3>, Tensor<3>) {
        self.tensors.clone().expect("present between updates")
    }
}

/// One replica's paged KV tensors.
#[derive(Debug)]
pub struct KvCache {
    shape: KvShape,
    layers: Vec<KvLayer>,
}

impl KvCache {
    /// Zeroed tensors on a device.
    ///
    /// # Errors
    /// [`ExecuteError::OutOfMemory`] when the host can not hold one layer's tensor; a GPU tells at the next read-back.
    pub fn new(config: &TinyGptConfig, shape: KvShape, device: &Device) -> Result<Self, ExecuteError> {
        let dims = [shape.blocks as usize, shape.block_tokens as usize, config.kv_width()];
        let elements = dims[0].checked_mul(dims[1]).and_then(|slots| slots.checked_mul(dims[2]));
        let zeros = || {
            let mut data: Vec<f32> = Vec::new();
            let reserved = elements.is_some_and(|elements| data.try_reserve_exact(elements).is_ok());
            if !reserved {
                return Err(ExecuteError::OutOfMemory {
                    device: format!("{device:?}"),
                    reason: format!("a KV tensor of {} × {} × {} f32", dims[0], dims[1], dims[2]),
                });
            }
            data.resize(elements.unwrap_or_default(), 0.0);
            Ok(Tensor::from_data(TensorData::new(data, dims), device))
        };
        let layers = (0..config.layers).map(|_| Ok(KvLayer { tensors: Some((zeros()?, zeros()?)) }));
        Ok(KvCache { shape, layers: layers.collect::<Result<_, ExecuteError>>()? })
    }

    /// Blocks and their size.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// One layer.
    pub fn layer(&mut self, index: usize) -> &mut KvLayer {
        &mut self.layers[index]
    }

    /// Fills a block with one number in every layer, K and V alike: for tests that a block is really read.
    pub fn overwrite_block(&mut self, block: u32, value: f32) {
        let block = block as usize;
        for layer in &mut self.layers {
            let fill = |tensor: Tensor<3>| {
                let [_, tokens, width] = tensor.dims();
                let patch = Tensor::full([1, tokens, width], value, &tensor.device());
                tensor.slice_assign([block..block + 1, 0..tokens, 0..width], patch)
            };
            layer.update(|k, v| (fill(k), fill(v)));
        }
    }
}
