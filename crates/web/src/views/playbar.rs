//! Play, pause, step, speed and scrubbing.

use super::icons;
use crate::format::clock;
use crate::playback::{self, SPEEDS};
use crate::state::App;
use crate::text;
use leptos::prelude::*;

/// Positions of the scrubber: finer than any screen is wide.
const POSITIONS: f64 = 4000.0;

/// The bar under the stage.
#[component]
pub(super) fn Playbar() -> impl IntoView {
    let app = App::here();
    let play = app.play;
    let nothing = move || play.end() <= 0.0;
    let position = move || {
        let end = play.end();
        if end > 0.0 { (play.t.get() / end * POSITIONS).round() } else { 0.0 }
    };
    let scrub = move |text: String| {
        if let Ok(position) = text.parse::<f64>() {
            playback::seek(app, position / POSITIONS * play.end_untracked());
        }
    };
    view! {
        <div class="playbar" role="group" aria-label=text::PLAYBAR>
            <button type="button" class="round" disabled=nothing title=text::BACK_TITLE aria-label=text::BACK on:click=move |_| playback::step_back(app)>
                {icons::back()}
            </button>
            <button
                type="button"
                class="round round-main"
                data-testid="play"
                disabled=nothing
                title=text::PLAY_TITLE
                aria-label=move || if play.playing.get() { text::PAUSE } else { text::PLAY }
                on:click=move |_| playback::toggle(app)
            >
                {move || if play.playing.get() { icons::pause().into_any() } else { icons::play().into_any() }}
            </button>
            <button type="button" class="round" data-testid="step" disabled=nothing title=text::STEP_TITLE aria-label=text::STEP on:click=move |_| playback::step(app)>
                {icons::step()}
            </button>
            <input
                type="range"
                class="scrub"
                data-testid="scrub"
                min="0"
                max=POSITIONS.to_string()
                step="1"
                disabled=nothing
                aria-label=text::SCRUB
                aria-valuetext=move || text::clock_of(&clock(play.t.get()), &clock(play.end()))
                prop:value=move || position().to_string()
                on:input=move |event| scrub(event_target_value(&event))
            />
            <span class="clock num">
                <strong>{move || clock(play.t.get())}</strong>
                <span class="muted">{move || text::of_end(&clock(play.end()))}</span>
            </span>
            <label class="speed">
                <span class="muted">{text::SPEED}</span>
                <select
                    prop:value=move || play.speed.get().to_string()
                    on:change=move |event| {
                        if let Ok(speed) = event_target_value(&event).parse() {
                            play.speed.set(speed);
                            play.speed_chosen.set(true);
                        }
                    }
                >
                    {SPEEDS
                        .into_iter()
                        .map(|speed| view! { <option value=speed.to_string()>{text::speed_name(speed)}</option> })
                        .collect_view()}
                </select>
            </label>
        </div>
    }
}
