#![allow(clippy::unwrap_used)]

use super::*;

fn all(sizes: &GeneratedSpec, seed: u64, rate: f64) -> Vec<Request> {
    let mut source = Generated::new(sizes, seed, 16, rate).unwrap();
    let all: Vec<Request> = std::iter::from_fn(|| source.next_request()).collect();
    assert!(all.is_sorted_by_key(|request| request.arrival) && all.len() == sizes.requests as usize);
    all
}

/// Small prompts: these tests are about arrivals and lengths.
fn sizes(requests: u32, arrivals: ArrivalLaw) -> GeneratedSpec {
    GeneratedSpec { requests, arrivals, system_min: 0, system_max: 0, user_mean: 2.0, ..GeneratedSpec::default() }
}

fn gaps(requests: &[Request]) -> Vec<f64> {
    let times = std::iter::once(0.0).chain(requests.iter().map(|request| request.arrival.as_secs()));
    let times: Vec<f64> = times.collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn mean_and_cv(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    (mean, variance.sqrt() / mean)
}

/// The mean of n gaps has a standard error of cv·mean ÷ √n; that of the CV of a Gamma law is at most about cv·√((1 + 3·cv²) ÷ n) (from its fourth moment).
#[test]
fn gaps_have_the_mean_and_cv_that_were_asked_for() {
    let n: f64 = 40_000.0;
    for (law, cv) in
        [(ArrivalLaw::Poisson, 1.0), (ArrivalLaw::Gamma, 0.3), (ArrivalLaw::Gamma, 1.0), (ArrivalLaw::Gamma, 3.0)]
    {
        let spec = GeneratedSpec { cv, ..sizes(n as u32, law) };
        let (mean, got) = mean_and_cv(&gaps(&all(&spec, 8, 5.0)));
        assert!((mean * 5.0 - 1.0).abs() < 4.0 * cv / n.sqrt(), "{law:?} {cv}: mean {mean}");
        assert!((got - cv).abs() < 4.0 * cv * ((1.0 + 3.0 * cv * cv) / n).sqrt(), "{law:?} {cv}: {got}");
    }
}

/// The Gamma law of shape 4 has the distribution function 1 − e^−x (1 + x + x²/2 + x³/6): Kolmogorov and Smirnov, one in a thousand.
#[test]
fn gamma_gaps_follow_their_law() {
    let spec = GeneratedSpec { cv: 0.5, ..sizes(20_000, ArrivalLaw::Gamma) };
    let mut gaps = gaps(&all(&spec, 2, 1.0));
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let worst = gaps.iter().enumerate().fold(0.0f64, |worst, (rank, gap)| {
        let x = 4.0 * gap;
        let law = 1.0 - libm::exp(-x) * (1.0 + x + x * x / 2.0 + x * x * x / 6.0);
        worst.max((law - rank as f64 / n).abs()).max((law - (rank + 1) as f64 / n).abs())
    });
    assert!(worst < 1.95 / n.sqrt(), "{worst}");
}

/// Bursts of 5 s and quiet of 20 s at a tenth: within bursts the rate is 1 ÷ 0.28 times the mean, so the share of requests in them is 5 ÷ 7; over the whole the
/// rate is what was asked for, and gaps are far from Poisson.
#[test]
fn bursts_keep_the_mean_rate() {
    let spec = sizes(60_000, ArrivalLaw::OnOff);
    let (mean, cv) = mean_and_cv(&gaps(&all(&spec, 4, 10.0)));
    // 6000 s are 240 cycles; the busy share of one has a CV near 1, so the mean is good to 4 ÷ √240 · 0.6.
    assert!((mean * 10.0 - 1.0).abs() < 0.16, "{mean}");
    assert!(cv > 1.3, "{cv}");
    // Without quiet, it is a Poisson process.
    let even = GeneratedSpec { off_level: 1.0, ..spec };
    let (_, cv) = mean_and_cv(&gaps(&all(&even, 4, 10.0)));
    assert!((cv - 1.0).abs() < 4.0 * (4.0f64 / 60_000.0).sqrt(), "{cv}");
}

/// A curve of two hours, three times as high in the second, of which a quarter and three quarters of the requests come; it is played again and again.
#[test]
fn a_curve_is_played_again_when_it_ends() {
    let curve = "0:1,0.999999:1,1:3,2:3".to_owned();
    let spec = GeneratedSpec { curve, hour_s: 10.0, ..sizes(20_000, ArrivalLaw::Gamma) };
    let all = all(&GeneratedSpec { cv: 0.5, ..spec }, 1, 50.0);
    let last = all.last().unwrap().arrival.as_secs();
    assert!((last - 400.0).abs() < 8.0, "{last}");
    let high = all.iter().filter(|request| request.arrival.as_secs() % 20.0 >= 10.0).count() as f64;
    assert!((high / 20_000.0 - 0.75).abs() < 4.0 * (0.75f64 * 0.25 / 20_000.0).sqrt() + 0.002, "{high}");
}

/// ln of a lognormal draw is normal: mean and standard deviation by their standard errors. The capped mean against a sum over draws.
#[test]
fn lengths_are_lognormal_and_capped() {
    let n = 40_000u32;
    let draws: Vec<f64> = (0..n).map(|i| lognormal(Stream::new(3, b"test").split(i.into()), 500.0, 1.5)).collect();
    let logs: Vec<f64> = draws.iter().map(|x| libm::log(*x)).collect();
    let variance = libm::log(1.0 + 2.25);
    let (mean, cv) = mean_and_cv(&logs);
    let root = f64::from(n).sqrt();
    assert!((mean - (libm::log(500.0) - variance / 2.0)).abs() < 4.0 * variance.sqrt() / root);
    assert!((cv * mean / variance.sqrt() - 1.0).abs() < 4.0 / (2.0f64.sqrt() * root));
    for cap in [100.0, 700.0, 1e6] {
        let sum = draws.iter().map(|x| x.min(cap)).sum::<f64>() / f64::from(n);
        assert!((sum / capped_mean(500.0, 1.5, cap) - 1.0).abs() < 4.0 * 1.5 / root, "{cap}: {sum}");
    }
    assert_eq!(capped_mean(500.0, 0.0, 700.0), 500.0);
}

/// Of the sample's requests, prompt and output of one of them at a time.
#[test]
fn empirical_lengths_are_those_of_the_trace() {
    let spec = GeneratedSpec { lengths: LengthLaw::Empirical, ..sizes(500, ArrivalLaw::Poisson) };
    let sample = shelf::find(TraceSpec::SAMPLE).unwrap();
    let pairs: std::collections::BTreeSet<(u32, u32)> =
        sample.rows().iter().map(|row| (row.prompt, row.output)).collect();
    let drawn = all(&spec, 6, 1.0);
    assert!(drawn.iter().all(|request| pairs.contains(&(request.prompt.len, request.output_tokens))));
    let distinct: std::collections::BTreeSet<u32> = drawn.iter().map(|request| request.prompt.len).collect();
    assert!(distinct.len() > 40, "{}", distinct.len());
}

#[test]
fn changing_one_figure_leaves_all_other_draws_alone() {
    let base = sizes(60, ArrivalLaw::Gamma);
    let before = all(&base, 9, 4.0);
    let other = all(&GeneratedSpec { cv: 0.5, output_mean: 90.0, ..base.clone() }, 9, 4.0);
    assert!(before.iter().zip(&other).all(|(a, b)| (a.tenant, &a.prompt) == (b.tenant, &b.prompt)));
    assert_ne!(before[5].arrival, other[5].arrival);
    let missing = GeneratedSpec { lengths: LengthLaw::Empirical, trace: "00000000000000ff".into(), ..base };
    assert_eq!(Generated::new(&missing, 1, 16, 1.0).unwrap_err().field, "workload.trace");
}
