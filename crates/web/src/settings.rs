//! Reading and setting one value of the draft as a number, the way the catalog describes it: switches are 0 and 1,
//! choices the index of the option.

mod gateway;

use servelab_spec::catalog::{ParamInfo, ParamKind};
use servelab_spec::experiment::{ArrivalLaw, FaultsSpec, LengthLaw, Pace, Remedy, StartupSpec, WorkloadSpec};
use servelab_spec::{Spec, SpecError, patch};

/// The present value of a setting; absent when the spec has no such key (a rate on a fixed trace).
pub(crate) fn get(spec: &Spec, info: &ParamInfo) -> Option<f64> {
    // The kind of workload is no entry of its own: it decides which entries there are.
    let entries = patch::entries(spec);
    let entry = entries.iter().find(|(key, _)| *key == info.name).map(|(_, text)| text.as_str());
    let text = if info.name == "workload.kind" { spec.workload.kind() } else { entry? };
    match &info.kind {
        ParamKind::Switch => Some(f64::from(u8::from(text == "on"))),
        ParamKind::Choice(options) => options.iter().position(|option| option == text).map(|at| at as f64),
        ParamKind::Number | ParamKind::Integer => text.parse().ok(),
    }
}

/// Whether a setting changes anything as the others stand: when nobody joins, it does not matter when.
pub(crate) fn matters(spec: &Spec, key: &str) -> bool {
    let events = &spec.events;
    match key {
        "events.join_at_s" | "events.warm_up_s" => events.join > 0,
        "events.honest_readiness" => events.join > 0 && events.warm_up_s > 0.0,
        "events.leave_at_s" => events.leave > 0,
        "events.slow_factor" => events.slow > 0,
        "events.restart_at_s" => events.restart,
        "store.blocks" => true,
        key if key.starts_with("store.") => spec.store.blocks > 0,
        "events.deploy_at_s" => events.deploy,
        "events.crash_at_s" => events.crash > 0,
        "events.join" | "events.leave" => !spec.scaling.on,
        "events.deploy" | "events.crash" => spec.scaling.on,
        "scaling.on" => true,
        _ if key.starts_with("scaling.overflow.") && key != "scaling.overflow.on" => {
            spec.scaling.on && spec.scaling.overflow.on
        }
        _ if key.starts_with("scaling.") => spec.scaling.on,
        _ if key.starts_with("gateway.") => gateway::matters(&spec.gateway, key),
        "engine.queued_count_running" => spec.engine.max_queued > 0,
        "clients.on" => true,
        "clients.users" => spec.clients.on && spec.clients.pace == Pace::Closed,
        "clients.think_s" => spec.clients.on && spec.clients.pace != Pace::Open,
        _ if key.starts_with("clients.") => spec.clients.on,
        _ if key.starts_with("faults.") => fault_matters(&spec.faults, key),
        _ if key.starts_with("startup.") => startup_matters(&spec.startup, key),
        _ => workload_matters(&spec.workload, key),
    }
}

/// The same for traces and generated traffic: a spike that does not last, figures of another law.
fn workload_matters(workload: &WorkloadSpec, key: &str) -> bool {
    match (workload, key) {
        (WorkloadSpec::Trace(trace), "workload.spike_at_s" | "workload.spike_factor") => trace.spike_for_s > 0.0,
        (WorkloadSpec::Trace(trace), "workload.repeat_fresh") => trace.repeat > 1,
        (WorkloadSpec::Generated(of), "workload.cv") => of.arrivals == ArrivalLaw::Gamma,
        (WorkloadSpec::Generated(of), "workload.on_s" | "workload.off_s" | "workload.off_level") => {
            of.arrivals == ArrivalLaw::OnOff
        }
        (WorkloadSpec::Generated(of), "workload.user_mean" | "workload.user_cv" | "workload.output_mean") => {
            of.lengths == LengthLaw::Lognormal
        }
        (WorkloadSpec::Generated(of), "workload.output_cv") => of.lengths == LengthLaw::Lognormal,
        _ => true,
    }
}

/// The same for faults: when and for how long only of those that happen.
fn fault_matters(faults: &FaultsSpec, key: &str) -> bool {
    match key {
        "faults.down_at_s" | "faults.down_s" | "faults.down_loses" => faults.down > 0,
        "faults.split_at_s" | "faults.split_s" => faults.split > 0,
        "faults.stale_at_s" | "faults.stale_s" => faults.stale,
        "faults.errors_at_s" | "faults.errors_s" => faults.errors > 0.0,
        "faults.poison_request" | "faults.poison_restart_s" => faults.poison,
        "faults.remedy_at_s" => faults.remedy != Remedy::None,
        "faults.remedy_times" => faults.remedy == Remedy::RaiseLimits,
        "faults.remedy_share" | "faults.remedy_for_s" => faults.remedy == Remedy::DropLoad,
        _ => true,
    }
}

/// The same for cold starts and probes: a bandwidth without bytes, a figure of an optimisation that is off, a probe that is not sent.
fn startup_matters(startup: &StartupSpec, key: &str) -> bool {
    let (weights, image, probes) = (startup.parameters_b > 0.0, startup.image_gb > 0.0, &startup.probes);
    if let Some(rest) = key.strip_prefix("startup.probes.") {
        return match rest.split_once('.') {
            Some((kind, "on")) => !kind.is_empty(),
            // Kubernetes leaves no choice.
            Some(("startup" | "liveness", "successes")) => false,
            Some(("startup", _)) => probes.startup.on,
            Some(("readiness", _)) => probes.readiness.on,
            Some(("liveness", _)) => probes.liveness.on,
            _ => probes.startup.on || probes.readiness.on || probes.liveness.on,
        };
    }
    match key {
        "startup.registry_gb_s" | "startup.unpack_gb_s" | "startup.image_pulled" => image,
        "startup.store_gb_s" | "startup.reader_gb_s" => weights && !startup.nvme && !startup.host_cache,
        "startup.nvme_gb_s" => weights && startup.nvme,
        "startup.bits" | "startup.tensor_parallel" | "startup.device_gb_s" => weights,
        "startup.nodes" => startup.tensor_parallel > 1,
        "startup.streamed" | "startup.mapped" | "startup.nvme" | "startup.host_cache" => weights,
        "startup.warm_node" => startup.node_s > 0.0,
        "startup.process_local_s" => startup.nvme,
        "startup.compile_cached_s" => startup.compile_cache,
        "startup.graphs_few_s" => startup.few_graphs,
        _ => true,
    }
}

/// The order in which settings that decide on others stand before these; the rest keeps the catalog's order behind.
const FIRST: [&str; 10] = [
    "workload.kind",
    "events.join",
    "events.join_at_s",
    "events.warm_up_s",
    "events.honest_readiness",
    "events.leave",
    "events.leave_at_s",
    "events.slow",
    "events.slow_factor",
    "events.restart",
];

/// Where a setting stands among its group.
pub(crate) fn rank(key: &str) -> usize {
    FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len())
}

/// The draft with one setting changed.
pub(crate) fn set(spec: &Spec, info: &ParamInfo, value: f64) -> Result<Spec, SpecError> {
    let text = match &info.kind {
        ParamKind::Switch => if value > 0.5 { "on" } else { "off" }.to_owned(),
        ParamKind::Choice(options) => options.get(value as usize).cloned().unwrap_or_default(),
        ParamKind::Number | ParamKind::Integer => value.to_string(),
    };
    patch::set(spec, &info.name, &text)
}

/// Where a value stands on its slider, 0 to 1. Ranges over more than two decades are logarithmic, since
/// half of a linear slider would then be the last factor of two.
pub(crate) fn to_slider(info: &ParamInfo, value: f64) -> f64 {
    if info.max <= info.min {
        return 0.0;
    }
    let value = value.clamp(info.min, info.max);
    if logarithmic(info) {
        let low = floor(info);
        (value.max(low) / low).ln() / (info.max / low).ln()
    } else {
        (value - info.min) / (info.max - info.min)
    }
}

/// The value at a position of the slider, rounded to the setting's granularity.
pub(crate) fn from_slider(info: &ParamInfo, at: f64) -> f64 {
    let at = at.clamp(0.0, 1.0);
    let raw = if logarithmic(info) {
        let low = floor(info);
        if at <= 0.0 { info.min } else { low * (info.max / low).powf(at) }
    } else {
        info.min + at * (info.max - info.min)
    };
    if info.kind == ParamKind::Integer {
        let raw = if logarithmic(info) { round_digits(raw, 2) } else { raw };
        return raw.round().clamp(info.min, info.max);
    }
    if logarithmic(info) {
        return round_digits(raw, 2).clamp(info.min, info.max);
    }
    let step = if info.step > 0.0 { info.step } else { 1e-6 };
    // Steps like 0.1 are not exact in binary; twelve digits bring back the number that was meant.
    round_digits(info.min + ((raw - info.min) / step).round() * step, 12).clamp(info.min, info.max)
}

fn logarithmic(info: &ParamInfo) -> bool {
    info.min >= 0.0 && info.max / floor(info) > 100.0
}

/// Smallest positive value of a logarithmic slider.
fn floor(info: &ParamInfo) -> f64 {
    if info.min > 0.0 { info.min } else { info.step.max(1e-6) }
}

pub(crate) fn round_digits(value: f64, digits: i32) -> f64 {
    // `{:e}` rounds in decimal, which a product of binary fractions does not.
    format!("{value:.*e}", (digits - 1).max(0) as usize).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, min: f64, max: f64, step: f64, kind: ParamKind) -> ParamInfo {
        ParamInfo {
            name: name.into(),
            label: String::new(),
            unit: String::new(),
            default: min,
            min,
            max,
            step,
            kind,
            help: String::new(),
        }
    }

    #[test]
    fn sliders_reach_both_ends_and_come_back() {
        let cases = [
            info("replicas", 1.0, 64.0, 1.0, ParamKind::Integer),
            info("workload.requests", 1.0, 1_000_000.0, 1.0, ParamKind::Integer),
            info("workload.rate", 0.001, 100_000.0, 0.001, ParamKind::Number),
            info("workload.skew", 0.0, 5.0, 0.1, ParamKind::Number),
        ];
        for case in &cases {
            assert_eq!(from_slider(case, 0.0), case.min, "{}", case.name);
            assert_eq!(from_slider(case, 1.0), case.max, "{}", case.name);
            for at in 0..=20 {
                let value = from_slider(case, f64::from(at) / 20.0);
                assert_eq!(from_slider(case, to_slider(case, value)), value, "{} at {value}", case.name);
            }
        }
        assert_eq!(from_slider(&cases[3], 0.06), 0.3);
    }

    #[test]
    fn what_decides_nothing_is_not_asked_for() {
        let mut spec = Spec::default();
        let asked = |spec: &Spec| -> Vec<&str> {
            let dependent = [
                "events.join_at_s",
                "events.warm_up_s",
                "events.honest_readiness",
                "events.leave_at_s",
                "events.slow_factor",
                "events.restart_at_s",
            ];
            dependent.into_iter().filter(|key| matters(spec, key)).collect()
        };
        assert!(asked(&spec).is_empty());
        assert!(matters(&spec, "events.join") && matters(&spec, "events.restart") && matters(&spec, "replicas"));
        spec.events.join = 1;
        assert_eq!(asked(&spec), ["events.join_at_s", "events.warm_up_s"]);
        spec.events.warm_up_s = 3.0;
        assert_eq!(asked(&spec).last(), Some(&"events.honest_readiness"));
        (spec.events.join, spec.events.leave, spec.events.slow, spec.events.restart) = (0, 1, 1, true);
        assert_eq!(asked(&spec), ["events.leave_at_s", "events.slow_factor", "events.restart_at_s"]);
    }

    #[test]
    fn cold_starts_ask_for_what_they_need() {
        let mut spec = Spec::default();
        for key in [
            "startup.store_gb_s",
            "startup.compile_cached_s",
            "startup.probes.startup.period_s",
            "startup.probes.answer_s",
        ] {
            assert!(!matters(&spec, key), "{key}");
        }
        spec.startup.parameters_b = 8.0;
        spec.startup.compile_cache = true;
        spec.startup.probes.startup.on = true;
        for key in [
            "startup.store_gb_s",
            "startup.compile_cached_s",
            "startup.probes.startup.period_s",
            "startup.probes.answer_s",
        ] {
            assert!(matters(&spec, key), "{key}");
        }
        assert!(matters(&spec, "startup.probes.liveness.on") && !matters(&spec, "startup.probes.liveness.period_s"));
        assert!(!matters(&spec, "startup.probes.startup.successes"));
        spec.startup.nvme = true;
        assert!(!matters(&spec, "startup.store_gb_s") && matters(&spec, "startup.nvme_gb_s"));
    }

    #[test]
    fn settings_are_read_and_written_by_kind() {
        let spec = Spec::default();
        let replicas = info("replicas", 1.0, 64.0, 1.0, ParamKind::Integer);
        assert_eq!(get(&spec, &replicas), Some(4.0));
        assert_eq!(set(&spec, &replicas, 6.0).expect("in range").replicas, 6);
        let cache = info("engine.prefix_cache", 0.0, 1.0, 1.0, ParamKind::Switch);
        assert_eq!(get(&spec, &cache), Some(1.0));
        assert!(!set(&spec, &cache, 0.0).expect("a switch").engine.prefix_cache);
        let options = vec!["per_second".into(), "of_capacity".into()];
        let unit = info("workload.rate_unit", 0.0, 1.0, 1.0, ParamKind::Choice(options));
        assert_eq!(get(&spec, &unit), Some(1.0));
        let changed = set(&spec, &unit, 0.0).expect("an option");
        assert_eq!(get(&changed, &unit), Some(0.0));
        assert!(get(&spec, &info("engine.nothing", 0.0, 1.0, 1.0, ParamKind::Switch)).is_none());
    }
}
