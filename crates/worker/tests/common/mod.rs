//! A desk at hand: what it is told, how it works, what it says.
#![allow(dead_code, clippy::unwrap_used)]

use servelab_lab::catalog;
use servelab_spec::Spec;
use servelab_spec::protocol::{FromWorker, ToWorker};
use servelab_worker::desk::{Clock, Desk};
use servelab_worker::{Devices, Priced};
use std::cell::Cell;

/// A clock on which every look costs a millisecond: slices are then about ten looks long.
pub fn ticking() -> f64 {
    thread_local!(static NOW: Cell<f64> = const { Cell::new(0.0) });
    NOW.with(|now| {
        now.set(now.get() + 1.0);
        now.get()
    })
}

pub fn tell<D: Devices>(desk: &mut Desk<D>, message: ToWorker) -> Vec<FromWorker> {
    let mut said = Vec::new();
    pollster::block_on(desk.hear(message, &mut |answer| said.push(answer)));
    said
}

pub fn work<D: Devices>(desk: &mut Desk<D>) -> Vec<FromWorker> {
    let mut said = Vec::new();
    pollster::block_on(desk.work(&mut |answer| said.push(answer)));
    said
}

pub fn finish<D: Devices>(desk: &mut Desk<D>) -> Vec<FromWorker> {
    let mut said = Vec::new();
    while desk.busy() {
        said.extend(work(desk));
    }
    said
}

pub fn preset(name: &str) -> Spec {
    catalog::catalog().presets.into_iter().find(|preset| preset.name == name).unwrap().spec
}

pub fn priced() -> Desk<Priced> {
    Desk::new(Priced, ticking as Clock)
}

pub fn run(run: u32, spec: &Spec) -> ToWorker {
    ToWorker::Run { run, spec: Box::new(spec.clone()) }
}
