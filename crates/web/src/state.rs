//! What the page knows. All of it lives in signals of one [`App`], which is a handful of keys and copied freely.
//!
//! The *draft* is the spec in the controls; the *run* is what was last started, with the spec it was started with. When the
//! two differ the results are stale, and say so.

use crate::address;
use crate::cold::Cold;
use crate::foresight::Foresight;
use crate::link::{Host, Link};
use crate::palette::Scheme;
use crate::study::Study;
use crate::traffic::Traffic;
use crate::views::Sort;
use crate::write::Write;
use leptos::prelude::*;
use servelab_spec::catalog::{Catalog, ParamInfo, PresetInfo};
use servelab_spec::experiment::{ClientSpec, ControllerSpec};
use servelab_spec::frame::Frame;
use servelab_spec::protocol::{Chart, DeviceReport, RequestStory, Statistic};
use servelab_spec::validate::{MAX_POLICIES, SpecError};
use servelab_spec::{Report, Spec};
use std::collections::VecDeque;
use std::sync::Arc;

/// The charts, by the ids of the protocol, in the order they are shown.
pub(crate) const CHARTS: [&str; 7] = [
    STORM_CHARTS[0],
    STORM_CHARTS[1],
    SCALING_CHART,
    "ttft_over_time",
    "outstanding_over_time",
    "reuse_over_time",
    "ttft_cdf",
];

/// Latencies over time, one of which is shown at a time, in the place of the first.
pub(crate) const LATENCIES: [&str; 3] = ["ttft_over_time", "e2e_over_time", "wait_over_time"];

/// Where in [`CHARTS`] the chart with this id stands.
pub(crate) fn chart_place(id: &str) -> Option<usize> {
    let id = if LATENCIES.contains(&id) { LATENCIES[0] } else { id };
    CHARTS.iter().position(|known| *known == id)
}

/// The ones that are there only where clients have rules of their own.
pub(crate) const STORM_CHARTS: [&str; 2] = ["attempts_over_time", "attempts_over_time_log"];

/// The one that is there only where replicas come and go.
pub(crate) const SCALING_CHART: &str = "demand_and_capacity";

/// Everything the page knows.
#[derive(Clone, Copy)]
pub(crate) struct App {
    /// What can be chosen; absent until a worker has spoken.
    pub catalog: RwSignal<Option<Arc<Catalog>>>,
    /// The spec in the controls.
    pub draft: RwSignal<Spec>,
    /// What is wrong with it. Looked for once for each change, since every control asks; and so is its address.
    pub fault: Memo<Option<SpecError>>,
    /// It as the fragment of an address, with its `#`.
    pub fragment: Memo<Option<String>>,
    /// Sentences about the address or a move to another device; the visitor closes them.
    pub notices: RwSignal<Vec<String>>,
    /// The run.
    pub run: Run,
    /// Where in virtual time the stage stands.
    pub play: Play,
    /// Scheme, motion, layout.
    pub look: Look,
    /// How new replicas start.
    pub cold: Cold,
    /// Which signal sees too much load coming.
    pub foresight: Foresight,
    /// The model that writes.
    pub write: Write,
    /// Devices as measured, CPU first.
    pub devices: RwSignal<Vec<DeviceReport>>,
    /// Devices being measured.
    pub measuring: RwSignal<Vec<Host>>,
    /// Devices whose readings were dropped because the tab was hidden meanwhile: browsers slow a hidden tab down.
    pub spoilt: StoredValue<Vec<Host>>,
    /// The request that is being told of.
    pub story: RwSignal<Option<Story>>,
    /// Its prompt and output are open.
    pub panel: RwSignal<bool>,
    /// Option of the preset's guess that the visitor took.
    pub guess: RwSignal<Option<u32>>,
    /// What the table of results is sorted by; as listed when absent.
    pub sort: RwSignal<Option<Sort>>,
    /// Names of the presets whose runs have been judged on this device.
    pub learnt: RwSignal<Vec<String>>,
    /// Charts as they came, by position in [`CHARTS`].
    pub charts: [RwSignal<Option<Arc<Chart>>>; CHARTS.len()],
    /// Sweeps and knees.
    pub study: Study,
    /// The visitor's own traffic.
    pub traffic: Traffic,
    /// The last address that is an entry of the history of its own.
    pub committed: StoredValue<String, LocalStorage>,
    /// Workers that are alive.
    pub links: StoredValue<Links, LocalStorage>,
}

/// One place for each worker.
#[derive(Default)]
pub(crate) struct Links {
    pub cpu: Option<Link>,
    pub gpu: Option<Link>,
    pub bench: Option<Link>,
    /// The CPU worker has been ready once; one that never was is not started again by itself.
    pub cpu_was_ready: bool,
}

impl Links {
    pub(crate) fn slot(&mut self, host: Host) -> &mut Option<Link> {
        match host {
            Host::Cpu => &mut self.cpu,
            Host::Gpu => &mut self.gpu,
            Host::Bench => &mut self.bench,
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was started.
    Idle,
    /// The worker or the model is on its way.
    Loading,
    /// Under way.
    Running,
    /// Finished.
    Done,
    /// Cancelled, with what was finished until then.
    Partial,
    /// Cancelled before anything was finished.
    Cancelled,
    /// Failed.
    Failed,
}

impl Phase {
    pub(crate) fn busy(self) -> bool {
        matches!(self, Phase::Loading | Phase::Running)
    }
}

/// How far, in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub policy: u32,
    pub fraction: f64,
    pub t_s: f64,
    pub stage: String,
    /// Bytes of wasm that have come, while they come.
    pub received: Option<f64>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub message: String,
    /// Dotted key of the field at fault.
    pub field: Option<String>,
    /// The worker itself ended.
    pub crashed: bool,
}

/// The run that was last started.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Its number; never reused.
    pub number: RwSignal<u32>,
    /// The spec it was started with.
    pub spec: RwSignal<Option<Arc<Spec>>>,
    pub phase: RwSignal<Phase>,
    pub progress: RwSignal<Progress>,
    /// The latest result; of an earlier run until this one has its own.
    pub report: RwSignal<Option<Arc<Report>>>,
    /// The number of the run that `report` is of.
    pub reported: RwSignal<u32>,
    pub failure: RwSignal<Option<Failure>>,
    /// The paragraph that states what was run, once somebody has asked for it.
    pub methods: RwSignal<Option<String>>,
    /// Where it runs.
    pub host: RwSignal<Host>,
    /// Wall clock at its start, ms.
    pub started_ms: RwSignal<f64>,
}

/// Playback.
#[derive(Clone, Copy)]
pub(crate) struct Play {
    /// Virtual time shown, seconds.
    pub t: RwSignal<f64>,
    pub playing: RwSignal<bool>,
    /// Virtual seconds per wall second.
    pub speed: RwSignal<f64>,
    /// The visitor chose the speed, so a new run leaves it alone.
    pub speed_chosen: RwSignal<bool>,
    /// Virtual time that each policy has been simulated to, seconds.
    pub fronts: RwSignal<[f64; MAX_POLICIES]>,
    /// The picture keeps up with a run under way.
    pub follow: RwSignal<bool>,
    /// Policy on the stage.
    pub focus: RwSignal<u32>,
    /// All policies next to each other.
    pub side_by_side: RwSignal<bool>,
    /// The replica that is shown as a card where there are too many for all to be.
    pub replica: RwSignal<u32>,
    /// Some of the stage is to be seen.
    pub in_sight: RwSignal<bool>,
    /// Pictures as they came.
    pub frames: [RwSignal<Option<Arc<Frame>>>; MAX_POLICIES],
    /// Pictures that are on their way.
    pub asked: StoredValue<Asked, LocalStorage>,
}

impl Play {
    /// The last instant that any policy has reached.
    pub(crate) fn end(&self) -> f64 {
        self.fronts.with(|fronts| fronts.iter().copied().fold(0.0, f64::max))
    }

    pub(crate) fn end_untracked(&self) -> f64 {
        self.fronts.with_untracked(|fronts| fronts.iter().copied().fold(0.0, f64::max))
    }

    pub(crate) fn frame(&self, policy: u32) -> RwSignal<Option<Arc<Frame>>> {
        self.frames[(policy as usize).min(MAX_POLICIES - 1)]
    }
}

/// Book-keeping of pictures asked for: a worker answers in the order it was asked.
#[derive(Default)]
pub(crate) struct Asked {
    /// What the answers to come are.
    pub queue: VecDeque<Ask>,
    /// Instant last asked for, and of which replica alone everything, by policy.
    pub last: [Option<(f64, Option<u32>)>; MAX_POLICIES],
    /// Wall clock when the latest picture of a run under way was asked for, ms.
    pub followed_ms: f64,
    /// An animation frame is on its way.
    pub scheduled: bool,
    /// Wall clock at the last tick, ms; absent while asleep.
    pub tick_ms: Option<f64>,
    /// Instants that steps have stopped at, for stepping back.
    pub stops: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub policy: u32,
    /// The answer moves the clock.
    pub step: bool,
}

/// Appearance.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub choice: RwSignal<SchemeChoice>,
    /// The system prefers dark.
    pub system_dark: RwSignal<bool>,
    /// The system asks for less motion.
    pub reduced_motion: RwSignal<bool>,
    /// What the policy compared is shown on every card.
    pub scores: RwSignal<bool>,
    /// Which figure of a latency charts follow.
    pub statistic: RwSignal<Statistic>,
    /// Which of [`LATENCIES`] is shown.
    pub latency: RwSignal<usize>,
}

/// Which scheme the visitor wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemeChoice {
    Auto,
    Light,
    Dark,
}

impl Look {
    pub(crate) fn dark(&self) -> bool {
        match self.choice.get() {
            SchemeChoice::Auto => self.system_dark.get(),
            SchemeChoice::Light => false,
            SchemeChoice::Dark => true,
        }
    }

    pub(crate) fn scheme(&self) -> &'static Scheme {
        Scheme::of(self.dark())
    }
}

/// A story that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Story {
    pub policy: u32,
    pub request: u32,
    /// Absent while it is on its way.
    pub told: Option<Arc<RequestStory>>,
}

impl App {
    pub(crate) fn new() -> App {
        let (catalog, draft) = (RwSignal::new(None::<Arc<Catalog>>), RwSignal::new(Spec::default()));
        App {
            catalog,
            draft,
            fault: Memo::new(move |_| {
                draft.with(|draft| {
                    catalog.with(|catalog| match catalog {
                        Some(catalog) => catalog.check(draft).err(),
                        None => draft.validate().err(),
                    })
                })
            }),
            fragment: Memo::new(move |_| {
                draft.with(|draft| catalog.with(|catalog| address::fragment(draft, catalog.as_ref()?)))
            }),
            notices: RwSignal::new(Vec::new()),
            run: Run {
                number: RwSignal::new(0),
                spec: RwSignal::new(None),
                phase: RwSignal::new(Phase::Idle),
                progress: RwSignal::new(Progress::default()),
                report: RwSignal::new(None),
                reported: RwSignal::new(0),
                failure: RwSignal::new(None),
                methods: RwSignal::new(None),
                host: RwSignal::new(Host::Cpu),
                started_ms: RwSignal::new(0.0),
            },
            play: Play {
                t: RwSignal::new(0.0),
                playing: RwSignal::new(false),
                speed: RwSignal::new(1.0),
                speed_chosen: RwSignal::new(false),
                fronts: RwSignal::new([0.0; MAX_POLICIES]),
                follow: RwSignal::new(true),
                focus: RwSignal::new(0),
                side_by_side: RwSignal::new(false),
                replica: RwSignal::new(0),
                in_sight: RwSignal::new(true),
                frames: std::array::from_fn(|_| RwSignal::new(None)),
                asked: StoredValue::new_local(Asked::default()),
            },
            look: Look {
                choice: RwSignal::new(SchemeChoice::Auto),
                system_dark: RwSignal::new(false),
                reduced_motion: RwSignal::new(false),
                scores: RwSignal::new(false),
                statistic: RwSignal::new(Statistic::P50),
                latency: RwSignal::new(0),
            },
            cold: Cold::new(),
            foresight: Foresight::new(),
            write: Write::new(),
            devices: RwSignal::new(Vec::new()),
            measuring: RwSignal::new(Vec::new()),
            spoilt: StoredValue::new(Vec::new()),
            story: RwSignal::new(None),
            panel: RwSignal::new(false),
            guess: RwSignal::new(None),
            sort: RwSignal::new(None),
            learnt: RwSignal::new(vec![]),
            charts: std::array::from_fn(|_| RwSignal::new(None)),
            study: Study::new(),
            traffic: Traffic::new(),
            committed: StoredValue::new_local(String::new()),
            links: StoredValue::new_local(Links::default()),
        }
    }

    /// The app of this page.
    pub(crate) fn here() -> App {
        expect_context::<App>()
    }

    /// The preset that the draft started from.
    pub(crate) fn preset(&self) -> Option<PresetInfo> {
        let name = self.draft.with(|spec| spec.preset.clone());
        self.catalog.with(|catalog| catalog.as_ref()?.presets.iter().find(|preset| preset.name == name).cloned())
    }

    /// The chart with this id is the one that grows while the run goes on: what the run is about, over time.
    pub(crate) fn grows(&self, id: &str) -> bool {
        let about = self.run.spec.with(|spec| match spec {
            Some(spec) if spec.scaling.on => SCALING_CHART,
            Some(spec) if spec.clients.on => STORM_CHARTS[0],
            _ => "outstanding_over_time",
        });
        id == about && self.run.phase.get() == Phase::Running
    }

    /// The controls say something else than what was run.
    pub(crate) fn stale(&self) -> bool {
        self.run.spec.with(|ran| ran.as_ref().is_some_and(|ran| self.draft.with(|draft| **ran != *draft)))
    }

    /// What is wrong with the draft, if anything is.
    pub(crate) fn draft_error(&self) -> Option<SpecError> {
        self.fault.get()
    }

    /// A policy's name for people, with what it was given.
    pub(crate) fn policy_label(&self, policy: u32) -> String {
        let Some(spec) = self.run.spec.get() else { return String::new() };
        let contenders = spec.contenders();
        let Some(run) = contenders.get(policy as usize) else { return String::new() };
        let label = || spec.policies.get(run.policy).map(|chosen| self.label_of(chosen)).unwrap_or_default();
        if let Some(client) = run.clients.and_then(|index| spec.clients.policies.get(index)) {
            let alone = spec.policies.len() == 1 && spec.scaling.controllers.len() <= 1;
            return if alone {
                self.client_label(client)
            } else {
                format!("{}, {}", label(), self.client_label(client))
            };
        }
        let Some(controller) = run.controller.and_then(|index| spec.scaling.controllers.get(index)) else {
            return label();
        };
        match (spec.policies.len(), spec.scaling.controllers.len()) {
            (1, _) => self.controller_label(controller),
            (_, 1) => label(),
            _ => format!("{}, {}", label(), self.controller_label(controller)),
        }
    }

    /// The name of the router of a run, whoever decides how many replicas there are.
    pub(crate) fn router_label(&self, policy: u32) -> String {
        let Some(spec) = self.run.spec.get() else { return String::new() };
        let run = spec.contenders().get(policy as usize).copied();
        run.and_then(|run| spec.policies.get(run.policy)).map(|chosen| self.label_of(chosen)).unwrap_or_default()
    }

    /// A client policy's name for people, with what it was given.
    pub(crate) fn client_label(&self, policy: &ClientSpec) -> String {
        self.catalog.with(|catalog| {
            let info = catalog.as_ref().and_then(|c| c.clients.iter().find(|info| info.name == policy.name));
            let Some(info) = info else { return policy.name.clone() };
            let given = |param: &ParamInfo| {
                let value = policy.params.get(&param.name).filter(|value| **value != param.default)?;
                Some(crate::text::param_note(param, *value))
            };
            let notes: Vec<String> = info.params.iter().filter_map(given).collect();
            if notes.is_empty() { info.label.clone() } else { format!("{} ({})", info.label, notes.join(", ")) }
        })
    }

    /// A controller's name for people, with what it was given.
    pub(crate) fn controller_label(&self, controller: &ControllerSpec) -> String {
        self.catalog.with(|catalog| {
            let info = catalog.as_ref().and_then(|c| c.controllers.iter().find(|info| info.name == controller.name));
            let Some(info) = info else { return controller.name.clone() };
            let given = |param: &ParamInfo| {
                let value = controller.params.get(&param.name).filter(|value| **value != param.default)?;
                Some(crate::text::param_note(param, *value))
            };
            let notes: Vec<String> = info.params.iter().filter_map(given).collect();
            if notes.is_empty() { info.label.clone() } else { format!("{} ({})", info.label, notes.join(", ")) }
        })
    }

    /// The same for any policy.
    pub(crate) fn label_of(&self, policy: &servelab_spec::experiment::PolicySpec) -> String {
        self.catalog.with(|catalog| {
            let info = catalog.as_ref().and_then(|c| c.policies.iter().find(|info| info.name == policy.name));
            let Some(info) = info else { return self.name_before(&policy.name) };
            let notes: Vec<String> = info
                .params
                .iter()
                .filter_map(|param| {
                    let value = policy.params.get(&param.name).filter(|value| **value != param.default)?;
                    Some(crate::text::param_note(param, *value))
                })
                .collect();
            if notes.is_empty() { info.label.clone() } else { format!("{} ({})", info.label, notes.join(", ")) }
        })
    }

    /// What a report calls a policy, before a worker has spoken; its plain name where none is there.
    fn name_before(&self, name: &str) -> String {
        let label = self.run.report.with_untracked(|report| {
            report.as_ref()?.policies.iter().find(|policy| policy.name == name).map(|policy| policy.label.clone())
        });
        label.unwrap_or_else(|| name.to_owned())
    }
}
