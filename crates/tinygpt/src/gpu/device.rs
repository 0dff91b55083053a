//! Getting a device, and saying why not.

use super::watch::Watch;
use burn::backend::Wgpu;
use burn::backend::wgpu::CubeTensor;
use burn::tensor::wgpu::{WgpuSetup, wgpu};
use burn::tensor::{Device, Tensor};
use cubecl::prelude::Client;
use servelab_engine::executor::ExecuteError;
use thiserror::Error;

/// What to accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// Accept an adapter that computes on the CPU (SwiftShader, llvmpipe, WARP). Default false: such an adapter is about a
    /// hundred times slower than the CPU backend and would pass for a GPU.
    pub allow_software: bool,
}

/// Who answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Vendor, architecture and description, as far as the browser tells.
    pub name: String,
    /// Whether it computes on the CPU.
    pub software: bool,
}

/// Why there is no GPU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GpuInitError {
    /// The browser has no WebGPU, or has none for this page (it needs https or localhost).
    #[error("this browser offers no WebGPU here (it needs https or localhost)")]
    NoWebGpu,
    /// WebGPU is there, but no adapter.
    #[error("WebGPU found no adapter: {reason}")]
    NoAdapter {
        /// What the browser said.
        reason: String,
    },
    /// The only adapter computes on the CPU, and [`GpuOptions::allow_software`] is off.
    #[error("the only WebGPU adapter is software: {name}")]
    Software {
        /// Its name.
        name: String,
    },
    /// The adapter gave no device, or one that can not run our kernels.
    #[error("{name} refused a device: {reason}")]
    Refused {
        /// The adapter's name.
        name: String,
        /// What was said.
        reason: String,
    },
}

/// A device with its runtime. Keep it as long as anything made from it.
#[derive(Clone)]
pub struct Gpu {
    device: Device,
    pub(crate) client: Client,
    pub(crate) watch: Watch,
    adapter: Adapter,
    setup: WgpuSetup,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("adapter", &self.adapter).finish_non_exhaustive()
    }
}

impl Gpu {
    /// Asks for an adapter and a device and registers burn's runtime on it. After a loss it may be called again: each
    /// call makes a runtime of its own.
    ///
    /// # Errors
    /// [`GpuInitError`], which keeps apart: no WebGPU, no adapter, only a software adapter, no device.
    pub async fn acquire(options: GpuOptions) -> Result<Self, GpuInitError> {
        super::start();
        let found = probe().await?;
        if found.software && !options.allow_software {
            return Err(GpuInitError::Software { name: found.name });
        }
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: if cfg!(target_family = "wasm") { wgpu::Backends::BROWSER_WEBGPU } else { wgpu::Backends::all() },
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let request = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..wgpu::RequestAdapterOptions::default()
        };
        let adapter = instance
            .request_adapter(&request)
            .await
            .map_err(|error| GpuInitError::NoAdapter { reason: error.to_string() })?;
        let refused = |reason: String| GpuInitError::Refused { name: found.name.clone(), reason };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("TinyGPT"),
            // Our kernels need none; the runtime reads what the adapter can do and takes it for granted.
            required_features: adapter.features() & wgpu::Features::all_webgpu_mask(),
            required_limits: adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| refused(error.to_string()))?;
        let backend = adapter.get_info().backend;
        let setup = WgpuSetup { instance, adapter, device, queue, backend };
        let device = Device::wgpu_options()
            .tasks_max(TASKS_PER_SUBMISSION)
            .setup(setup.clone())
            .init()
            .map_err(|error| refused(error.to_string()))?;
        let watch = Watch::install(&setup.device);
        let client = client(&device).map_err(refused)?;
        Ok(Gpu { device, client, watch, adapter: found, setup })
    }

    /// burn's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The runtime's client, for launches of our own.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// For the report: what computes.
    pub fn name(&self) -> String {
        let Adapter { name, software } = &self.adapter;
        if *software { format!("WebGPU in software ({name})") } else { format!("WebGPU ({name})") }
    }

    /// Whether anything went wrong since the start that no call has told.
    ///
    /// # Errors
    /// [`ExecuteError::DeviceLost`] or [`ExecuteError::OutOfMemory`].
    pub fn check(&self) -> Result<(), ExecuteError> {
        self.watch.check(&self.name())
    }

    /// Gives the device up, as the browser may do at any time. Everything made from it is gone afterwards.
    pub fn destroy(&self) {
        self.setup.device.destroy();
    }
}

/// Dispatches that go to the GPU as one command buffer. A step of the reference network is 38, so that one
/// submission carries a step; on a device that needs long for one, more submissions would let it start
/// earlier, but each costs a browser another 50 to 100 µs.
const TASKS_PER_SUBMISSION: usize = 64;

/// The runtime's client, by way of a tensor: burn hands it out with one.
fn client(device: &Device) -> Result<Client, String> {
    let tensor: CubeTensor = Tensor::<1>::from_data([0.0f32; 4], device)
        .try_into_primitive::<Wgpu>()
        .map_err(|error| format!("burn put the tensor elsewhere: {error:?}"))?;
    Ok(tensor.client)
}

/// Asks the browser for an adapter, without a device and without burn: who is there?
///
/// # Errors
/// [`GpuInitError::NoWebGpu`] or [`GpuInitError::NoAdapter`].
#[cfg(target_family = "wasm")]
pub async fn probe() -> Result<Adapter, GpuInitError> {
    use js_sys::{Function, Object, Promise, Reflect};
    use wasm_bindgen::{JsCast, JsValue};
    use wasm_bindgen_futures::JsFuture;

    super::start();
    let get = |object: &JsValue, key: &str| Reflect::get(object, &JsValue::from(key)).ok().filter(|it| !it.is_falsy());
    let gpu = get(&js_sys::global(), "navigator")
        .and_then(|navigator| get(&navigator, "gpu"))
        .ok_or(GpuInitError::NoWebGpu)?;
    let request: Function =
        get(&gpu, "requestAdapter").and_then(|it| it.dyn_into().ok()).ok_or(GpuInitError::NoWebGpu)?;
    let none = |reason: &JsValue| GpuInitError::NoAdapter { reason: format!("{reason:?}") };
    let options = Object::new();
    Reflect::set(&options, &"powerPreference".into(), &"high-performance".into()).map_err(|error| none(&error))?;
    let promise: Promise =
        request.call1(&gpu, &options).map_err(|error| none(&error))?.dyn_into().map_err(|it| none(&it))?;
    let adapter = JsFuture::from(promise).await.map_err(|error| none(&error))?;
    if adapter.is_falsy() {
        return Err(GpuInitError::NoAdapter { reason: "requestAdapter answered null".into() });
    }
    let info = get(&adapter, "info").unwrap_or(JsValue::UNDEFINED);
    let word = |key: &str| get(&info, key).and_then(|it| it.as_string()).unwrap_or_default();
    let words = [word("vendor"), word("architecture"), word("device"), word("description")];
    let fallback = [&info, &adapter].iter().any(|object| get(object, "isFallbackAdapter").is_some());
    Ok(adapter_of(&words, fallback))
}

/// Asks the machine for an adapter: who is there?
///
/// # Errors
/// [`GpuInitError::NoAdapter`].
#[cfg(not(target_family = "wasm"))]
pub async fn probe() -> Result<Adapter, GpuInitError> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = instance
        .request_adapter(&wgpu::RequestAdapterOptions::default())
        .await
        .map_err(|error| GpuInitError::NoAdapter { reason: error.to_string() })?;
    let info = adapter.get_info();
    Ok(adapter_of(&[info.name, info.driver], info.device_type == wgpu::DeviceType::Cpu))
}

/// Names of rasterizers on the CPU. Browsers do not always set the fallback flag when one was chosen by a switch.
const SOFTWARE: [&str; 5] = ["swiftshader", "llvmpipe", "lavapipe", "microsoft basic render", "warp"];

fn adapter_of(words: &[String], fallback: bool) -> Adapter {
    let mut name = String::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(word);
    }
    let lower = name.to_lowercase();
    let software = fallback || SOFTWARE.iter().any(|known| lower.contains(known));
    if name.is_empty() {
        name.push_str("unnamed adapter");
    }
    Adapter { name, software }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_is_known_by_flag_or_by_name() {
        let adapter = |words: &[&str], fallback| {
            adapter_of(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), fallback)
        };
        let real = adapter(&["nvidia", "", "ampere"], false);
        assert_eq!((real.name.as_str(), real.software), ("nvidia ampere", false));
        assert!(adapter(&["google", "SwiftShader"], false).software);
        assert!(adapter(&["intel"], true).software);
        assert_eq!(adapter(&[""], false).name, "unnamed adapter");
    }
}
