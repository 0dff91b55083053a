//! A model that writes: loaded when first asked, kept, and a replica whose cache stays from one request to the next.

use crate::devices::{Devices, Scribe};
use servelab_lab::writing::{WriteError, Writer};
use servelab_spec::protocol::{FromWorker, WriterFiles};
use servelab_spec::writing::WriteRequest;

/// The model, the replica, and what is to be done next.
pub(super) struct Writing<E> {
    ready: Option<(Scribe<E>, Writer)>,
    files: Option<WriterFiles>,
    /// A model was chosen and is not open yet, under this number.
    opening: Option<u32>,
    /// Asked before the model was open.
    pending: Option<(u32, WriteRequest)>,
    /// Under way.
    run: Option<u32>,
}

impl<E> Default for Writing<E> {
    fn default() -> Self {
        Writing { ready: None, files: None, opening: None, pending: None, run: None }
    }
}

impl<E: servelab_engine::Executor> Writing<E> {
    pub(super) fn busy(&self) -> bool {
        self.opening.is_some() || self.pending.is_some() || self.run.is_some()
    }

    /// Takes another model, opened by the next slice.
    pub(super) fn choose(&mut self, run: u32, files: Option<WriterFiles>) {
        *self = Writing { files, opening: Some(run), ..Writing::default() };
    }

    pub(super) fn ask(&mut self, run: u32, request: WriteRequest, say: &mut dyn FnMut(FromWorker)) {
        self.run = None;
        match &mut self.ready {
            None => self.pending = Some((run, request)),
            Some((scribe, writer)) => match writer.ask(&request, scribe.codec.as_ref()) {
                Ok(()) => self.run = Some(run),
                Err(error) => say(failed(run, &error)),
            },
        }
    }

    /// Stops what is under way with this number; whether there was something.
    pub(super) fn cancel(&mut self, run: u32, say: &mut dyn FnMut(FromWorker)) -> bool {
        if self.pending.take_if(|(pending, _)| *pending == run).is_some() {
            say(FromWorker::Failed { run, message: "stopped before it began".into(), field: None });
            return true;
        }
        if self.run != Some(run) {
            return false;
        }
        self.run = None;
        if let Some((scribe, writer)) = &mut self.ready {
            writer.stop();
            let written = Box::new(writer.written(None, scribe.codec.as_ref()));
            say(FromWorker::Written { run, written });
        }
        true
    }

    /// Opens the model, or computes one step.
    pub(super) async fn work<D: Devices<Executor = E>>(&mut self, devices: &mut D, say: &mut dyn FnMut(FromWorker)) {
        if self.ready.is_none() {
            self.open(devices, say).await;
            return;
        }
        // A model that is chosen while there is none to open is open already.
        self.opening = None;
        let (Some(run), Some((scribe, writer))) = (self.run, &mut self.ready) else { return };
        match writer.step(&mut scribe.executor).await {
            Ok(step) => {
                let written = Box::new(writer.written(step, scribe.codec.as_ref()));
                if step.is_none() || written.done {
                    self.run = None;
                }
                say(FromWorker::Written { run, written });
            }
            Err(error) => {
                writer.stop();
                self.run = None;
                say(failed(run, &error));
            }
        }
    }

    async fn open<D: Devices<Executor = E>>(&mut self, devices: &mut D, say: &mut dyn FnMut(FromWorker)) {
        let chosen = self.opening.take();
        let Some(run) = chosen.or(self.pending.as_ref().map(|(run, _)| *run)) else { return };
        let mut loading = |received, total| say(FromWorker::WriterLoading { run, received, total });
        let opened = devices.open_writer(self.files.as_ref(), &mut loading).await;
        let opened = opened.map_err(|error| error.message).and_then(|scribe| {
            let writer = Writer::new(scribe.blocks, scribe.model.context).map_err(|error| error.to_string())?;
            Ok((scribe, writer))
        });
        match opened {
            Ok((scribe, writer)) => {
                say(FromWorker::WriterModel { run, model: Box::new(scribe.model.clone()) });
                self.ready = Some((scribe, writer));
                if let Some((run, request)) = self.pending.take() {
                    self.ask(run, request, say);
                }
            }
            Err(message) => {
                // The next request tries again, with the model that comes with the page.
                self.files = None;
                let waiting = self.pending.take().map(|(run, _)| run).filter(|waiting| *waiting != run);
                for run in [Some(run), waiting].into_iter().flatten() {
                    say(FromWorker::Failed { run, message: message.clone(), field: None });
                }
            }
        }
    }
}

fn failed(run: u32, error: &WriteError) -> FromWorker {
    let field = match error {
        WriteError::Request(error) => Some(error.field.clone()),
        _ => None,
    };
    FromWorker::Failed { run, message: error.to_string(), field }
}
