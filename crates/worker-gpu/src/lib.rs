//! The lab inside a Web Worker, with TinyGPT on WebGPU.

use wasm_bindgen::prelude::wasm_bindgen;

/// Runs when the module is loaded: panics get a voice, and link-time constructors run, once and before anything else (see
/// [`servelab_tinygpt::gpu::start`]).
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
    servelab_tinygpt::gpu::start();
}
