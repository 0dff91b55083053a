//! Life-before-main, once.

/// Runs the module's constructors exactly once; later calls do nothing. [`probe`](crate::gpu::probe) and
/// [`Gpu::acquire`](crate::gpu::Gpu::acquire) call it; a root may call it first thing, which costs nothing.
///
/// cubecl's IR registers its operations through link-time constructors. When nothing in a wasm module refers to
/// `__wasm_call_ctors`, the linker assumes a command (a program that runs once and ends) and wraps *every* export in a
/// call to it, the allocator and closures that JavaScript calls all the time included: registries grow without
/// end and each call from JavaScript costs milliseconds (measured: a decode step of 353 ms instead of 14). Referring to
/// the symbol, here, turns the wrapping off; so it must then be called, and only once. `crates/browser/tests/web_gpu.rs` counts the runs
/// of a constructor of its own.
pub fn start() {
    #[cfg(target_family = "wasm")]
    {
        use std::sync::Once;
        static STARTED: Once = Once::new();
        unsafe extern "C" {
            fn __wasm_call_ctors();
        }
        // SAFETY: the linker provides the function in every module; it takes and returns nothing, and `Once` keeps the
        // registrations it performs from being performed twice.
        STARTED.call_once(|| unsafe { __wasm_call_ctors() });
    }
}
