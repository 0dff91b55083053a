//! Predict, run, why: a guess before the run, and what the run says to it. The answer is worked out by the lab and comes with the report.

use super::terms::prose;
use crate::state::{App, Phase};
use crate::text;
use leptos::prelude::*;
use servelab_spec::catalog::Guess;
use servelab_spec::report::Verdict;

/// Where the visitor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Predict,
    Run,
    Why,
}

const STEPS: [(Step, &str); 3] =
    [(Step::Predict, text::STEP_PREDICT), (Step::Run, text::STEP_RUN), (Step::Why, text::STEP_WHY)];

/// The guess of the preset, if it asks for one.
#[component]
pub(super) fn Predict() -> impl IntoView {
    let app = App::here();
    let asked = Memo::new(move |_| app.preset().and_then(|preset| preset.prediction));
    // A guess is about one question: going back to another one in the history takes it along no more than choosing one does.
    let preset = Memo::new(move |_| app.draft.with(|draft| draft.preset.clone()));
    Effect::new(move |before: Option<String>| {
        let now = preset.get();
        if before.is_some_and(|before| before != now) {
            app.guess.set(None);
        }
        now
    });
    move || asked.get().map(|asked| view! { <Asked asked=asked /> })
}

#[component]
fn Asked(asked: Guess) -> impl IntoView {
    let app = App::here();
    let step = Memo::new(move |_| step_of(app));
    // While a run or its answer stands there, the guess stands too.
    let locked = move || step.get() != Step::Predict;
    let verdict = Memo::new(move |_| {
        (step.get() == Step::Why).then(|| app.run.report.with(|r| r.as_ref()?.verdict.clone())).flatten()
    });
    let right = move || verdict.with(|verdict| verdict.as_ref().map(|verdict| verdict.option));
    let options = asked
        .options
        .iter()
        .enumerate()
        .map(|(at, option)| {
            let at = at as u32;
            let mine = move || app.guess.get() == Some(at);
            view! {
                <label class="guess" class:guess-right=move || right() == Some(at) class:guess-mine=mine>
                    <input
                        type="radio"
                        name="guess"
                        value=at.to_string()
                        data-testid=format!("guess-{at}")
                        disabled=locked
                        prop:checked=mine
                        on:change=move |_| app.guess.set(Some(at))
                    />
                    <span>{option.clone()}</span>
                    <Show when=move || right() == Some(at)>
                        <span class="mark mark-on">{text::GUESS_RIGHT}</span>
                    </Show>
                    <Show when=move || right().is_some() && mine() && right() != Some(at)>
                        <span class="mark">{text::GUESS_MINE}</span>
                    </Show>
                </label>
            }
        })
        .collect_view();
    view! {
        <div class="predict" data-testid="predict">
            <ol class="steps" aria-label=text::STEPS_LABEL>
                {STEPS
                    .into_iter()
                    .map(|(at, name)| view! {
                        <li class:step-on=move || step.get() == at aria-current=move || (step.get() == at).then_some("step")>{name}</li>
                    })
                    .collect_view()}
            </ol>
            <fieldset class="guesses">
                <legend>{asked.ask.clone()}</legend>
                {options}
            </fieldset>
            <div role="status" class="verdict" data-testid="verdict">
                {move || (step.get() == Step::Why).then(|| told(verdict.get(), app.guess.get()))}
            </div>
        </div>
    }
}

fn step_of(app: App) -> Step {
    match app.run.phase.get() {
        phase if phase.busy() => Step::Run,
        _ if app.stale() || app.run.reported.get() != app.run.number.get() => Step::Predict,
        Phase::Done => Step::Why,
        _ => Step::Predict,
    }
}

fn told(verdict: Option<Verdict>, guess: Option<u32>) -> impl IntoView {
    let Some(verdict) = verdict else { return view! { <p class="muted">{text::NO_VERDICT}</p> }.into_any() };
    let head = match guess {
        Some(guess) if guess == verdict.option => text::GUESSED_WELL,
        Some(_) => text::GUESSED_OTHERWISE,
        None => text::NOT_GUESSED,
    };
    view! { <p><strong>{head}</strong> " " {prose(&verdict.because)}</p> }.into_any()
}
