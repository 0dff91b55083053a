//! Finding a device, being refused one, losing it.

use super::gpu;
use crate::common::desk::{Desk, Line};
use crate::common::suite::{SHAPE, prompt, weights};
use js_sys::Function;
use servelab_engine::ExecuteError;
use servelab_tinygpt::TinyGptConfig;
use servelab_tinygpt::gpu::{Gpu, GpuInitError, GpuKernels, GpuOptions, probe};
use wasm_bindgen::JsValue;
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

const SOFTWARE: GpuOptions = GpuOptions { allow_software: true };

#[wasm_bindgen_test]
async fn the_adapter_has_a_name_and_software_is_refused_unless_asked_for() {
    let adapter = probe().await.unwrap();
    console_log!("adapter: {adapter:?}");
    assert!(!adapter.name.is_empty());
    match Gpu::acquire(GpuOptions::default()).await {
        Ok(gpu) => assert!(!gpu.adapter().software, "a software adapter was taken for a GPU"),
        Err(error) => assert_eq!(error, GpuInitError::Software { name: adapter.name }),
    }
    assert_eq!(gpu().await.name().contains("software"), adapter.software);
}

/// Runs JavaScript in place of the browser's WebGPU for as long as it lives.
struct Instead(JsValue);

impl Instead {
    fn of(gpu: &str) -> Self {
        let code = format!(
            "const real = Object.getOwnPropertyDescriptor(navigator, 'gpu');
             Object.defineProperty(navigator, 'gpu', {{ value: {gpu}, configurable: true }});
             return () => real ? Object.defineProperty(navigator, 'gpu', real) : delete navigator.gpu;"
        );
        Instead(Function::new_no_args(&code).call0(&JsValue::NULL).unwrap())
    }
}

impl Drop for Instead {
    fn drop(&mut self) {
        Function::from(self.0.clone()).call0(&JsValue::NULL).unwrap();
    }
}

#[wasm_bindgen_test]
async fn absence_is_told_apart() {
    let error = async |gpu: &str| {
        let instead = Instead::of(gpu);
        let error = Gpu::acquire(SOFTWARE).await.unwrap_err();
        drop(instead);
        error
    };
    assert_eq!(error("undefined").await, GpuInitError::NoWebGpu);
    let none = error("{ requestAdapter: async () => null }").await;
    assert!(matches!(&none, GpuInitError::NoAdapter { reason } if reason.contains("null")), "{none:?}");
    let thrown = error("{ requestAdapter: async () => { throw new Error('blocked by policy') } }").await;
    assert!(matches!(&thrown, GpuInitError::NoAdapter { reason } if reason.contains("blocked")), "{thrown:?}");
    // An adapter that gives no device: the real one, with a stub in front.
    let refused = error(
        "{ requestAdapter: async (options) => {
             const adapter = await Object.getPrototypeOf(navigator).__lookupGetter__('gpu').call(navigator).requestAdapter(options);
             adapter.requestDevice = async () => { throw new Error('no more devices') };
             return adapter;
         } }",
    )
    .await;
    assert!(
        matches!(&refused, GpuInitError::Refused { reason, .. } if reason.contains("no more devices")),
        "{refused:?}"
    );
    probe().await.unwrap();
}

#[wasm_bindgen_test]
async fn a_lost_device_is_an_error_and_another_can_be_had() {
    let config = TinyGptConfig { layers: 1, ..TinyGptConfig::small() };
    let weights = weights(&config, 17);
    for _ in 0..2 {
        let gpu = Gpu::acquire(SOFTWARE).await.unwrap();
        let mut desk = Desk::new(GpuKernels::new(&weights, &gpu).unwrap(), &weights, SHAPE);
        let mut lines = [Line::new(&prompt(10, 9))];
        desk.step(&mut lines, &[(0, 8)]).await.unwrap();
        assert_eq!(gpu.check(), Ok(()));
        gpu.destroy();
        let error = desk.step(&mut lines, &[(0, 1)]).await.unwrap_err();
        console_log!("after the loss: {error}");
        assert!(matches!(error, ExecuteError::DeviceLost { .. }), "{error:?}");
        assert!(matches!(gpu.check(), Err(ExecuteError::DeviceLost { .. })));
        assert!(GpuKernels::new(&weights, &gpu).is_err(), "a lost device took weights");
    }
}

/// More than the device has: told, not thrown.
#[wasm_bindgen_test]
async fn too_much_memory_is_an_error() {
    let gpu = Gpu::acquire(SOFTWARE).await.unwrap();
    let client = gpu.client();
    let buffer = servelab_tinygpt::gpu::kernels::Buffer::empty(client, 1 << 29);
    let read = buffer.read(client, 4).await;
    let told = gpu.check();
    console_log!("2 GiB: {read:?}, {told:?}");
    assert!(read.is_err() || told.is_err());
}
