//! Random streams against published values and their distributions against theory.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use servelab_engine::random::{Stream, mix};
use servelab_engine::{BlockKey, Nanos, Picos, Prompt, continuation_keys, output_key};

fn splitmix(seed: u64) -> Stream {
    serde_json::from_str(&format!("{{\"key\":{seed},\"counter\":0}}")).unwrap()
}

/// Outputs of SplitMix64 as its authors and others publish them.
#[test]
fn a_stream_is_splitmix64() {
    let mut stream = splitmix(0);
    let known = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f, 0xf88b_b8a8_724c_81ec];
    assert_eq!(known.map(|_| stream.next_u64()), known);
    let mut stream = splitmix(1_234_567);
    let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    assert_eq!(known.map(|_| stream.next_u64()), known);
    assert_eq!(mix(0, 0), 0xe220_a839_7b1d_cdaf);
}

#[test]
fn streams_do_not_touch_each_other() {
    let draws = |mut stream: Stream| [(); 4].map(|()| stream.next_u64());
    let mut used = Stream::new(7, b"arrivals");
    let fresh = draws(used.split(3));
    used.next_u64();
    assert_eq!(draws(used.split(3)), fresh);
    let others = [Stream::new(7, b"lengths"), Stream::new(8, b"arrivals"), used.split(4), Stream::new(7, b"arrivals")];
    for other in others {
        assert!(draws(other).iter().all(|draw| !fresh.contains(draw)));
    }
}

/// 200 000 draws; the bounds are five standard errors.
#[test]
fn distributions_have_their_moments() {
    let n = 200_000;
    let mut stream = Stream::new(1, b"test");
    let mut check = |name: &str, draw: fn(&mut Stream) -> f64, mean: f64, variance: f64, kurtosis: f64| {
        let draws: Vec<f64> = (0..n).map(|_| draw(&mut stream)).collect();
        let m = draws.iter().sum::<f64>() / f64::from(n);
        let v = draws.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / f64::from(n);
        let error = 5.0 / f64::from(n).sqrt();
        assert!((m - mean).abs() < error * variance.sqrt(), "{name}: mean {m}");
        assert!((v - variance).abs() < error * variance * (kurtosis - 1.0).sqrt(), "{name}: variance {v}");
    };
    check("unit", Stream::unit, 0.5, 1.0 / 12.0, 1.8);
    check("exponential", Stream::exponential, 1.0, 1.0, 9.0);
    check("normal", Stream::normal, 0.0, 1.0, 3.0);
}

/// χ² with 5 degrees of freedom stays below 20.5 with probability 0.999.
#[test]
fn dice_are_fair() {
    let mut stream = Stream::new(2, b"dice");
    let mut counts = [0u32; 6];
    for _ in 0..60_000 {
        counts[stream.between(1, 6) as usize - 1] += 1;
    }
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 1e4) * (f64::from(count) - 1e4) / 1e4).sum();
    assert!(chi < 20.5, "{counts:?}");
    assert_eq!((stream.below(0), stream.below(1), stream.between(5, 5), stream.between(5, 2)), (0, 0, 5, 5));
}

#[test]
fn keys_name_the_whole_prefix() {
    let root = BlockKey::root(0);
    assert_eq!(root.child(&[1, 2]).child(&[3]), root.child(&[1, 2, 3]));
    let keys = |tokens: &[u32], extras| Prompt::from_tokens(tokens, 2, extras).own_keys;
    let base = keys(&[1, 2, 3, 4, 5], 0);
    assert_eq!(base.len(), 2);
    assert_eq!(keys(&[1, 2, 3, 4], 0), base);
    assert_eq!(keys(&[1, 2, 3, 9], 0)[0], base[0]);
    for other in [keys(&[1, 2, 3, 9], 0)[1], keys(&[2, 1, 3, 4], 0)[1], keys(&[1, 2, 3, 4], 1)[1]] {
        assert_ne!(other, base[1]);
    }
    let prompt = Prompt::from_tokens(&[1, 2, 3, 4, 5], 2, 0);
    assert_eq!((prompt.key(1), prompt.key(2), prompt.full_blocks()), (Some(base[1]), None, 2));
    // 5 + 4 tokens: blocks 2 and 3 hold generated tokens and are full.
    let names: Vec<BlockKey> = continuation_keys(&prompt, 11, 4, 2).collect();
    assert_eq!(names, [output_key(prompt.tail, 11, 2), output_key(prompt.tail, 11, 3)]);
    assert_ne!(output_key(prompt.tail, 12, 2), names[0]);
}

#[test]
fn times_round_and_saturate() {
    assert_eq!(Nanos::from_secs(1.5e-9), Nanos(2));
    assert_eq!((Nanos::from_secs(-1.0), Nanos::from_secs(f64::NAN)), (Nanos::ZERO, Nanos::ZERO));
    assert_eq!(Nanos::from_secs(2.0).as_secs(), 2.0);
    assert_eq!(Nanos(1).since(Nanos(2)), Nanos::ZERO);
    assert_eq!((Picos::from_secs(0.0), Picos::from_secs(1e-3)), (Picos(1), Picos(1_000_000_000)));
}
