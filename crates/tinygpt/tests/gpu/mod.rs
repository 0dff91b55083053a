//! What the GPU's test files share.

pub mod bench;
pub mod device;
pub mod kernels;
pub mod network;
pub mod start;

use servelab_tinygpt::gpu::{Gpu, GpuOptions};
use std::cell::RefCell;

thread_local! {
    static GPU: RefCell<Option<Gpu>> = const { RefCell::new(None) };
}

/// The tests' device, software allowed, one for all of them.
pub async fn gpu() -> Gpu {
    if let Some(gpu) = GPU.with_borrow(Clone::clone) {
        return gpu;
    }
    console_error_panic_hook::set_once();
    let gpu = Gpu::acquire(GpuOptions { allow_software: true }).await.unwrap();
    GPU.set(Some(gpu.clone()));
    gpu
}
