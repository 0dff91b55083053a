//! The demand curve of the draft as text: `hour:level` pairs, typed, pasted or taken from a file of two columns.

mod pad;

use crate::state::App;
use crate::{address, text};
use js_sys::Reflect;
use leptos::prelude::*;
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::patch;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{Blob, HtmlInputElement};

/// Largest file that is read, bytes: a curve has at most two thousand points.
const LARGEST: f64 = 262_144.0;

/// The curve; nothing where the workload has none.
#[component]
pub(super) fn CurveField() -> impl IntoView {
    let app = App::here();
    let curve = Memo::new(move |_| {
        app.draft.with(|draft| match &draft.workload {
            WorkloadSpec::Demand(demand) => Some(demand.curve.clone()),
            WorkloadSpec::Generated(generated) => Some(generated.curve.clone()),
            _ => None,
        })
    });
    let refused = RwSignal::new(None::<String>);
    let set = move |text: &str| match app.draft.with_untracked(|draft| patch::set(draft, "workload.curve", text)) {
        Ok(spec) => {
            refused.set(None);
            app.draft.set(spec);
            address::commit(app);
        }
        Err(error) => refused.set(Some(text::sentence(&error.to_string()))),
    };
    let load = move |event: web_sys::Event| {
        let input = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        let Some(file) = input.as_ref().and_then(chosen) else { return };
        if let Some(input) = &input {
            // The same file again is a change again.
            input.set_value("");
        }
        if file.size() > LARGEST {
            refused.set(Some(text::CURVE_TOO_LARGE.into()));
            return;
        }
        spawn_local(async move {
            let Ok(read) = JsFuture::from(file.text()).await else {
                refused.set(Some(text::CURVE_UNREADABLE.into()));
                return;
            };
            set(&pairs(&read.as_string().unwrap_or_default()));
        });
    };
    view! {
        <Show when=move || curve.with(Option::is_some)>
            <div class="param" class:param-bad=move || refused.with(Option::is_some)>
                <div class="param-head"><label for="set-workload-curve">{text::CURVE}</label></div>
                <pad::Pad curve=curve set=set />
                <textarea
                    id="set-workload-curve"
                    class="curve-text"
                    rows="3"
                    spellcheck="false"
                    aria-describedby="set-workload-curve-help"
                    aria-invalid=move || refused.with(Option::is_some).to_string()
                    data-testid="curve"
                    prop:value=move || spaced(&curve.get().unwrap_or_default())
                    on:change=move |event| set(&event_target_value(&event))
                ></textarea>
                <label class="linklike file-pick">
                    {text::CURVE_FILE}
                    <input type="file" class="visually-hidden" accept=".csv,.txt,text/csv,text/plain" data-testid="curve-file" on:change=load />
                </label>
                <p class="param-help muted" id="set-workload-curve-help">{text::CURVE_HELP}</p>
                {move || refused.get().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
            </div>
        </Show>
    }
}

/// A curve as it is shown: with blanks, so that a line ends between pairs and not within a number.
fn spaced(curve: &str) -> String {
    curve.split(',').map(str::trim).collect::<Vec<_>>().join(", ")
}

/// The file that was chosen. Read by name: a binding for lists of files would be built for this alone.
fn chosen(input: &HtmlInputElement) -> Option<Blob> {
    let files = Reflect::get(input, &"files".into()).ok()?;
    Reflect::get_u32(&files, 0).ok()?.dyn_into().ok()
}

/// Lines of two columns as pairs; what is a curve already stays as it is. A first line of names is left out.
fn pairs(file: &str) -> String {
    if file.contains(':') {
        return file.trim().to_owned();
    }
    let lines = file.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate();
    let pairs = lines.filter_map(|(at, line)| {
        let (hour, level) = line.split_once([',', ';', '\t'])?;
        let (hour, level) = (hour.trim(), level.trim());
        let header = at == 0 && hour.parse::<f64>().is_err() && level.parse::<f64>().is_err();
        (!header).then(|| format!("{hour}:{level}"))
    });
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{pairs, spaced};

    #[test]
    fn pairs_stand_apart() {
        assert_eq!(spaced("0:0.1,9:1, 24:0.1"), "0:0.1, 9:1, 24:0.1");
        assert_eq!(spaced(&spaced("0:0.1,9:1")), "0:0.1, 9:1");
    }

    #[test]
    fn columns_become_pairs() {
        assert_eq!(pairs("hour,level\r\n0,0.1\n 9; 1 \n\n24\t0.1\n"), "0:0.1,9:1,24:0.1");
        assert_eq!(pairs(" 0:1,2:3 "), "0:1,2:3");
        // What is no number is left for the curve's own message.
        assert_eq!(pairs("0,1\n5,many"), "0:1,5:many");
        assert_eq!(pairs(""), "");
    }
}
