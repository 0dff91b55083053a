//! Who computes steps in a worker.

use servelab_engine::{ExecuteError, Executor, StepOutput, StepPlan};
use servelab_lab::writing::Codec;
use servelab_spec::Spec;
use servelab_spec::protocol::{DeviceReport, WriterFiles};
use servelab_spec::writing::WriterModel;
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

    /// Token ids of the last live run of the trained model as text, where this worker knows its words.
    fn text(&self, tokens: &[u32]) -> Option<String> {
        _ = tokens;
        None
    }

    /// Readies a model that writes text: the visitor's own files, or the one that comes with the page. `loading` is told of bytes that have
    /// come and of how many there are.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such model here, or the visitor's files are no model.
    fn open_writer(
        &mut self,
        files: Option<&WriterFiles>,
        loading: &mut dyn FnMut(f64, Option<f64>),
    ) -> impl Future<Output = Result<Scribe<Self::Executor>, OpenError>> {
        _ = (files, loading);
        async { Err(OpenError { message: "this worker has no model that writes".into(), field: None }) }
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

/// A model that writes, ready.
pub struct Scribe<E> {
    /// What computes the steps.
    pub executor: E,
    /// From text to tokens and back.
    pub codec: Box<dyn Codec>,
    /// In words.
    pub model: WriterModel,
    /// KV blocks of its replica.
    pub blocks: u32,
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
