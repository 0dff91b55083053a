//! TinyGPT on WebGPU, by kernels of our own.
//!
//! A model this small is bound by dispatches on any real GPU, not by arithmetic: a browser spends 25 to 70 µs of API
//! time on each, and an unfused block of this network is 25 to 30 of them. So the layer is six kernels, each as
//! much as fits between two barriers that cross the whole batch:
//!
//! 1. RMSNorm and the three projections, as one matrix;
//! 2. rotary positions, and K and V into their pages;
//! 3. attention through the block tables;
//! 4. output projection, added to the residual stream;
//! 5. RMSNorm, gate and up, SwiGLU;
//! 6. down projection, added to the residual stream.
//!
//! One more looks up embeddings and one makes the logits of the rows that are sampled; when these are fewer than all, one
//! packs them before the last layer's attention, and from there on the others are left out. Everything that changes from step to
//! step travels in one small buffer, so that launches differ in nothing but their grid, and one read-back ends the
//! step.
//!
//! Tensors (weights, pages) are burn's; kernels are written in CubeCL and launched on the same client.

mod device;
pub mod kernels;
mod network;
mod start;
mod step;
mod watch;

pub use device::{Adapter, Gpu, GpuInitError, GpuOptions, probe};
pub use network::GpuKernels;
pub use start::start;
