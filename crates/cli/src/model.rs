//! Runs with the real model on this machine's CPU. Behind a feature, because it pulls the tensor library.

use crate::Failure;
use servelab_lab::Session;

#[cfg(not(feature = "tinygpt"))]
pub(crate) fn run(_session: &mut Session) -> Result<(), Failure> {
    let message = "execution.mode=tinygpt: this build has no model in it; build with --features tinygpt, or use execution.mode=priced";
    Err(Failure::Request(message.into()))
}

/// Where the trained model lies when nobody says otherwise: the folder that the page is built from.
#[cfg(feature = "tinygpt")]
const FOLDER: &str = "www/model";

/// Executed steps between two lines of progress: about a second's worth.
#[cfg(feature = "tinygpt")]
const STEPS: u32 = 200;

#[cfg(feature = "tinygpt")]
pub(crate) fn run(session: &mut Session) -> Result<(), Failure> {
    use servelab_spec::experiment::DeviceChoice;
    use servelab_tinygpt::{CpuKernels, KvShape, TinyGptExecutor, trained};
    use std::io::Write;
    use std::rc::Rc;
    use std::time::Instant;

    let spec = session.spec();
    if spec.execution.device == DeviceChoice::Webgpu {
        let message = "execution.device=webgpu: the command line computes on the CPU; accepted are auto and cpu";
        return Err(Failure::Request(message.into()));
    }
    let shape = KvShape { blocks: spec.engine.blocks, block_tokens: spec.engine.block_tokens };
    let get: trained::Get = Rc::new(|file, _| {
        let path = std::path::Path::new(FOLDER).join(file);
        let read = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()));
        Box::pin(std::future::ready(read))
    });
    let model = spec.execution.model;
    let opened = pollster::block_on(trained::open(model, &get));
    let (weights, alphabet) = opened.map_err(|message| Failure::Run(format!("execution.model: {message}")))?;
    let began = Instant::now();
    let clock = move || began.elapsed().as_secs_f64();
    let mut executor = TinyGptExecutor::new(CpuKernels::new(&weights), shape, Some(Box::new(clock)));
    executor = executor.fetching(trained::fetch(model, get));
    if let Some(alphabet) = alphabet {
        executor = executor.speaking(alphabet);
    }
    let mut errors = std::io::stderr();
    loop {
        let advanced = pollster::block_on(session.advance_live(&mut executor, STEPS));
        let progress = advanced.map_err(|error| Failure::Run(error.to_string()))?;
        // Progress is a courtesy: a closed standard error must not stop a run.
        let _ = write!(errors, "\r{:3.0} %  {:.1} s of virtual time ", progress.fraction * 100.0, progress.t.as_secs());
        if progress.done {
            let _ = write!(errors, "\r{:40}\r", "");
            return Ok(());
        }
    }
}
