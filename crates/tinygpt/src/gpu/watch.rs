//! What happened to the device behind our back.
//!
//! WebGPU reports errors on the side: a call that fails succeeds, and an event tells later. The default handler
//! panics, which kills a wasm instance; ours remembers the first report of each kind until the step's end asks.

use burn::tensor::wgpu::wgpu;
use servelab_engine::executor::ExecuteError;
use std::sync::{Arc, Mutex, PoisonError};

/// The first report of each kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    reports: Arc<Mutex<Reports>>,
}

#[derive(Debug, Default)]
struct Reports {
    lost: Option<String>,
    out_of_memory: Option<String>,
    refused: Option<String>,
}

impl Watch {
    /// Starts watching. To be called after the runtime has installed its own handler, which this one replaces.
    pub(crate) fn install(device: &wgpu::Device) -> Self {
        let watch = Watch::default();
        let errors = watch.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| errors.error(&error)));
        // In a browser this adds to the runtime's own callback; natively it would replace it, and a lost device
        // would then show as a failed read.
        #[cfg(target_family = "wasm")]
        {
            let losses = watch.clone();
            device.set_device_lost_callback(move |reason, message| losses.lost(format!("{reason:?}: {message}")));
        }
        watch
    }

    fn report(&self, change: impl FnOnce(&mut Reports)) {
        change(&mut self.reports.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The device is gone.
    pub(crate) fn lost(&self, reason: String) {
        self.report(|reports| _ = reports.lost.get_or_insert(reason));
    }

    fn error(&self, error: &wgpu::Error) {
        let text = error.to_string();
        self.report(|reports| {
            _ = match error {
                wgpu::Error::OutOfMemory { .. } => reports.out_of_memory.get_or_insert(text),
                wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => reports.refused.get_or_insert(text),
            };
        });
    }

    /// What stands in the way of believing what was read back.
    pub(crate) fn check(&self, device: &str) -> Result<(), ExecuteError> {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = &reports.lost {
            return Err(ExecuteError::DeviceLost { reason: reason.clone() });
        }
        if let Some(reason) = &reports.out_of_memory {
            return Err(ExecuteError::OutOfMemory { device: device.into(), reason: reason.clone() });
        }
        // A device that refuses our commands is as good as lost: what it computed since is not what we asked for.
        if let Some(reason) = &reports.refused {
            return Err(ExecuteError::DeviceLost { reason: format!("it refused a command: {reason}") });
        }
        Ok(())
    }
}
