//! Why a request went where it went: what each replica had to offer, what the policy made of it, and what that cost.

mod columns;

use super::icons;
use crate::format::{clock, duration, number, whole};
use crate::state::App;
use crate::views::files::TableBox;
use crate::{control, env, playback, text};
use columns::{columns, warmer};
use leptos::html;
use leptos::prelude::*;
use servelab_spec::catalog::PolicyInfo;
use servelab_spec::protocol::{Offer, RequestStory};
use std::sync::Arc;
use wasm_bindgen::JsCast;

/// The strip under the stage.
#[component]
pub(super) fn Why() -> impl IntoView {
    let app = App::here();
    let root = NodeRef::<html::Section>::new();
    let which = Memo::new(move |_| app.story.with(|story| story.as_ref().map(|story| (story.policy, story.request))));
    let some = move || app.run.spec.with(Option::is_some);
    // Another policy on the stage: the same request under that one.
    Effect::new(move |_| {
        let (focus, beside) = (app.play.focus.get(), app.play.side_by_side.get());
        let told = which.get_untracked();
        if let Some((policy, request)) = told.filter(|(policy, _)| *policy != focus && !beside) {
            let _ = policy;
            control::tell(app, focus, request);
        }
    });
    // A pill that was chosen far up the page: its story must not appear out of sight.
    Effect::new(move |before: Option<bool>| {
        let open = which.get().is_some();
        if open
            && before == Some(false)
            && let Some(strip) = root.get_untracked()
        {
            let options = web_sys::ScrollIntoViewOptions::new();
            options.set_block(web_sys::ScrollLogicalPosition::Nearest);
            strip.scroll_into_view_with_scroll_into_view_options(&options);
        }
        open
    });
    let total = move || {
        let here = app.run.reported.get_untracked() == app.run.number.get_untracked();
        let known = app.run.report.with_untracked(|report| report.as_ref().map(|report| report.workload.requests));
        known.filter(|_| here).unwrap_or(u64::from(u32::MAX))
    };
    let go = move |request: i64| {
        let last = i64::try_from(total().saturating_sub(1)).unwrap_or(i64::MAX);
        let policy = which.get_untracked().map_or_else(|| app.play.focus.get_untracked(), |(policy, _)| policy);
        control::tell(app, policy, u32::try_from(request.clamp(0, last)).unwrap_or(0));
    };
    let announced = move || {
        let told = app.story.get().and_then(|story| story.told)?;
        let choice = told.replica.map(|replica| text::went_to(replica, None)).unwrap_or_default();
        Some(format!("{}. {choice} {}", text::request_name(told.request), text::sentence(&told.why)))
    };
    let by = move |step: i64| match which.get_untracked() {
        Some((_, request)) => go(i64::from(request) + step),
        None => go(0),
    };
    let typed = move |event: web_sys::Event| {
        if let Ok(number) = event_target_value(&event).parse::<i64>() {
            go(number - 1);
        }
        // Whatever was not taken, the field shows the request that is told.
        if let Some(field) = event.target().and_then(|t| t.dyn_into::<web_sys::HtmlInputElement>().ok()) {
            field.set_value(&shown_number(which.get_untracked()));
        }
    };
    view! {
        <section class="why" aria-label=text::WHY_REGION data-testid="why" node_ref=root>
            <div class="why-bar" data-keys="">
                <h3>{text::WHY}</h3>
                <button type="button" class="quiet small" data-testid="why-previous" disabled=move || !some() aria-label=text::PREVIOUS_REQUEST on:click=move |_| by(-1)>"‹"</button>
                <label>
                    <span class="muted">{text::REQUEST}</span>
                    " "
                    <input
                        type="number"
                        lang=env::locale()
                        class="why-number num"
                        data-testid="why-number"
                        min="1"
                        step="1"
                        disabled=move || !some()
                        prop:value=move || shown_number(which.get())
                        on:change=typed
                    />
                </label>
                <button type="button" class="quiet small" data-testid="why-next" disabled=move || !some() aria-label=text::NEXT_REQUEST on:click=move |_| by(1)>"›"</button>
                <Show when=move || which.get().is_some()>
                    <span class="muted why-under">{move || which.get().map(|(policy, _)| text::under(&app.policy_label(policy)))}</span>
                    <span class="why-tools">
                        <button type="button" class="quiet small" data-testid="why-moment" on:click=move |_| moment(app)>{text::GO_TO_MOMENT}</button>
                        <button type="button" class="quiet small" data-testid="why-text" on:click=move |_| app.panel.set(true)>{text::PROMPT_AND_OUTPUT}</button>
                        <button type="button" class="quiet small" aria-label=text::CLOSE on:click=move |_| app.story.set(None)>{icons::close()}</button>
                    </span>
                </Show>
            </div>
            // Announced in a sentence: a table read out at every step would bury it.
            <p class="visually-hidden" role="status">{announced}</p>
            <div class="why-told">
                {move || match app.story.get() {
                    None => view! { <p class="muted param-help">{text::WHY_EMPTY}</p> }.into_any(),
                    Some(story) => match story.told {
                        None => view! { <p class="muted param-help">{text::STORY_LOADING}</p> }.into_any(),
                        Some(told) => view! { <Told story=told policy=story.policy /> }.into_any(),
                    },
                }}
            </div>
        </section>
    }
}

fn shown_number(which: Option<(u32, u32)>) -> String {
    which.map(|(_, request)| (request + 1).to_string()).unwrap_or_default()
}

/// The stage at the instant when the request came.
fn moment(app: App) {
    let arrival = app.story.with_untracked(|story| Some(story.as_ref()?.told.as_ref()?.arrival_s));
    if let Some(arrival) = arrival {
        app.play.playing.set(false);
        playback::seek(app, arrival);
    }
}

#[component]
fn Told(story: Arc<RequestStory>, policy: u32) -> impl IntoView {
    let app = App::here();
    let compares = info_of(app, policy).map(|info| info.compares).unwrap_or_default();
    let routers = app.run.spec.with_untracked(|spec| spec.as_ref().map_or(1, |spec| spec.routing.routers));
    let why = if story.why.is_empty() { text::NO_WHY.to_owned() } else { text::sentence(&story.why) };
    let head = story.replica.map(|replica| text::went_to(replica, (routers > 1).then_some(story.router)));
    let expected = story.replica.map(|_| text::expected_and_found(story.expected_tokens, story.cached_tokens));
    let missed = warmer(&story).map(|(replica, tokens)| text::warmer(replica, tokens));
    let fetched = (story.fetched_tokens > 0).then(|| text::fetched(story.fetched_tokens));
    let cost = story.ttft_s.map(|ttft| {
        let computed = story.prompt_tokens.saturating_sub(story.cached_tokens + story.fetched_tokens);
        text::request_cost(
            &duration(ttft),
            story.queue_s.map(duration),
            &whole(computed.into()),
            &whole(story.prompt_tokens.into()),
        )
    });
    view! {
        <p class="why-words">
            {head.map(|head| view! { <strong data-testid="why-choice">{head}</strong> })}
            " "
            <span data-testid="why-phrase">{why}</span>
        </p>
        {(!story.offers.is_empty()).then(|| view! { <Offers story=story.clone() compares=compares /> })}
        <p class="why-words" data-testid="why-cost">
            {[expected, missed, fetched, cost].into_iter().flatten().collect::<Vec<_>>().join(" ")}
        </p>
        <p class="muted param-help">{text::arrived(&clock(story.arrival_s), &story.tenant)}</p>
    }
}

fn info_of(app: App, policy: u32) -> Option<PolicyInfo> {
    let name = app.run.spec.with_untracked(|spec| Some(spec.as_ref()?.policies.get(policy as usize)?.name.clone()))?;
    app.catalog.with_untracked(|catalog| catalog.as_ref()?.policies.iter().find(|info| info.name == name).cloned())
}

/// A row of the strip: its name, what it shows of an offer, and what a full bar stands for.
type Row = (&'static str, fn(&Offer) -> f64, f64);

/// What each replica offered: a column for each, a row for each thing that a router may go by.
#[component]
fn Offers(story: Arc<RequestStory>, compares: String) -> impl IntoView {
    let (shown, hidden) = columns(&story);
    let largest = |of: fn(&Offer) -> f64| story.offers.iter().map(of).fold(0.0, f64::max);
    let rows: [Row; 3] = [
        (text::OFFER_CACHED, |offer| f64::from(offer.cached_tokens), f64::from(story.prompt_tokens)),
        (text::OFFER_REQUESTS, |offer| f64::from(offer.requests), largest(|offer| f64::from(offer.requests))),
        (text::OFFER_TOKENS, |offer| offer.tokens as f64, largest(|offer| offer.tokens as f64)),
    ];
    let chosen = story.replica;
    let heads = shown
        .iter()
        .map(|&replica| {
            let offer = story.offers[replica as usize];
            let on = chosen == Some(replica);
            view! {
                <th scope="col" class:why-chosen=on class:why-away=!offer.candidate>
                    {text::replica_name(replica)}
                    <span class="cell-note">
                        {match (on, offer.candidate) {
                            (true, _) => text::OFFER_CHOSEN,
                            (false, true) => "",
                            (false, false) => text::OFFER_AWAY,
                        }}
                    </span>
                </th>
            }
        })
        .collect_view();
    let body = rows
        .into_iter()
        .map(|(name, value, most)| {
            let cells = shown
                .iter()
                .map(|&replica| {
                    let offer = &story.offers[replica as usize];
                    let (on, share) = (chosen == Some(replica), value(offer) / most.max(1.0));
                    view! {
                        <td class="num" class:why-chosen=on class:why-away=!offer.candidate>
                            {whole(value(offer) as u64)}
                            <span class="bar" aria-hidden="true"><span class="bar-fill" style:width=format!("{:.1}%", share.clamp(0.0, 1.0) * 100.0)></span></span>
                        </td>
                    }
                })
                .collect_view();
            view! { <tr><th scope="row">{name}</th>{cells}</tr> }
        })
        .collect_view();
    let scores = (!story.scores.is_empty()).then(|| {
        let cells = shown
            .iter()
            .map(|&replica| {
                let score = story.scores.get(replica as usize).copied().flatten();
                view! {
                    <td class="num" class:why-chosen=chosen == Some(replica) data-testid=format!("score-{replica}")>
                        {score.map_or_else(|| "–".to_owned(), number)}
                    </td>
                }
            })
            .collect_view();
        view! { <tr><th scope="row">{text::OFFER_SCORE}</th>{cells}</tr> }
    });
    let legend = (!story.scores.is_empty() && !compares.is_empty()).then(|| text::score_means(&compares));
    view! {
        <TableBox label=text::OFFERS_REGION name="offers">
            <table class="table offers" data-testid="offers">
                <caption class="visually-hidden">{text::OFFERS_REGION}</caption>
                <thead><tr><th scope="col"><span class="visually-hidden">{text::OFFERED}</span></th>{heads}</tr></thead>
                <tbody>{body} {scores}</tbody>
            </table>
        </TableBox>
        {(hidden > 0).then(|| view! { <p class="muted param-help" data-testid="offers-more">{text::more_replicas(hidden)}</p> })}
        <p class="muted param-help">{legend} " " {text::OFFERS_TRUE}</p>
    }
}
