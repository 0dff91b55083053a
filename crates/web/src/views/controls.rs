//! Everything that can be set, in groups, each setting with its unit, default and sentence, all of it from the catalog.

use super::classes::ClassesField;
use super::curve::CurveField;
use super::named::{Named, NamedList};
use super::param::Param;
use super::policies::Policies;
use super::terms::prose;
use crate::state::App;
use crate::{address, env, settings, text};
use leptos::prelude::*;
use servelab_spec::catalog::ParamInfo;
use servelab_spec::experiment::{DeviceChoice, ExecutionMode};

/// Where the panel is a drawer; the same width as in the styles.
const PHONE: &str = "(max-width: 600px)";

/// The panel of controls.
#[component]
pub(super) fn Controls() -> impl IntoView {
    let app = App::here();
    // A drawer on a phone, where the panel would be four screens between the results and what else there is. It begins shut there; what stands open when a
    // window gets narrow stays so.
    let open = RwSignal::new(false);
    let begun = StoredValue::new(false);
    env::watch_media(PHONE, move |phone| {
        if !phone || !begun.get_value() {
            open.set(!phone);
        }
        begun.set_value(true);
    });
    Effect::new(move |_| {
        if app.run.failure.with(|failure| failure.as_ref().is_some_and(|failure| failure.field.is_some())) {
            open.set(true);
        }
    });
    view! {
        <section class="controls" aria-label=text::CONTROLS_REGION data-testid="controls">
            <details prop:open=open>
            <summary class="controls-name">{text::CONTROLS_REGION}</summary>
            <div class="controls-inner">
                <Show when=move || app.stale()>
                    <p class="stale" role="status" data-testid="stale">{text::STALE}</p>
                </Show>
                <Execution />
                <Policies />
                <NamedList of=Named::Controllers />
                <NamedList of=Named::Clients />
                <Group title=text::GROUP_FLEET keys=|key| key == "replicas" || key == "seed" open=true />
                <Group title=text::GROUP_WORKLOAD keys=|key| key.starts_with("workload.") open=true />
                <CurveField />
                <Group title=text::GROUP_ENGINE keys=|key| key.starts_with("engine.") open=false />
                <Group title=text::GROUP_SIGNALS keys=|key| key.starts_with("routing.") open=false note=text::SIGNALS_NOTE />
                <Group title=text::GROUP_GATEWAY keys=|key| key.starts_with("gateway.") open=false note=text::GATEWAY_NOTE />
                <ClassesField />
                <Group title=text::GROUP_STORE keys=|key| key.starts_with("store.") open=false note=text::STORE_NOTE />
                <Group title=text::GROUP_EVENTS keys=|key| key.starts_with("events.") open=false note=text::EVENTS_NOTE />
                <Group title=text::GROUP_CLIENTS keys=|key| key.starts_with("clients.") open=false note=text::CLIENTS_NOTE />
                <Group title=text::GROUP_FAULTS keys=|key| key.starts_with("faults.") open=false note=text::FAULTS_NOTE />
                <Group title=text::GROUP_SCALING keys=|key| key.starts_with("scaling.") open=false note=text::SCALING_NOTE />
                <Group title=text::GROUP_STARTUP keys=|key| key.starts_with("startup.") && !key.starts_with("startup.probes.") open=false note=text::STARTUP_NOTE />
                <Group title=text::GROUP_PROBES keys=|key| key.starts_with("startup.probes.") open=false note=text::PROBES_NOTE />
                <Group title=text::GROUP_SLO keys=|key| key.starts_with("slo.") open=false />
            </div>
            </details>
        </section>
    }
}

/// Settings whose keys belong together. A group with a `note` is about something that most experiments leave alone: it opens by itself when a
/// preset does not.
#[component]
fn Group(
    title: &'static str,
    keys: fn(&str) -> bool,
    open: bool,
    #[prop(optional)] note: Option<&'static str>,
) -> impl IntoView {
    let app = App::here();
    let infos = Memo::new(move |_| {
        app.catalog.with(|catalog| {
            let all = catalog.as_ref().map(|catalog| catalog.settings.iter());
            let mut infos =
                all.map(|all| all.filter(|info| keys(&info.name)).cloned().collect::<Vec<_>>()).unwrap_or_default();
            infos.sort_by_key(|info| settings::rank(&info.name));
            infos
        })
    });
    let open = Memo::new(move |_| {
        let used = || {
            let preset = app.preset()?;
            let changed =
                |info: &ParamInfo| settings::get(&preset.spec, info).is_some_and(|value| value != info.default);
            Some(infos.with(|infos| infos.iter().any(changed)))
        };
        open || note.is_some() && used().unwrap_or(false)
    });
    // A fixed trace has no settings of its own: the group says so instead of standing there empty.
    let any = Memo::new(move |_| {
        infos.with(|infos| app.draft.with(|draft| infos.iter().any(|info| settings::get(draft, info).is_some())))
    });
    view! {
        <details class="group" prop:open=open>
            <summary>{title}</summary>
            {note.map(|note| view! { <p class="param-help muted">{prose(note)}</p> })}
            {move || infos.get().into_iter().map(|info| view! { <Setting info=info /> }).collect_view()}
            <Show when=move || !any.get() && app.catalog.with(Option::is_some)>
                <p class="param-help muted">{text::NOTHING_TO_SET}</p>
            </Show>
        </details>
    }
}

/// One setting of the spec.
#[component]
fn Setting(info: ParamInfo) -> impl IntoView {
    let app = App::here();
    let (read, name) = (info.clone(), info.name.clone());
    let refused = RwSignal::new(None::<String>);
    let (of_base, default) = (info.clone(), info.default);
    let value = Memo::new(move |_| {
        app.draft.with(|draft| if settings::matters(draft, &read.name) { settings::get(draft, &read) } else { None })
    });
    let base =
        Memo::new(move |_| app.preset().and_then(|preset| settings::get(&preset.spec, &of_base)).unwrap_or(default));
    // What was refused is over once something else was taken.
    Effect::new(move |_| {
        app.draft.track();
        refused.set(None);
    });
    let error = Signal::derive(move || {
        if let Some(refused) = refused.get() {
            return Some(refused);
        }
        let of_draft = app.draft_error().map(|error| (error.field.clone(), error.to_string()));
        let of_run = app.run.failure.get().and_then(|failure| Some((failure.field?, failure.message)));
        [of_draft, of_run]
            .into_iter()
            .flatten()
            .find(|(field, _)| *field == name)
            .map(|(_, words)| text::sentence(&words))
    });
    let write = info.clone();
    let change = Callback::new(move |(value, done): (f64, bool)| {
        match app.draft.with_untracked(|draft| settings::set(draft, &write, value)) {
            Ok(spec) => {
                refused.set(None);
                app.draft.set(spec);
            }
            Err(error) => refused.set(Some(text::sentence(&error.to_string()))),
        }
        if done {
            address::commit(app);
        }
    });
    let id = format!("set-{}", info.name.replace('.', "-"));
    view! { <Param id=id info=info value=value base=base error=error on_change=change /> }
}

/// Who executes the steps.
#[component]
fn Execution() -> impl IntoView {
    let app = App::here();
    let mode = Memo::new(move |_| app.draft.with(|draft| mode_of(draft.execution.mode, draft.execution.device)));
    let live = move || !matches!(mode.get(), "priced" | "tick" | "server");
    let costs = Memo::new(move |_| app.catalog.with(|c| c.as_ref().map(|c| c.costs.clone()).unwrap_or_default()));
    let cost = Memo::new(move |_| {
        let name = app.draft.with(|draft| draft.execution.cost.clone());
        costs.with(|costs| costs.iter().find(|cost| cost.name == name).cloned())
    });
    let choose = move |name: String| {
        let Some((mode, device)) = execution_of(&name) else { return };
        app.draft.update(|draft| {
            draft.execution.mode = mode;
            // A priced run has no device; the preset's stays, so that going back and forth changes nothing.
            if mode == ExecutionMode::Tinygpt {
                draft.execution.device = device;
            }
        });
        address::commit(app);
    };
    let choose_cost = move |name: String| {
        app.draft.update(|draft| {
            if name == "custom" && draft.execution.coefficients.is_none() {
                let now = costs.with_untracked(|all| {
                    all.iter().find(|cost| cost.name == draft.execution.cost).map(|cost| cost.coefficients)
                });
                draft.execution.coefficients = Some(now.unwrap_or_default());
            } else if name != "custom" {
                draft.execution.coefficients = None;
            }
            draft.execution.cost = name;
        });
        address::commit(app);
    };
    view! {
        <fieldset class="group">
            <legend>{text::GROUP_EXECUTION}</legend>
            <div class="param">
                <div class="param-head">
                    <label for="set-mode">{text::MODE}</label>
                    <span class="param-control">
                        <select id="set-mode" data-testid="mode" aria-describedby="set-mode-help" prop:value=mode on:change=move |event| choose(event_target_value(&event))>
                            <option value="priced">{text::MODE_PRICED}</option>
                            <option value="tick">{text::MODE_TICK}</option>
                            <option value="server">{text::MODE_SERVER}</option>
                            <option value="auto">{text::MODE_AUTO}</option>
                            <option value="cpu">{text::MODE_CPU}</option>
                            <option value="webgpu">{text::MODE_GPU}</option>
                        </select>
                    </span>
                </div>
                <p class="param-help muted" id="set-mode-help">
                    {move || text::mode_help(mode.get(), env::has_webgpu())}
                </p>
            </div>
            <Show when=move || mode.get() == "tick">
                <Settings keys=|key| key.starts_with("tick.") />
            </Show>
            <Show when=move || mode.get() == "server">
                <Settings keys=|key| key.starts_with("server.") />
            </Show>
            <Show when=move || mode.get() == "priced">
                <div class="param">
                    <div class="param-head">
                        <label for="set-cost">{text::COST}</label>
                        <span class="param-control">
                            <select id="set-cost" prop:value=move || app.draft.with(|draft| draft.execution.cost.clone()) on:change=move |event| choose_cost(event_target_value(&event))>
                                {move || {
                                    let now = app.draft.with_untracked(|draft| draft.execution.cost.clone());
                                    costs
                                        .get()
                                        .into_iter()
                                        .map(|cost| {
                                            let selected = cost.name == now;
                                            view! { <option value=cost.name selected=selected>{cost.label}</option> }
                                        })
                                        .collect_view()
                                }}
                                <option value="custom" selected=move || app.draft.with(|draft| draft.execution.cost == "custom")>{text::COST_CUSTOM}</option>
                            </select>
                        </span>
                    </div>
                    <p class="param-help muted">
                        {move || match cost.get() {
                            Some(cost) => text::cost_words(&cost),
                            None => text::COST_CUSTOM_HELP.to_owned(),
                        }}
                    </p>
                </div>
                <Settings keys=|key| key.starts_with("execution.coefficients.") />
            </Show>
            <Show when=live>
                <Settings keys=|key| key == "execution.model" || key == "execution.charge" />
            </Show>
        </fieldset>
    }
}

/// The settings that `keys` picks, without a frame of their own.
#[component]
fn Settings(keys: fn(&str) -> bool) -> impl IntoView {
    let app = App::here();
    // The catalog comes after the first view has been drawn.
    let infos = Memo::new(move |_| {
        app.catalog.with(|catalog| {
            let all = catalog.as_ref().map(|catalog| catalog.settings.clone()).unwrap_or_default();
            all.into_iter().filter(|info| keys(&info.name)).collect::<Vec<_>>()
        })
    });
    move || infos.get().into_iter().map(|info| view! { <Setting info=info /> }).collect_view()
}

fn mode_of(mode: ExecutionMode, device: DeviceChoice) -> &'static str {
    match (mode, device) {
        (ExecutionMode::Priced, _) => "priced",
        (ExecutionMode::Tick, _) => "tick",
        (ExecutionMode::Server, _) => "server",
        (ExecutionMode::Tinygpt, DeviceChoice::Auto) => "auto",
        (ExecutionMode::Tinygpt, DeviceChoice::Cpu) => "cpu",
        (ExecutionMode::Tinygpt, DeviceChoice::Webgpu) => "webgpu",
    }
}

fn execution_of(name: &str) -> Option<(ExecutionMode, DeviceChoice)> {
    match name {
        "priced" => Some((ExecutionMode::Priced, DeviceChoice::Auto)),
        "tick" => Some((ExecutionMode::Tick, DeviceChoice::Auto)),
        "server" => Some((ExecutionMode::Server, DeviceChoice::Auto)),
        "auto" => Some((ExecutionMode::Tinygpt, DeviceChoice::Auto)),
        "cpu" => Some((ExecutionMode::Tinygpt, DeviceChoice::Cpu)),
        "webgpu" => Some((ExecutionMode::Tinygpt, DeviceChoice::Webgpu)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_comes_back_as_itself() {
        for name in ["priced", "tick", "server", "auto", "cpu", "webgpu"] {
            let (mode, device) = execution_of(name).expect("a mode");
            assert_eq!(mode_of(mode, device), name);
        }
    }
}
