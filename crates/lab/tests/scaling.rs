//! What autoscalers do in whole runs: the orderings that presets are about, at sizes that a test can afford.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::SLOWER;
use servelab_lab::presets;
use servelab_lab::run_priced;
use servelab_spec::Report;
use servelab_spec::experiment::{ControllerSpec, Spec, WorkloadSpec};
use servelab_spec::patch;
use servelab_spec::report::ScalingReport;

/// A preset with a curve of its own and other controllers.
fn spec(preset: &str, curve: &str, controllers: &str) -> Spec {
    let mut spec = presets::find(preset).unwrap().spec;
    for (key, value) in SLOWER.into_iter().chain([("workload.curve", curve), ("scaling.controllers", controllers)]) {
        spec = patch::set(&spec, key, value).unwrap();
    }
    spec
}

fn scaling(report: &Report, at: usize) -> &ScalingReport {
    report.policies[at].scaling.as_ref().unwrap()
}

/// Twenty minutes at a third of capacity and forty at three times the two replicas of the start.
const STEP: &str = "0:0.3,0.33:0.3,0.34:1.4,1:1.4";

/// A fleet that follows is late for less time than one that stays, and an oracle that knows the load and its own cold start is hardly late at all.
#[test]
fn following_is_better_than_staying_and_knowing_is_better_than_following() {
    let controllers = "schedule(base=2,a_replicas=0),kubernetes_hpa(signal=7,metric_type=0,target=6),oracle(capacity=1.25,lead_s=600)";
    let report = run_priced(&spec("load-spike", STEP, controllers)).unwrap();
    let late: Vec<f64> = (0..3).map(|at| scaling(&report, at).late_s).collect();
    assert!(late[2] < 60.0 && late[1] > 3.0 * late[2] + 120.0 && late[0] > late[1] + 300.0, "{late:?}");
    // Whoever was late has a way to relief, and its parts are whole: they follow each other and none is empty.
    let delays = &scaling(&report, 1).delays;
    assert!(!delays.is_empty() && delays.iter().all(|part| part.seconds > 0.0), "{delays:?}");
}

/// A signal that ends at 1 and a target above 1 ÷ 1.1: never (row 3 of the scaling table, here in a whole run).
#[test]
fn a_saturating_signal_above_nine_tenths_never_scales() {
    let controllers =
        "kubernetes_hpa(signal=2,metric_type=0,target=0.95),kubernetes_hpa(signal=2,metric_type=0,target=0.8)";
    let report = run_priced(&spec("load-spike", "0:0.3,0.1:0.3,0.11:1.4,0.3:1.4", controllers)).unwrap();
    assert_eq!(scaling(&report, 0).created, 0);
    assert!(scaling(&report, 1).created > 0);
}

/// Quantised weights help, by what the weights took and no more: users are late for less time, and not for a quarter of it.
#[test]
fn fewer_bits_help_and_are_not_four_times_as_good() {
    let late = |bits: &str| {
        let spec = spec("load-spike", STEP, "kubernetes_hpa(signal=7,metric_type=0,target=6)");
        let report = run_priced(&patch::set(&spec, "startup.bits", bits).unwrap()).unwrap();
        scaling(&report, 0).late_s
    };
    let (four, sixteen) = (late("4"), late("16"));
    assert!(four < sixteen && four > sixteen / 4.0, "{four} against {sixteen}");
}

/// A spare beside a fleet that must grow by one: users are late for less time.
#[test]
fn a_spare_takes_lateness_away() {
    let of = |spares: &str| {
        let spec =
            spec("warm-spare", "0:0.4,0.2:0.4,0.21:0.9,0.7:0.9", "kubernetes_hpa(signal=7,metric_type=0,target=6)");
        let report = run_priced(&patch::set(&spec, "startup.warm_spares", spares).unwrap()).unwrap();
        scaling(&report, 0).clone()
    };
    let (with, without) = (of("1"), of("0"));
    assert!(with.late_s < without.late_s, "{} and {}", with.late_s, without.late_s);
}

/// What goes to the managed API is counted, priced by its tokens, and served at its own speed; nothing of it is in the fleet's reuse.
#[test]
fn overflow_is_counted_and_priced() {
    let curve = "0:0.3,0.1:0.3,0.11:1.4,0.4:1.4";
    let on = spec("overflow", curve, "kubernetes_hpa(signal=7,metric_type=0,target=6)");
    let report = run_priced(&on).unwrap();
    let of = scaling(&report, 0);
    assert!(of.outside > 100 && report.policies[0].requests.finished == report.policies[0].requests.total);
    let prices = on.scaling.overflow;
    // Every prompt of this workload has some hundreds of tokens, every answer fifty.
    let each = of.outside_usd / of.outside as f64 * 1e6;
    let WorkloadSpec::Demand(sizes) = &on.workload else { unreachable!("a curve") };
    let range = |system: u32, user: u32, output: u32| {
        f64::from(system + user) * prices.prompt_usd + f64::from(output) * prices.output_usd
    };
    let low = range(sizes.system_min, sizes.user_min, sizes.output_min);
    let high = range(sizes.system_max, sizes.user_max, sizes.output_max);
    assert!(low <= each && each <= high, "{low} to {high}: {each}");
    assert!((of.nodes_usd - of.node_s.floor() / 3600.0 * prices.node_usd).abs() < 1e-9);
    let admitted: u64 = report.policies[0].replicas.iter().map(|replica| replica.assignments).sum();
    assert_eq!(admitted + of.outside, report.policies[0].requests.total);
    // Without it users are late for longer.
    let off = run_priced(&patch::set(&on, "scaling.overflow.on", "off").unwrap()).unwrap();
    assert!(scaling(&off, 0).late_s > of.late_s + 60.0, "{} and {}", scaling(&off, 0).late_s, of.late_s);
    // By night everything goes out.
    let night =
        [("scaling.overflow.from_h", "0"), ("scaling.overflow.until_h", "0.1"), ("scaling.overflow.load", "100000")];
    let night = night.into_iter().fold(on, |spec, (key, value)| patch::set(&spec, key, value).unwrap());
    let night = run_priced(&night).unwrap();
    let expected = 0.3 * 5.0 * 360.0;
    let out = scaling(&night, 0).outside as f64;
    assert!((out - expected).abs() < 5.0 * f64::sqrt(expected), "{out} of about {expected}");
}

/// The same spec gives the same bytes, in one piece or in many, watched or not; and its settings survive an address.
#[test]
fn runs_repeat_to_the_byte() {
    let spec = spec(
        "load-spike",
        "0:0.3,0.1:0.3,0.11:1.2,0.3:1.2",
        "kubernetes_hpa(signal=7,metric_type=0,target=6),keda(signal=7)",
    );
    let whole = serde_json::to_string(&run_priced(&spec).unwrap()).unwrap();
    let mut session = servelab_lab::Session::new(spec.clone()).unwrap();
    while !session.advance(1009).unwrap().done {}
    assert_eq!(serde_json::to_string(&session.report()).unwrap(), whole);
    let base = presets::find("load-spike").unwrap().spec;
    let address = patch::encode(&spec, &base);
    let (read, warnings) = patch::decode(&address, &presets::all());
    assert_eq!((read, warnings), (spec, Vec::<String>::new()), "{address}");
}

/// Nonsense is refused at the field, saying what would be accepted.
#[test]
fn what_contradicts_itself_is_refused_at_its_field() {
    let base = presets::find("load-spike").unwrap().spec;
    let refused = |change: &dyn Fn(&mut Spec)| {
        let mut spec = base.clone();
        change(&mut spec);
        servelab_lab::Session::new(spec).err().unwrap().to_string()
    };
    assert!(refused(&|spec| spec.scaling.min = 9).starts_with("scaling.max: 8"));
    assert!(refused(&|spec| spec.replicas = 9).starts_with("replicas: 9"));
    assert!(refused(&|spec| spec.scaling.on = false).starts_with("scaling.controllers"));
    assert!(refused(&|spec| spec.scaling.controllers = vec![ControllerSpec::named("psychic")]).contains("psychic"));
    let target = |value| ControllerSpec::named("kubernetes_hpa").with("target", value);
    assert!(refused(&|spec| spec.scaling.controllers = vec![target(0.0)]).contains("target"));
    assert!(refused(&|spec| spec.events.join = 1).starts_with("events.join"));
    assert!(refused(&|spec| spec.startup.node_s = -1.0).starts_with("startup.node_s"));
    for curve in ["0:1,2", "0:1,x:2", "0:1,5:-1", ""] {
        let error = refused(&|spec| {
            if let WorkloadSpec::Demand(demand) = &mut spec.workload {
                demand.curve = curve.into();
            }
        });
        assert!(error.starts_with("workload.curve"), "{error}");
    }
}
