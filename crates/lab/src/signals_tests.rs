//! The arithmetic by hand on a drawn run, and the lesson on a real one.

use super::*;
use crate::presets;

/// A scrape every ten seconds: values of one signal.
fn drawn(values: &[f64]) -> Vec<Scrape> {
    let of = |value| std::array::from_fn(|_| Some(value));
    (1u32..).zip(values).map(|(at, &value)| Scrape { at_s: f64::from(at) * 10.0, values: of(value) }).collect()
}

#[test]
fn a_lead_counts_from_where_the_calls_no_longer_break() {
    let calls = |scrape: &Scrape| scrape.values[0].is_some_and(|value| value >= 1.0);
    // Scrapes at 10 to 60 s; the first late user at 55 s.
    assert_eq!(lead(&drawn(&[0.0, 1.0, 0.0, 1.0, 1.0, 1.0]), 55.0, calls), Some(15.0));
    assert_eq!(lead(&drawn(&[1.0; 6]), 55.0, calls), Some(45.0));
    assert_eq!(lead(&drawn(&[1.0, 1.0, 1.0, 1.0, 0.0, 1.0]), 55.0, calls), Some(-5.0), "the break was before it");
    assert_eq!(lead(&drawn(&[0.0; 6]), 55.0, calls), None);
}

#[test]
fn a_window_is_the_mean_of_what_lies_in_it() {
    let means = |window| -> Vec<f64> {
        smoothed(&drawn(&[1.0, 3.0, 5.0, 11.0]), window).iter().filter_map(|scrape| scrape.values[0]).collect()
    };
    assert_eq!(means(0.0), [1.0, 3.0, 5.0, 11.0]);
    assert_eq!(means(20.0), [1.0, 2.0, 4.0, 8.0]);
    assert_eq!(means(1000.0), [1.0, 2.0, 3.0, 5.0]);
}

/// Load that grows for an hour from a fifth of two replicas to twice what they serve.
fn ramp() -> Result<Spec, RunError> {
    let spec = presets::find("slow-leak").map(|preset| preset.spec);
    let spec = spec.ok_or(RunError::Mode("the preset is gone"))?;
    Ok(servelab_spec::patch::set(&spec, "workload.curve", "0:0.15,1:1.6")?)
}

/// What DESIGN's facts derive: GPU utilisation as tools report it is high long before anything is wrong, the queue is empty until users are about
/// to be late, TTFT tells of them afterwards, and compute utilisation never gets anywhere while decode is bound by memory bandwidth.
#[test]
fn a_ramp_tells_the_signals_apart() -> Result<(), RunError> {
    let report = signals(&ramp()?, 60.0)?;
    let of = |name: &str| report.rows.iter().find(|row| row.name == name).cloned();
    let verdict = |name| of(name).map(|row| row.verdict);
    assert!(report.first_late_s.is_some_and(|late| late > 900.0 && late < 3600.0), "{report:?}");
    assert_eq!(verdict("gpu_utilisation"), Some(SignalVerdict::CriesWolf), "{report:?}");
    assert_eq!(verdict("ttft_p95"), Some(SignalVerdict::Late), "{report:?}");
    assert!(matches!(verdict("compute_utilisation"), Some(SignalVerdict::Silent | SignalVerdict::Late)), "{report:?}");
    let lead = |name| of(name).and_then(|row| row.lead_s).unwrap_or(f64::MIN);
    assert!(lead("in_flight") > lead("queue_depth"), "{report:?}");
    assert!(lead("arrival_rate") > lead("ttft_p95"), "{report:?}");
    Ok(())
}

#[test]
fn whoever_is_never_late_has_nothing_to_foresee() -> Result<(), RunError> {
    let calm = servelab_spec::patch::set(&ramp()?, "workload.curve", "0:0.2,0.3:0.2")?;
    let report = signals(&calm, 0.0)?;
    assert_eq!(report.first_late_s, None);
    assert!(report.rows.iter().all(|row| row.lead_s.is_none()));
    assert!(signals(&Spec::default(), 60.0).is_err() && signals(&calm, f64::NAN).is_err());
    Ok(())
}
