//! Who computes steps in a worker.

use servelab_engine::{ExecuteError, Executor, StepOutput, StepPlan};
use servelab_spec::Spec;
use servelab_spec::protocol::DeviceReport;
use std::future::Future;

/// The devices of a worker.
pub trait Devices {
    /// What computes steps of a live run.
    type Executor: Executor;

    /// Readies a device for a live run of `spec`: weights, KV shape, pipelines.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such device here.
    fn open(&mut self, spec: &Spec) -> impl Future<Output = Result<Opened<Self::Executor>, OpenError>>;

    /// Takes an executor back after its run, so that weights need not be made again.
    fn close(&mut self, executor: Self::Executor) {
        drop(executor);
    }

    /// Measures every device of this worker. One that cannot be used is reported with its error and not left out.
    fn measure(&mut self, allow_software: bool) -> impl Future<Output = Vec<DeviceReport>>;
}

/// A device, ready.
#[derive(Debug)]
pub struct Opened<E> {
    /// What computes the steps.
    pub executor: E,
    /// Why it is another device than the spec asked for, when it is.
    pub fallback: Option<String>,
}

/// A device that cannot be had; its text is shown to the visitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What is missing, and what would help.
    pub message: String,
    /// Dotted key of the field at fault, when one is.
    pub field: Option<String>,
}

/// No device at all: a worker for priced runs only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Priced;

/// What [`Priced`] would compute with: nothing ever makes one.
#[derive(Debug)]
pub enum Nothing {}

impl Executor for Nothing {
    async fn execute(&mut self, _: u32, _: &StepPlan) -> Result<StepOutput, ExecuteError> {
        match *self {}
    }

    fn device(&self) -> String {
        match *self {}
    }
}

impl Devices for Priced {
    type Executor = Nothing;

    async fn open(&mut self, _: &Spec) -> Result<Opened<Nothing>, OpenError> {
        Err(OpenError {
            message: "this worker prices steps and computes none; choose priced steps".into(),
            field: Some("execution.mode".into()),
        })
    }

    async fn measure(&mut self, _: bool) -> Vec<DeviceReport> {
        Vec::new()
    }
}
