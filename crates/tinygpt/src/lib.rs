//! TinyGPT on burn: a real transformer over paged KV tensors, an executor for the engine's step plans.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | [`TinyGptConfig`]: the network's shape |
//! | [`weights`] | [`Weights`]: plain f32 slices, random from a seed |
//! | [`weights_file`] | weights in a safetensors file, and what is checked on reading one |
//! | [`tokenizer`] | [`Tokenizer`] and the byte tokenizer |
//! | `bpe`, feature `bpe` | subword tokens |
//! | `shipped`, feature `bpe` | the trained model's files and what is checked on opening them |
//! | `train`, feature `train` | the trainer: autodiff, AdamW, held-out loss |
//! | [`rope`] | rotary angles |
//! | [`kv`] | [`KvCache`]: one replica's paged tensors |
//! | [`batch`] | a step plan, checked and laid out in rows |
//! | [`forward`] | the order of a step, and [`Kernels`]: the seam to what computes it |
//! | [`portable`] | kernels in burn's own operations, for every device |
//! | `cpu`, feature `flex` | SIMD kernels over flex tensors |
//! | `gpu`, feature `webgpu` | WebGPU kernels of our own |
//! | [`sampling`] | from logits to a token |
//! | [`executor`] | [`TinyGptExecutor`]: replicas on shared weights |
//! | [`mod@bench`] | how fast a device runs it |

pub mod alphabet;
pub mod batch;
pub mod bench;
pub mod boot;
#[cfg(feature = "bpe")]
pub mod bpe;
pub mod config;
#[cfg(feature = "flex")]
pub mod cpu;
pub mod executor;
pub mod forward;
#[cfg(feature = "webgpu")]
pub mod gpu;
pub mod kv;
#[cfg(feature = "files")]
pub mod manifest;
pub mod portable;
pub mod rope;
pub mod sampling;
#[cfg(feature = "bpe")]
pub mod shipped;
pub mod tokenizer;
#[cfg(feature = "train")]
pub mod train;
#[cfg(feature = "files")]
pub mod trained;
pub mod weights;
pub mod weights_file;

pub use alphabet::{Alphabet, AlphabetError};
pub use batch::Batch;
#[cfg(feature = "bpe")]
pub use bpe::{BpeError, BpeTokenizer};
pub use config::{ConfigError, TinyGptConfig};
#[cfg(feature = "flex")]
pub use cpu::CpuKernels;
pub use executor::{Clock, TinyGptExecutor};
pub use forward::Kernels;
pub use kv::{KvCache, KvShape};
pub use portable::Portable;
pub use tokenizer::{ByteTokenizer, Tokenizer};
pub use weights::Weights;
pub use weights_file::WeightsError;
