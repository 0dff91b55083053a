//! The worker with simulator and CPU model; without the feature `cpu`, with the simulator alone.

#[cfg(all(target_arch = "wasm32", feature = "cpu"))]
fn main() {
    use servelab_worker::{browser, cpu::Cpu};
    browser::serve(Cpu::new(browser::seconds));
}

#[cfg(all(target_arch = "wasm32", not(feature = "cpu")))]
fn main() {
    servelab_worker::browser::serve(servelab_worker::Priced);
}

/// There is no worker outside of a browser; the command line runs the lab there.
#[cfg(not(target_arch = "wasm32"))]
fn main() {}
