//! The page: it draws what workers compute and computes nothing itself.
//!
//! | module | holds |
//! |---|---|
//! | [`palette`], [`format`](mod@format) | colours and numbers, tested on the host |
//! | `text` | every sentence of the page |
//! | `state` | the signals, all in one place |
//! | `control` | starting and ending runs, hearing the workers |
//! | `first` | the answer that is there before the run |
//! | `cold` | asking how a cold start goes |
//! | `foresight` | asking which signal sees too much load coming |
//! | `playback` | the clock of the stage |
//! | `link` | a worker and the way to it |
//! | `address` | the spec in the address |
//! | `settings` | reading and setting one value of the draft |
//! | `stage` | the fleet, drawn: cards, lanes, block grids, travelling pills |
//! | `study` | sweeps and knees: many runs over workers of their own |
//! | `write` | asking the model that writes, playing its steps |
//! | `views` | everything else on the screen |
//!
//! State flows one way: workers answer, `control` and `playback` write signals, views read them. Heavy pictures (pills, block
//! grids, charts' read-outs) are drawn by plain calls from one effect per card, once per frame received.

mod address;
mod cold;
mod control;
mod env;
mod first;
mod foresight;
pub mod format;
mod keys;
mod link;
mod look;
pub mod palette;
mod playback;
mod settings;
mod stage;
mod state;
mod study;
mod text;
mod traffic;
mod views;
mod write;

/// Mounts the page.
pub fn start() {
    console_error_panic_hook::set_once();
    leptos::mount::mount_to_body(views::Page);
}
