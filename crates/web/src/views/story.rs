//! The story of one request: where it went and why, what it asked, what came out.

use super::icons;
use super::terms::prose;
use crate::format::{clock, duration, whole};
use crate::state::App;
use crate::{control, text};
use leptos::html;
use leptos::prelude::*;
use servelab_spec::protocol::RequestStory;
use std::sync::Arc;

/// The panel, open while a story is.
#[component]
pub(super) fn StoryPanel() -> impl IntoView {
    let app = App::here();
    let shown = Memo::new(move |_| app.panel.get() && app.story.with(Option::is_some));
    view! {
        <Show when=move || shown.get()>
            <Panel />
        </Show>
    }
}

#[component]
fn Panel() -> impl IntoView {
    let app = App::here();
    let close = NodeRef::<html::Button>::new();
    // Focus comes with the panel, so that keyboard and screen reader are where the story is.
    close.on_load(|button| {
        let _ = button.focus();
    });
    let which = Memo::new(move |_| app.story.with(|story| story.as_ref().map(|story| (story.policy, story.request))));
    let go = move |by: i64| {
        let Some((policy, request)) = which.get_untracked() else { return };
        let last = app.run.report.with_untracked(|report| report.as_ref().map_or(u64::MAX, |r| r.workload.requests));
        let next = (i64::from(request) + by).clamp(0, i64::try_from(last.saturating_sub(1)).unwrap_or(i64::MAX));
        control::tell(app, policy, u32::try_from(next).unwrap_or(0));
    };
    view! {
        <aside class="story" aria-label=text::STORY_REGION data-testid="story" data-keys="">
            <header class="story-head">
                <h2>{move || which.get().map(|(_, request)| text::request_name(request))}</h2>
                <button type="button" class="quiet" aria-label=text::PREVIOUS_REQUEST on:click=move |_| go(-1)>"‹"</button>
                <button type="button" class="quiet" aria-label=text::NEXT_REQUEST on:click=move |_| go(1)>"›"</button>
                <button type="button" class="quiet" node_ref=close aria-label=text::CLOSE on:click=move |_| app.panel.set(false)>{icons::close()}</button>
            </header>
            <p class="muted">{move || which.get().map(|(policy, _)| text::under(&app.policy_label(policy)))}</p>
            {move || match app.story.get().and_then(|story| story.told) {
                None => view! { <p class="muted">{text::STORY_LOADING}</p> }.into_any(),
                Some(told) => view! { <Told story=told /> }.into_any(),
            }}
        </aside>
    }
}

#[component]
fn Told(story: Arc<RequestStory>) -> impl IntoView {
    let fact =
        |name: &'static str, value: String| view! { <div><dt>{prose(name)}</dt><dd class="num">{value}</dd></div> };
    let replica = story.replica.map_or_else(|| text::NOT_ROUTED.to_owned(), text::replica_name);
    let prompt = story.prompt.clone();
    let output = story.output.clone();
    view! {
        <dl class="facts">
            {fact(text::TENANT, story.tenant.clone())}
            {fact(text::SERVED_BY, replica)}
            {fact(text::ARRIVED_AT, clock(story.arrival_s))}
            {fact(text::COL_TTFT, story.ttft_s.map_or_else(|| "–".into(), duration))}
            {fact(text::COL_ITL, story.itl_s.map_or_else(|| "–".into(), duration))}
            {fact(text::PROMPT_TOKENS, text::cached_of(story.cached_tokens, story.fetched_tokens, story.prompt_tokens))}
            {fact(text::OUTPUT_TOKENS, whole(story.output_tokens.into()))}
        </dl>
        <h3>{text::WHY}</h3>
        <p>{if story.why.is_empty() { text::NO_WHY.to_owned() } else { text::sentence(&story.why) }}</p>
        <h3>{text::PROMPT}</h3>
        {match prompt {
            Some(prompt) => view! { <p class="muted">{text::PROMPT_NOTE}</p><pre class="text" tabindex="0">{prompt}</pre> }.into_any(),
            None => view! { <p class="muted">{text::NO_PROMPT}</p> }.into_any(),
        }}
        <h3>{text::OUTPUT}</h3>
        {match output {
            Some(output) => view! { <p class="muted">{text::OUTPUT_NOTE}</p><pre class="text" tabindex="0">{output}</pre> }.into_any(),
            None => view! { <p class="muted">{text::NO_OUTPUT}</p> }.into_any(),
        }}
    }
}
