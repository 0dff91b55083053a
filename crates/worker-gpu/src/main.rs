//! The worker with simulator and WebGPU model. Apart from the other one because it is ten times its bytes.

#[cfg(target_arch = "wasm32")]
mod gpu;

#[cfg(target_arch = "wasm32")]
fn main() {
    // Link-time constructors run here, once, before anything else of the module is called.
    servelab_tinygpt::gpu::start();
    servelab_worker::browser::serve(gpu::WebGpu::new(servelab_worker::browser::seconds));
}

/// There is no worker outside of a browser; the command line runs the lab there.
#[cfg(not(target_arch = "wasm32"))]
fn main() {}
