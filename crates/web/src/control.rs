//! What happens when: starting and ending runs, and hearing the workers.

use crate::link::{Event, Host, Link};
use crate::state::{App, Failure, Links, Phase, Progress, Story};
use crate::{address, env, playback, text, traffic, write};
use leptos::prelude::*;
use servelab_spec::catalog::{Catalog, PresetInfo};
use servelab_spec::experiment::{DeviceChoice, ExecutionMode};
use servelab_spec::protocol::{ChartRequest, DeviceReport, ExportKind, FromWorker, ToWorker};
use servelab_spec::validate::MAX_POLICIES;
use servelab_spec::wire;
use std::sync::Arc;
use std::time::Duration;
use wasm_bindgen::JsValue;

/// A run that ended within this much wall time is shown from its start; a longer one was watched while it ran.
const WATCHED_MS: f64 = 2000.0;

/// A worker that has not answered a cancel by then is in a step that does not end, and is replaced.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// Runs the draft.
pub(crate) fn start(app: App) {
    let spec = app.draft.get_untracked();
    if let Some(error) = untrack(|| app.draft_error()) {
        fail(app, Failure { message: error.to_string(), field: Some(error.field), crashed: false });
        return;
    }
    let live = spec.execution.mode == ExecutionMode::Tinygpt;
    let on_gpu = live
        && match spec.execution.device {
            DeviceChoice::Cpu => false,
            DeviceChoice::Webgpu => true,
            DeviceChoice::Auto => env::has_webgpu() && gpu_may_win(&app.devices.get_untracked()),
        };
    start_on(app, if on_gpu { Host::Gpu } else { Host::Cpu });
}

/// After a failure: runs the draft, or first loads the simulator where it never came to that.
pub(crate) fn again(app: App) {
    if app.catalog.with_untracked(Option::is_some) {
        return start(app);
    }
    app.run.failure.set(None);
    app.run.phase.set(Phase::Loading);
    open(app, Host::Cpu);
}

/// The GPU is worth its bytes unless it was measured here and lost.
fn gpu_may_win(devices: &[DeviceReport]) -> bool {
    let time = |kind: &str| devices.iter().find(|device| device.kind == kind).and_then(|device| device.decode_8_ms);
    match (time("cpu"), time("webgpu")) {
        (Some(cpu), Some(gpu)) => gpu < cpu,
        _ => !devices.iter().any(|device| device.kind == "webgpu" && (device.error.is_some() || device.software)),
    }
}

fn start_on(app: App, host: Host) {
    let spec = app.draft.get_untracked();
    let before = app.run.host.get_untracked();
    if before != host && app.run.phase.get_untracked().busy() {
        post(app, before, &ToWorker::Cancel { run: app.run.number.get_untracked() });
    }
    let run = app.run.number.get_untracked() + 1;
    app.run.number.set(run);
    app.run.host.set(host);
    clear(app);
    app.run.phase.set(Phase::Loading);
    app.run.started_ms.set(env::now_ms());
    let focus = app.play.focus.get_untracked();
    if focus as usize >= spec.contenders().len() {
        app.play.focus.set(0);
    }
    app.run.spec.set(Some(Arc::new(spec.clone())));
    post(app, host, &ToWorker::Run { run, spec: Box::new(spec) });
}

/// Opens a preset: one that asks for a guess waits for it, with nothing on the stage; any other runs.
pub(crate) fn open_preset(app: App, preset: PresetInfo) {
    let asks = preset.prediction.is_some();
    app.guess.set(None);
    app.draft.set(preset.spec);
    address::commit(app);
    if !asks {
        start(app);
        return;
    }
    if app.run.phase.get_untracked().busy() {
        let (run, host) = (app.run.number.get_untracked(), app.run.host.get_untracked());
        post(app, host, &ToWorker::Cancel { run });
    }
    // A new number: what still comes of the old run is not heard any more.
    app.run.number.update(|run| *run += 1);
    clear(app);
    app.run.spec.set(None);
    app.run.report.set(None);
    app.run.phase.set(Phase::Idle);
    app.charts.iter().for_each(|chart| chart.set(None));
}

/// Forgets the pictures and stories of an earlier run.
fn clear(app: App) {
    app.run.failure.set(None);
    app.run.methods.set(None);
    app.run.progress.set(Progress::default());
    app.story.set(None);
    app.panel.set(false);
    app.play.playing.set(false);
    app.play.follow.set(true);
    app.play.t.set(0.0);
    app.play.fronts.set([0.0; MAX_POLICIES]);
    app.play.frames.iter().for_each(|frame| frame.set(None));
    playback::forget(app);
}

/// Stops the run; what is finished is kept.
pub(crate) fn cancel(app: App) {
    if !app.run.phase.get_untracked().busy() {
        return;
    }
    let (run, host) = (app.run.number.get_untracked(), app.run.host.get_untracked());
    post(app, host, &ToWorker::Cancel { run });
    set_timeout(
        move || {
            if app.run.number.get_untracked() == run && app.run.phase.get_untracked().busy() {
                app.links.update_value(|links| *links.slot(host) = None);
                app.run.phase.set(Phase::Cancelled);
                if host == Host::Cpu {
                    open(app, Host::Cpu);
                }
            }
        },
        CANCEL_PATIENCE,
    );
}

/// Runs on the CPU what was meant for the GPU.
pub(crate) fn retry_on_cpu(app: App, reason: &str) {
    app.notices.update(|notices| notices.push(text::moved_to_cpu(reason)));
    start_on(app, Host::Cpu);
}

/// Asks for a request's story.
pub(crate) fn tell(app: App, policy: u32, request: u32) {
    app.story.set(Some(Story { policy, request, told: None }));
    let run = app.run.number.get_untracked();
    post(app, app.run.host.get_untracked(), &ToWorker::Request { run, policy, request });
}

/// Asks for a chart of the present run.
pub(crate) fn draw(app: App, chart: ChartRequest) {
    let run = app.run.number.get_untracked();
    post(app, app.run.host.get_untracked(), &ToWorker::Chart { run, chart });
}

/// Asks for the present run as a file.
pub(crate) fn export(app: App, kind: ExportKind) {
    let run = app.run.number.get_untracked();
    post(app, app.run.host.get_untracked(), &ToWorker::Export { run, kind });
}

/// Measures a device. The CPU is measured beside the simulator, the GPU in its own worker.
pub(crate) fn measure(app: App, host: Host) {
    if app.measuring.with_untracked(|measuring| measuring.contains(&host)) {
        return;
    }
    if env::hidden() {
        app.spoilt.update_value(|spoilt| spoilt.push(host));
    }
    app.measuring.update(|measuring| measuring.push(host));
    post(app, host, &ToWorker::Measure { allow_software: true });
}

/// Sends to a worker, starting it when it is not there.
pub(crate) fn post(app: App, host: Host, message: &ToWorker) {
    send(app, host, &|link| link.post(message));
}

/// The same with a value beside the message, under a name, that crosses as it is.
pub(crate) fn post_with(app: App, host: Host, message: &ToWorker, name: &str, value: &JsValue) {
    send(app, host, &|link| link.post_with(message, Some((name, value))));
}

fn send(app: App, host: Host, give: &dyn Fn(&Link)) {
    let missing = app.links.try_update_value(|links| links.slot(host).is_none()) == Some(true);
    if missing {
        open(app, host);
    }
    app.links.update_value(|links| {
        if let Some(link) = links.slot(host) {
            give(link);
        }
    });
}

/// Starts a worker.
pub(crate) fn open(app: App, host: Host) {
    match Link::open(host, move |event| hear(app, host, event)) {
        Ok(link) => app.links.update_value(|links| *links.slot(host) = Some(link)),
        // Within this turn the caller still sets up; the failure is told after it.
        Err(reason) => set_timeout(move || stopped(app, host, &reason), Duration::ZERO),
    }
}

fn hear(app: App, host: Host, event: Event) {
    match event {
        Event::Loading { received } => {
            if host == app.run.host.get_untracked() {
                app.run.progress.update(|progress| progress.received = Some(received));
            }
        }
        Event::Stopped { reason } => stopped(app, host, &reason),
        Event::Message(message) => listen(app, host, *message),
    }
}

fn listen(app: App, host: Host, message: FromWorker) {
    let current = app.run.number.get_untracked();
    match message {
        FromWorker::Ready { catalog } => ready(app, host, *catalog),
        FromWorker::Progress { run, policy, fraction, ref stage, .. }
            if app.traffic.went_on(run, stage, fraction, policy) => {}
        FromWorker::Progress { run, policy, fraction, t_s, stage } if run == current => {
            playback::reached(app, policy, t_s);
            let loading = matches!(stage.as_str(), "loading" | "building");
            app.run.phase.set(if loading { Phase::Loading } else { Phase::Running });
            app.run.progress.set(Progress { policy, fraction, t_s, stage, received: None });
        }
        FromWorker::Frame { run, frame } if run == current => playback::arrived(app, *frame),
        FromWorker::Report { run, partial, report } if run == current => {
            app.run.phase.set(if partial { Phase::Partial } else { Phase::Done });
            app.run.reported.set(run);
            if !partial {
                env::tell("servelab:finished", || wire::to_text(&*report).unwrap_or_default());
            }
            app.run.report.set(Some(Arc::new(*report)));
            let wall = env::now_ms() - app.run.started_ms.get_untracked();
            playback::ended(app, wall < WATCHED_MS);
            measure_quietly(app);
        }
        FromWorker::ColdStart { run, answer } => app.cold.answered(run, *answer),
        FromWorker::Signals { run, report } => app.foresight.answered(run, *report),
        FromWorker::Failed { run, ref message, .. }
            if app.cold.refused(run, message)
                || app.foresight.refused(run, message)
                || app.traffic.refused(run, message)
                || app.write.refused(run, message) => {}
        FromWorker::WriterLoading { run, received, total } => app.write.came(run, received, total),
        FromWorker::WriterModel { model, .. } => app.write.ready(*model),
        FromWorker::Written { run, written } => write::came(app, run, *written),
        FromWorker::Trace { run, view, spec, generator } => traffic::viewed(app, run, *view, *spec, *generator),
        FromWorker::TraceCharts { run, charts } => app.traffic.redrawn(run, charts),
        FromWorker::TraceColumns { run, columns, message } => app.traffic.asks_columns(run, columns, &message),
        FromWorker::Failed { run, message, field } if run == current => {
            if host == Host::Gpu && field.is_none() {
                retry_on_cpu(app, &message);
            } else {
                fail(app, Failure { message, field, crashed: false });
            }
        }
        FromWorker::Request { run, story } if run == current => app.story.update(|open| {
            if let Some(open) = open.as_mut().filter(|open| open.request == story.request) {
                open.told = Some(Arc::new(*story));
            }
        }),
        FromWorker::Chart { run, chart } if run == current => {
            if let Some(at) = crate::state::chart_place(&chart.id) {
                app.charts[at].set(Some(Arc::new(*chart)));
            }
        }
        FromWorker::Export { run, kind, file } if run == current => match kind {
            ExportKind::Methods => app.run.methods.set(Some(file.text)),
            _ => env::download(&file.name, &file.mime, &file.text),
        },
        FromWorker::Measured { devices } => measured(app, host, devices),
        // Answers about runs that were replaced meanwhile.
        _ => {}
    }
}

fn ready(app: App, host: Host, catalog: Catalog) {
    if host != Host::Cpu {
        return;
    }
    app.links.update_value(|links| links.cpu_was_ready = true);
    if app.catalog.with_untracked(Option::is_some) {
        return;
    }
    let (spec, warnings) = address::read(&catalog);
    app.catalog.set(Some(Arc::new(catalog)));
    app.draft.set(spec);
    app.notices.set(warnings);
    env::tell("servelab:ready", String::new);
    start(app);
}

/// The CPU is measured once the first result stands, in a worker of its own, and never on a metered connection.
fn measure_quietly(app: App) {
    if app.devices.with_untracked(Vec::is_empty) && !env::saves_data() {
        measure(app, Host::Bench);
    }
}

/// The tab was hidden, or is seen again: what is being measured is spoilt, and what was spoilt is measured again.
pub(crate) fn visibility_changed(app: App, hidden: bool) {
    let measuring = app.measuring.get_untracked();
    if hidden {
        app.spoilt.update_value(|spoilt| {
            let fresh: Vec<Host> = measuring.into_iter().filter(|host| !spoilt.contains(host)).collect();
            spoilt.extend(fresh);
        });
    } else {
        let again: Vec<Host> =
            app.spoilt.with_value(|spoilt| spoilt.iter().copied().filter(|host| !measuring.contains(host)).collect());
        app.spoilt.update_value(|spoilt| spoilt.retain(|host| measuring.contains(host)));
        again.into_iter().for_each(|host| measure(app, host));
    }
}

fn measured(app: App, host: Host, devices: Vec<DeviceReport>) {
    let spoilt = app.spoilt.with_value(|spoilt| spoilt.contains(&host));
    if spoilt && devices.iter().all(|device| device.error.is_none()) {
        app.measuring.update(|measuring| measuring.retain(|measured| *measured != host));
        if !env::hidden() {
            app.spoilt.update_value(|spoilt| spoilt.retain(|other| *other != host));
            measure(app, host);
        }
        return;
    }
    app.measuring.update(|measuring| measuring.retain(|measured| *measured != host));
    app.devices.update(|known| {
        for device in devices {
            known.retain(|old| old.kind != device.kind);
            known.push(device);
        }
        known.sort_by(|a, b| a.kind.cmp(&b.kind));
    });
    if host == Host::Bench {
        // In a later turn: this is called from the worker's own listener.
        set_timeout(move || app.links.update_value(|links: &mut Links| links.bench = None), Duration::ZERO);
    }
}

fn stopped(app: App, host: Host, reason: &str) {
    let reason = reason.to_owned();
    // In a later turn: this may be called from the worker's own listener.
    set_timeout(
        move || {
            app.links.update_value(|links| *links.slot(host) = None);
            app.measuring.update(|measuring| measuring.retain(|measured| *measured != host));
            if host == Host::Bench {
                return;
            }
            let was_ready = app.links.with_value(|links| links.cpu_was_ready);
            if host == Host::Gpu {
                let running = app.run.host.get_untracked() == Host::Gpu && app.run.phase.get_untracked().busy();
                app.devices.update(|known| {
                    known.retain(|old| old.kind != "webgpu");
                    let error = Some(reason.clone());
                    known.push(DeviceReport { kind: "webgpu".into(), error, ..DeviceReport::default() });
                });
                if running {
                    retry_on_cpu(app, &reason);
                }
                return;
            }
            fail(app, Failure { message: reason.clone(), field: None, crashed: true });
            if was_ready {
                open(app, Host::Cpu);
            }
        },
        Duration::ZERO,
    );
}

fn fail(app: App, failure: Failure) {
    app.play.playing.set(false);
    app.run.failure.set(Some(failure));
    app.run.phase.set(Phase::Failed);
}
