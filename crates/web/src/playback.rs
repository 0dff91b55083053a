//! The clock of the stage: which instant is shown, and asking the worker for its picture.
//!
//! One picture of every policy shown is under way at a time; while they are, the clock goes on and the next one is asked for
//! the instant that is then due. So a slow worker costs pictures and never time. Animation frames are
//! asked for only while something moves or is awaited. Scrolled out of sight, the clock stands still.

use crate::env;
use crate::state::{App, Ask};
use leptos::prelude::*;
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::frame::Frame;
use servelab_spec::protocol::{LATEST_S, ToWorker};
use servelab_spec::validate::MAX_POLICIES;
use std::sync::Arc;

/// Virtual seconds per wall second that can be chosen.
pub(crate) const SPEEDS: [f64; 13] = [0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 60.0, 600.0, 3600.0];

/// Wall seconds that a whole run should take at the speed chosen for it: long enough to follow a single request,
/// short enough to sit through.
const WHOLE_RUN_S: f64 = 40.0;

/// A pill's way from arrival to replica, wall seconds.
pub(crate) const TRAVEL_S: f64 = 0.4;

/// Wall time between two pictures of a run that is being computed, ms. It rushes past, minutes of it between two pictures, so that each is seen for itself and
/// none moves into the next; more of them would not be read, and would take from the run a processor that it can use.
const FOLLOWED_EVERY_MS: f64 = 120.0;

/// A pause between animation frames longer than this is a hidden tab, not a slow machine.
const LONGEST_TICK_MS: f64 = 100.0;

/// Policies on the stage.
fn visible(app: App) -> std::ops::Range<u32> {
    let count = app.run.spec.with_untracked(|spec| spec.as_ref().map_or(0, |spec| spec.contenders().len() as u32));
    if app.play.side_by_side.get_untracked() {
        0..count
    } else {
        let focus = app.play.focus.get_untracked();
        focus..(focus + 1).min(count)
    }
}

/// Sees to it that a picture is drawn soon.
pub(crate) fn wake(app: App) {
    let sleeping = app.play.asked.try_update_value(|asked| !std::mem::replace(&mut asked.scheduled, true));
    if sleeping == Some(true) {
        request_animation_frame(move || tick(app));
    }
}

/// Wakes whenever something that the stage depends on changes.
pub(crate) fn watch(app: App) {
    Effect::new(move |_| {
        app.play.playing.track();
        app.play.t.track();
        app.play.focus.track();
        app.play.side_by_side.track();
        app.play.replica.track();
        app.play.fronts.track();
        app.run.number.track();
        wake(app);
    });
}

fn tick(app: App) {
    let play = app.play;
    let now = env::now_ms();
    let last = play.asked.try_update_value(|asked| {
        asked.scheduled = false;
        asked.tick_ms.replace(now)
    });
    // What nobody sees stands still, and goes on where it stood.
    if play.playing.get_untracked() && play.in_sight.get_untracked() {
        let elapsed = last.flatten().map_or(0.0, |last| (now - last).clamp(0.0, LONGEST_TICK_MS)) / 1e3;
        let busy = app.run.phase.get_untracked().busy();
        let end = if busy {
            play.fronts.with_untracked(|fronts| fronts[play.focus.get_untracked() as usize % MAX_POLICIES])
        } else {
            play.end_untracked()
        };
        let t = play.t.get_untracked() + elapsed * play.speed.get_untracked();
        play.t.set(t.min(end));
        if t >= end && !busy {
            play.playing.set(false);
        }
    }
    let awaited = request(app, now);
    if play.playing.get_untracked() || awaited {
        wake(app);
    } else {
        play.asked.update_value(|asked| asked.tick_ms = None);
    }
}

/// Asks for what is due; true while an answer is awaited.
fn request(app: App, now: f64) -> bool {
    let t = app.play.t.get_untracked();
    let only = crate::stage::only(app);
    let busy = app.run.phase.get_untracked().busy();
    // Who follows a run wants its latest picture; one of where it was a moment ago would have to be simulated again.
    let following = app.play.follow.get_untracked() && busy;
    let live = app
        .run
        .spec
        .with_untracked(|spec| spec.as_ref().is_some_and(|spec| spec.execution.mode == ExecutionMode::Tinygpt));
    let fronts = app.play.fronts.get_untracked();
    let run = app.run.number.get_untracked();
    let host = app.run.host.get_untracked();
    let mut due = Vec::new();
    let awaited = app.play.asked.try_update_value(|asked| {
        // Pictures side by side are of one instant: the next ones wait for all of these.
        let free = asked.queue.is_empty();
        if following && !live {
            if now - asked.followed_ms < FOLLOWED_EVERY_MS {
                return !free;
            }
            asked.followed_ms = now;
        }
        for policy in visible(app) {
            let at = policy as usize % MAX_POLICIES;
            // A policy that has not begun has no picture.
            let begun = fronts[at] > 0.0 || !busy;
            if free && begun && asked.last[at] != Some((t, only)) {
                asked.last[at] = Some((t, only));
                asked.queue.push_back(Ask { policy, step: false });
                due.push(policy);
            }
        }
        !asked.queue.is_empty()
    });
    for policy in due {
        let t_s = if following && policy == app.play.focus.get_untracked() { LATEST_S } else { t };
        crate::control::post(app, host, &ToWorker::Frame { run, policy, t_s, only });
    }
    awaited.unwrap_or(false)
}

/// Forgets what was asked of an earlier run.
pub(crate) fn forget(app: App) {
    app.play.asked.update_value(|asked| {
        asked.queue.clear();
        asked.last = [None; MAX_POLICIES];
        asked.stops.clear();
    });
}

/// A picture has come.
pub(crate) fn arrived(app: App, frame: Frame) {
    let ahead = frame.t_s >= app.play.t.get_untracked() && app.run.phase.get_untracked().busy();
    let follows = ahead && app.play.follow.get_untracked() && frame.policy == app.play.focus.get_untracked();
    let ask = app.play.asked.try_update_value(|asked| {
        let ask = asked.queue.pop_front();
        if let Some(ask) = ask.filter(|ask| ask.step || follows)
            && let Some(last) = &mut asked.last[ask.policy as usize % MAX_POLICIES]
        {
            last.0 = frame.t_s;
        }
        ask
    });
    if follows || ask.flatten().is_some_and(|ask| ask.step) {
        app.play.t.set(frame.t_s);
    }
    app.play.frame(frame.policy).set(Some(Arc::new(frame)));
    wake(app);
}

/// A policy has been simulated up to `t_s`.
pub(crate) fn reached(app: App, policy: u32, t_s: f64) {
    let at = policy as usize % MAX_POLICIES;
    app.play.fronts.update(|fronts| fronts[at] = fronts[at].max(t_s));
    if app.play.follow.get_untracked() {
        app.play.focus.set(policy);
        app.play.t.set(t_s);
    }
}

/// The run has ended. One that was too quick to be watched is shown from its start.
pub(crate) fn ended(app: App, quick: bool) {
    let end = app.play.end_untracked();
    if !app.play.speed_chosen.get_untracked() && end > 0.0 {
        app.play.speed.set(natural_speed(end));
    }
    if !app.play.follow.get_untracked() {
        return;
    }
    app.play.follow.set(false);
    if quick {
        app.play.focus.set(0);
        // Without motion the picture is one from the middle, which shows more than an empty fleet.
        let still = app.look.reduced_motion.get_untracked();
        app.play.t.set(if still { end * 0.4 } else { 0.0 });
        app.play.playing.set(!still);
    }
}

/// The speed at which a run of `end` virtual seconds is best watched.
fn natural_speed(end: f64) -> f64 {
    let wanted = end / WHOLE_RUN_S;
    SPEEDS.iter().copied().min_by(|a, b| distance(*a, wanted).total_cmp(&distance(*b, wanted))).unwrap_or(1.0)
}

fn distance(speed: f64, wanted: f64) -> f64 {
    (speed / wanted).ln().abs()
}

/// Plays or pauses; from the end it starts over.
pub(crate) fn toggle(app: App) {
    app.play.follow.set(false);
    let playing = !app.play.playing.get_untracked();
    if playing && app.play.t.get_untracked() >= app.play.end_untracked() {
        app.play.t.set(0.0);
    }
    app.play.playing.set(playing);
}

/// Goes to an instant.
pub(crate) fn seek(app: App, t: f64) {
    app.play.follow.set(false);
    app.play.t.set(t.clamp(0.0, app.play.end_untracked()));
}

/// To the next instant at which something happens.
pub(crate) fn step(app: App) {
    let play = app.play;
    play.follow.set(false);
    play.playing.set(false);
    let (t, policy) = (play.t.get_untracked(), play.focus.get_untracked());
    play.asked.update_value(|asked| {
        asked.stops.push(t);
        asked.queue.push_back(Ask { policy, step: true });
    });
    let run = app.run.number.get_untracked();
    crate::control::post(
        app,
        app.run.host.get_untracked(),
        &ToWorker::Step { run, policy, t_s: t, only: crate::stage::only(app) },
    );
    wake(app);
}

/// Back to where the last step started, or a little when there was none.
pub(crate) fn step_back(app: App) {
    app.play.playing.set(false);
    let t = app.play.t.get_untracked();
    let stop = app.play.asked.try_update_value(|asked| {
        while asked.stops.last().is_some_and(|stop| *stop >= t) {
            asked.stops.pop();
        }
        asked.stops.pop()
    });
    seek(app, stop.flatten().unwrap_or(t - app.play.end_untracked() / 200.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_watched_in_about_half_a_minute() {
        for end in [0.02, 0.4, 3.3, 25.0, 600.0, 86_400.0] {
            let wall = end / natural_speed(end);
            assert!((5.0..=120.0).contains(&wall), "{end} virtual seconds would take {wall} s");
        }
    }
}
