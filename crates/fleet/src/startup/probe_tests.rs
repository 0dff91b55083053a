#![allow(clippy::unwrap_used)]
use super::*;

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs(seconds)
}

fn every(period: f64, timeout: f64, failures: u32) -> ProbeConfig {
    ProbeConfig { period: s(period), timeout: s(timeout), failures, ..ProbeConfig::default() }
}

/// Every probe until `end`: when it came back, which, whether it passed, and what that meant. The replica answers as `answer` says for the
/// instant at which it is asked.
fn watch(
    prober: &mut Prober,
    end: Nanos,
    answer: impl Fn(Nanos, Probe) -> Option<Nanos>,
) -> Vec<(f64, Probe, bool, Option<Verdict>)> {
    let mut seen = Vec::new();
    while let Some((now, probe, step)) = prober.next().filter(|next| next.0 <= end) {
        match step {
            ProbeStep::Send => prober.send(now, probe, answer(now, probe)),
            ProbeStep::Receive => {
                let (passed, verdict) = prober.receive(now, probe);
                seen.push((now.as_secs(), probe, passed, verdict));
            }
        }
    }
    seen
}

/// Nobody listens for 140 s: 140 GB at 1 GB/s. Probes at 0, 10 and 20 s fail, and that is the end, of this container and of every one after it.
#[test]
fn a_startup_probe_kills_a_replica_that_still_fetches_its_weights_for_ever() {
    let config = ProbesConfig { startup: Some(ProbeConfig::default()), ..ProbesConfig::default() };
    let mut born = Nanos::ZERO;
    for _ in 0..5 {
        let listens = born + s(140.0);
        let mut prober = Prober::new(config, born);
        let seen = watch(&mut prober, born + s(1000.0), |now, _| (now >= listens).then_some(s(0.01)));
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[2], ((born + s(20.0)).as_secs(), Probe::Startup, false, Some(Verdict::Kill)));
        assert!(!prober.is_started() && prober.next().is_none());
        born += s(20.0);
    }
}

/// Fifteen failures allowed are a budget of 150 s: the probe at 140 s is the fifteenth and passes.
#[test]
fn a_budget_longer_than_the_start_saves_it() {
    let startup = every(10.0, 1.0, 15);
    assert_eq!(startup.budget(), s(150.0));
    let config = ProbesConfig { startup: Some(startup), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, Nanos::ZERO);
    let seen = watch(&mut prober, s(1000.0), |now, _| (now >= s(140.0)).then_some(Nanos::ZERO));
    assert_eq!(seen.last(), Some(&(140.0, Probe::Startup, true, Some(Verdict::Ready))));
    assert_eq!(seen.len(), 15);
    // One second later and it is killed.
    let mut prober = Prober::new(config, Nanos::ZERO);
    let seen = watch(&mut prober, s(1000.0), |now, _| (now >= s(141.0)).then_some(Nanos::ZERO));
    assert_eq!(seen.last(), Some(&(140.0, Probe::Startup, false, Some(Verdict::Kill))));
}

/// An initial delay shifts all ticks.
#[test]
fn an_initial_delay_buys_its_length() {
    let startup = ProbeConfig { initial_delay: s(120.0), ..ProbeConfig::default() };
    let config = ProbesConfig { startup: Some(startup), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, s(7.0));
    let seen = watch(&mut prober, s(1000.0), |now, _| (now >= s(147.0)).then_some(Nanos::ZERO));
    let times: Vec<f64> = seen.iter().map(|seen| seen.0).collect();
    assert_eq!(times, [127.0, 137.0, 147.0]);
    assert_eq!(seen[2].3, Some(Verdict::Ready));
}

#[test]
fn the_startup_probe_gates_the_others() {
    let config = ProbesConfig {
        startup: Some(every(5.0, 1.0, 100)),
        readiness: Some(every(10.0, 1.0, 3)),
        liveness: Some(every(10.0, 1.0, 3)),
        ..ProbesConfig::default()
    };
    let mut prober = Prober::new(config, Nanos::ZERO);
    let seen = watch(&mut prober, s(45.0), |now, _| (now >= s(24.0)).then_some(Nanos::ZERO));
    let before: Vec<_> = seen.iter().take_while(|seen| seen.0 < 25.0).collect();
    assert!(before.iter().all(|seen| seen.1 == Probe::Startup) && before.len() == 5);
    let after: Vec<_> = seen.iter().skip(5).map(|&(at, probe, _, verdict)| (at, probe, verdict)).collect();
    let expected = [
        (25.0, Probe::Startup, Some(Verdict::Started)),
        (30.0, Probe::Readiness, Some(Verdict::Ready)),
        (30.0, Probe::Liveness, None),
        (40.0, Probe::Readiness, None),
        (40.0, Probe::Liveness, None),
    ];
    assert_eq!(after, expected);
}

/// A saturated engine takes 3 s to answer, the probe waits 1 s: three probes, 5 s apart, and it is out of rotation 11 s after the first
/// that it missed; at 15 s and ten failures it stays.
#[test]
fn a_short_timeout_takes_a_saturated_replica_out() {
    let saturated = |from: f64| move |now: Nanos, _| Some(if now >= s(from) { s(3.0) } else { s(0.01) });
    let config = ProbesConfig { readiness: Some(every(5.0, 1.0, 3)), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, Nanos::ZERO);
    let seen = watch(&mut prober, s(60.0), saturated(20.0));
    let out = seen.iter().find(|seen| seen.3 == Some(Verdict::NotReady)).unwrap();
    assert_eq!(out.0, 31.0);
    let patient = ProbesConfig { readiness: Some(every(5.0, 15.0, 10)), ..ProbesConfig::default() };
    let mut prober = Prober::new(patient, Nanos::ZERO);
    let seen = watch(&mut prober, s(600.0), saturated(20.0));
    assert!(prober.is_ready() && seen.iter().all(|seen| seen.2));
}

/// Out at the third failure, back at the first success; liveness with the same numbers kills instead.
#[test]
fn readiness_comes_back_and_liveness_does_not() {
    let hangs = |now: Nanos, _| (now < s(20.0) || now >= s(60.0)).then_some(Nanos::ZERO);
    let config = ProbesConfig { readiness: Some(ProbeConfig::default()), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, Nanos::ZERO);
    let verdicts: Vec<_> = watch(&mut prober, s(100.0), hangs).into_iter().filter(|seen| seen.3.is_some()).collect();
    let expected = [
        (0.0, Probe::Readiness, true, Some(Verdict::Ready)),
        (40.0, Probe::Readiness, false, Some(Verdict::NotReady)),
        (60.0, Probe::Readiness, true, Some(Verdict::Ready)),
    ];
    assert_eq!(verdicts, expected);
    let config = ProbesConfig { liveness: Some(ProbeConfig::default()), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, Nanos::ZERO);
    assert!(prober.is_ready(), "nobody asks whether it is");
    let seen = watch(&mut prober, s(100.0), hangs);
    assert_eq!(seen.last(), Some(&(40.0, Probe::Liveness, false, Some(Verdict::Kill))));
    assert!(!prober.is_ready());
}

/// A failure in between starts the count of successes again, and one success that of failures.
#[test]
fn only_results_in_a_row_count() {
    let readiness = ProbeConfig { successes: 2, ..ProbeConfig::default() };
    let config = ProbesConfig { readiness: Some(readiness), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, Nanos::ZERO);
    // Passes at 0, fails at 10, passes at 20 and 30.
    let seen = watch(&mut prober, s(60.0), |now, _| (now != s(10.0)).then_some(Nanos::ZERO));
    let ready = seen.iter().find(|seen| seen.3.is_some()).unwrap();
    assert_eq!((ready.0, ready.3), (30.0, Some(Verdict::Ready)));
}

/// With a time-out of 15 s and a period of 5, answers that take 12 s leave two ticks out.
#[test]
fn a_probe_waits_for_the_answer_to_the_one_before() {
    let config = ProbesConfig { liveness: Some(every(5.0, 15.0, 3)), ..ProbesConfig::default() };
    let mut prober = Prober::new(config, Nanos::ZERO);
    let seen = watch(&mut prober, s(50.0), |_, _| Some(s(12.0)));
    let times: Vec<f64> = seen.iter().map(|seen| seen.0).collect();
    assert_eq!(times, [12.0, 27.0, 42.0]);
}

#[test]
fn a_saved_prober_goes_on_as_it_would_have() {
    let config = ProbesConfig {
        startup: Some(every(3.0, 1.0, 9)),
        readiness: Some(every(7.0, 1.0, 2)),
        liveness: Some(every(11.0, 2.0, 2)),
        answer: AnswerTime { base: s(0.1), per_request: s(0.02) },
    };
    assert_eq!(config.answer.at(120), s(2.5));
    let answer = |now: Nanos, _| (now >= s(8.0)).then(|| if now >= s(30.0) { s(1.5) } else { s(0.1) });
    let mut whole = Prober::new(config, Nanos::ZERO);
    let expected = watch(&mut whole, s(90.0), answer);
    let mut parts = Prober::new(config, Nanos::ZERO);
    let mut seen = Vec::new();
    for end in 1..=90 {
        seen.extend(watch(&mut parts, s(f64::from(end)), answer));
        parts = serde_json::from_str(&serde_json::to_string(&parts).unwrap()).unwrap();
    }
    assert_eq!(seen, expected);
    assert!(expected.iter().any(|seen| seen.3 == Some(Verdict::NotReady)));
}
