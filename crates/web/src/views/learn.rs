//! The guided path: eight lessons, thirteen questions, and how far this visitor has come. What is learnt is the experiments' own: here stands only the order.

use super::terms::marked;
use crate::state::{App, Phase};
use crate::text::glossary::Marker;
use crate::{address, control, env, text};
use leptos::prelude::*;
use servelab_spec::catalog::{InterviewInfo, LessonInfo, PresetInfo};
use servelab_spec::patch;

/// Where the names of the presets that have been judged are kept, with commas between them.
const STORED_AS: &str = "servelab.learnt";

/// Where in the path the page is.
#[derive(Clone, Debug, PartialEq)]
struct Here {
    at: usize,
    lesson: LessonInfo,
    /// Title of the lesson after it.
    next: Option<LessonInfo>,
}

/// The lesson whose preset is open.
fn here(app: App) -> Memo<Option<Here>> {
    Memo::new(move |_| {
        let name = app.draft.with(|draft| draft.preset.clone());
        app.catalog.with(|catalog| {
            let lessons = &catalog.as_ref()?.lessons;
            let at = lessons.iter().position(|lesson| lesson.preset == name)?;
            Some(Here { at, lesson: lessons[at].clone(), next: lessons.get(at + 1).cloned() })
        })
    })
}

fn preset(app: App, name: &str) -> Option<PresetInfo> {
    app.catalog.with_untracked(|catalog| catalog.as_ref()?.presets.iter().find(|preset| preset.name == name).cloned())
}

fn title(app: App, name: &str) -> String {
    preset(app, name).map_or_else(|| name.to_owned(), |preset| preset.title)
}

fn open(app: App, name: &str) {
    if let Some(preset) = preset(app, name) {
        control::open_preset(app, preset);
        env::to_top();
        // What was pressed is gone, or far below.
        env::focus_soon("h1");
    }
}

/// The path, folded to a line above the question.
#[component]
pub(super) fn Path() -> impl IntoView {
    let app = App::here();
    let here = here(app);
    let learnt = app.learnt;
    learnt.set(env::stored(STORED_AS).map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default());
    // A preset is learnt when its run has been judged, unless nobody did anything: the page runs its first one by itself.
    Effect::new(move |_| {
        let took_part = app.guess.get().is_some() || app.run.reported.get() > 1;
        let judged = took_part
            && app.run.phase.get() == Phase::Done
            && app.run.report.with(|report| report.as_ref().is_some_and(|report| report.verdict.is_some()));
        let name = app.run.spec.with_untracked(|spec| spec.as_ref().map(|spec| spec.preset.clone()));
        let Some(name) = name.filter(|name| judged && !name.is_empty()) else { return };
        if !learnt.with_untracked(|learnt| learnt.contains(&name)) {
            learnt.update(|learnt| learnt.push(name));
            env::store(STORED_AS, &learnt.with_untracked(|learnt| learnt.join(",")));
        }
    });
    let lessons =
        Memo::new(move |_| app.catalog.with(|catalog| catalog.as_ref().map(|c| c.lessons.clone())).unwrap_or_default());
    let asked = Memo::new(move |_| {
        app.catalog.with(|catalog| catalog.as_ref().map(|c| c.interview.clone())).unwrap_or_default()
    });
    let has = move |name: &str| learnt.with(|learnt| learnt.iter().any(|known| known == name));
    let done = move || lessons.with(|lessons| lessons.iter().filter(|lesson| has(&lesson.preset)).count());
    let head = move || match here.get() {
        Some(here) => text::lesson_of(here.at + 1, lessons.with(Vec::len), &here.lesson.title),
        None => text::PATH.into(),
    };
    view! {
        <nav class="path" aria-label=text::PATH_REGION>
            <details data-testid="path">
                <summary>
                    <span>{head}</span>
                    <span class="muted num" data-testid="path-done">{move || text::lessons_done(done(), lessons.with(Vec::len))}</span>
                </summary>
                <div class="path-lists">
                    <section>
                        <h2>{text::LESSONS}</h2>
                        <ol>{move || lessons.get().into_iter().map(|lesson| entry(app, &lesson.title, &[lesson.preset])).collect_view()}</ol>
                    </section>
                    <section>
                        <h2>{text::INTERVIEW}</h2>
                        <ol>
                            {move || {
                                let asked = asked.get().into_iter();
                                asked.map(|InterviewInfo { question, presets }| entry(app, &question, &presets)).collect_view()
                            }}
                        </ol>
                    </section>
                </div>
            </details>
        </nav>
    }
}

/// A line of the path: it opens the first preset; the others stand behind it.
fn entry(app: App, words: &str, presets: &[String]) -> impl IntoView + use<> {
    let [first, others @ ..] = presets else { return ().into_any() };
    let (first, others) = (first.clone(), others.to_vec());
    let known = {
        let all = presets.to_vec();
        move || app.learnt.with(|learnt| all.iter().all(|name| learnt.contains(name)))
    };
    let current = {
        let first = first.clone();
        move || app.draft.with(|draft| draft.preset == first).then_some("step")
    };
    let more = others.into_iter().map(|name| {
        let label = title(app, &name);
        view! { <button type="button" class="quiet small" on:click=move |_| open(app, &name)>{label}</button> }
    });
    view! {
        <li>
            <button type="button" class="quiet path-step" data-testid=format!("learn-{first}") aria-current=current on:click=move |_| open(app, &first)>
                {words.to_owned()}
            </button>
            <Show when=known><span class="mark mark-on">{text::LEARNT}</span></Show>
            {more.collect_view()}
        </li>
    }
    .into_any()
}

/// After the verdict: where to look, what to try, where it goes on.
#[component]
pub(super) fn After() -> impl IntoView {
    let app = App::here();
    let here = here(app);
    let judged = move || {
        app.run.phase.get() == Phase::Done
            && app.run.report.with(|report| report.as_ref().is_some_and(|report| report.verdict.is_some()))
    };
    move || here.get().filter(|_| judged()).map(|here| after(app, here))
}

fn after(app: App, Here { at, lesson, next }: Here) -> impl IntoView {
    let mut marker = Marker::default();
    let look = lesson.look.split('*').enumerate().map(|(at, words)| match at % 2 {
        0 => view! { <span>{marked(&mut marker, words)}</span> }.into_any(),
        _ => view! { <em>{marked(&mut marker, words)}</em> }.into_any(),
    });
    let look = look.collect_view();
    let attempt_words = marked(&mut marker, &lesson.attempt);
    let set = lesson.set.clone();
    let attempt = move |_| {
        let tried = set.iter().try_fold(app.draft.get_untracked(), |spec, (key, value)| patch::set(&spec, key, value));
        if let Ok(spec) = tried {
            app.draft.set(spec);
            address::commit(app);
            control::start(app);
            // The lesson goes until the run has ended.
            env::focus_soon("[data-testid=cancel], [data-testid=run]");
        }
    };
    let others = lesson.next.iter().map(|name| {
        let (label, name) = (title(app, name), name.clone());
        view! { <li><button type="button" class="quiet small" on:click=move |_| open(app, &name)>{label}</button></li> }
    });
    let forward = next.map(|next| {
        let words = text::next_lesson(at + 2, &next.title);
        view! { <li><button type="button" class="path-next" data-testid="next-lesson" on:click=move |_| open(app, &next.preset)>{words}</button></li> }
    });
    view! {
        <section class="lesson" aria-label=text::LESSON_REGION data-testid="lesson">
            <p>{look}</p>
            <p>
                <strong>{text::TRY}</strong> " " {attempt_words} " "
                <button type="button" class="small" data-testid="try" on:click=attempt>{text::TRY_IT}</button>
            </p>
            <ul class="lesson-on">{forward} {others.collect_view()}</ul>
        </section>
    }
}
