//! Constructors run once.

use super::gpu;
use std::sync::atomic::{AtomicU32, Ordering};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

static RUNS: AtomicU32 = AtomicU32::new(0);

extern "C" fn constructor() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

/// A constructor like cubecl's, which tells how often such constructors run.
#[used]
// SAFETY: a function pointer of the type that the linker's list of constructors holds; it touches one atomic.
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

/// Without a call to the constructors of our own, the linker has every export run them: the test's own start, each closure
/// that JavaScript calls, each allocation of the glue.
#[wasm_bindgen_test]
async fn constructors_run_exactly_once() {
    let gpu = gpu().await;
    for _ in 0..10 {
        gpu.client().sync().await.unwrap();
    }
    let runs = RUNS.load(Ordering::Relaxed);
    console_log!("constructors ran {runs} times");
    assert_eq!(runs, 1);
}
