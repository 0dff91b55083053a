#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const GB: u64 = 1_000_000_000;

fn link(gb_per_s: u64) -> SharedLink {
    SharedLink::new(LinkConfig { bytes_per_s: gb_per_s * GB, each_bytes_per_s: None })
}

fn at(s: f64) -> Nanos {
    Nanos::from_secs(s)
}

/// Every transfer's end, in order.
fn run(link: &mut SharedLink) -> Vec<(Nanos, u32)> {
    let mut ends = Vec::new();
    while let Some((now, id)) = link.next() {
        assert!(link.finish(now, id), "{id} was said to end at {now:?}");
        ends.push((now, id));
    }
    ends
}

#[test]
fn alone_a_transfer_has_all_the_bandwidth() {
    let mut link = link(2);
    link.join(at(5.0), 9, 30 * GB);
    assert_eq!(link.next(), Some((at(20.0), 9)));
    assert!(!link.finish(at(19.0), 9), "not yet");
    assert_eq!(link.remaining(at(19.0), 9), Some(2 * GB));
    assert_eq!(run(&mut link), [(at(20.0), 9)]);
    assert_eq!(link.next(), None);
}

/// 140 GB at 1 GB/s: 140 s alone, 140 k for k that start together.
#[test]
fn together_k_transfers_take_k_times_as_long() {
    for k in [2, 3, 7, 64] {
        let mut link = link(1);
        (0..k).for_each(|id| link.join(Nanos::ZERO, id, 140 * GB));
        let ends = run(&mut link);
        assert_eq!(ends.len(), k as usize);
        for (n, (end, id)) in ends.into_iter().enumerate() {
            assert_eq!((end, id), (Nanos(u64::from(k) * 140 * SECOND), n as u32), "k = {k}");
        }
    }
}

/// 1 GB/s. The first has 10 GB; at 4 s, with 6 left, another brings 3. Each gets half: the second is done at 10 s, when the first has 3 left,
/// and the first, alone again, at 13 s.
#[test]
fn one_that_joins_half_way_slows_the_other_while_it_is_there() {
    let mut link = link(1);
    link.join(Nanos::ZERO, 0, 10 * GB);
    link.join(at(4.0), 1, 3 * GB);
    assert_eq!(run(&mut link), [(at(10.0), 1), (at(13.0), 0)]);
}

/// The same, but the second is killed at 6 s: the first has 5 GB left then and ends at 11 s.
#[test]
fn one_that_is_killed_gives_its_share_back() {
    let mut link = link(1);
    link.join(Nanos::ZERO, 0, 10 * GB);
    link.join(at(4.0), 1, 3 * GB);
    assert!(link.leave(at(6.0), 1));
    assert!(!link.leave(at(6.0), 1));
    assert_eq!(link.remaining(at(6.0), 0), Some(5 * GB));
    assert_eq!(run(&mut link), [(at(11.0), 0)]);
}

/// A store of 10 GB/s whose readers take at most 4: two have 4 each, five have 2 each.
#[test]
fn a_reader_takes_no_more_than_it_can() {
    let config = LinkConfig { bytes_per_s: 10 * GB, each_bytes_per_s: Some(4 * GB) };
    for (k, seconds) in [(1, 5.0), (2, 5.0), (5, 10.0)] {
        let mut link = SharedLink::new(config);
        (0..k).for_each(|id| link.join(Nanos::ZERO, id, 20 * GB));
        assert_eq!(run(&mut link).last().unwrap().0, at(seconds), "k = {k}");
    }
}

#[test]
fn without_a_limit_and_without_bytes_there_is_no_time() {
    let mut unlimited = SharedLink::new(LinkConfig::UNLIMITED);
    unlimited.join(at(3.0), 0, u64::MAX);
    unlimited.join(at(3.0), 1, 7);
    assert_eq!(run(&mut unlimited), [(at(3.0), 1), (at(3.0), 0)]);
    let mut link = link(1);
    link.join(at(3.0), 0, 0);
    assert_eq!(run(&mut link), [(at(3.0), 0)]);
    assert_eq!(time_for(3, 2_000_000_000), Nanos(2), "rounded up");
}

/// The largest numbers that settings allow: 1 000 replicas with 4 TB each.
#[test]
fn large_numbers_do_not_overflow() {
    let mut link = link(1);
    (0..1000).for_each(|id| link.join(Nanos::ZERO, id, 4000 * GB));
    assert_eq!(run(&mut link).last().unwrap().0, Nanos(4_000_000 * SECOND));
}

proptest! {
    /// While anything is on the link, exactly its bandwidth is delivered: what is missing of all transfers, what was delivered to each and what
    /// left unfinished add up, whatever joined and left when, and after a save and restore in between.
    #[test]
    fn nothing_is_lost(
        bandwidth in 1u64..5_000_000_000,
        events in prop::collection::vec((0u64..3_000_000_000, 0u32..6, 1u64..9_000_000_000), 1..60),
    ) {
        let mut link = SharedLink::new(LinkConfig { bytes_per_s: bandwidth, each_bytes_per_s: None });
        // Billionths of a byte, as a plain account: what each transfer lacks, by repeated subtraction.
        let (mut now, mut delivered, mut busy) = (Nanos::ZERO, 0u128, 0u128);
        let mut lacks: Vec<(u32, u128)> = Vec::new();
        for (wait, id, bytes) in events {
            let target = now + Nanos(wait);
            // Ends before the next event.
            while let Some((end, ended)) = link.next().filter(|&(end, _)| end <= target) {
                busy += u128::from(end.since(now).0);
                now = end;
                prop_assert!(link.finish(now, ended));
                let at = lacks.iter().position(|&(known, _)| known == ended).unwrap();
                delivered += lacks.remove(at).1;
                if lacks.is_empty() { break; }
            }
            if !lacks.is_empty() { busy += u128::from(target.since(now).0); }
            now = target;
            if let Some(at) = lacks.iter().position(|&(known, _)| known == id) {
                let left = u128::from(link.remaining(now, id).unwrap()) * 1_000_000_000;
                prop_assert!(link.leave(now, id));
                delivered += lacks.remove(at).1.saturating_sub(left);
            } else {
                link.join(now, id, bytes);
                lacks.push((id, u128::from(bytes) * 1_000_000_000));
            }
            let text = serde_json::to_string(&link).unwrap();
            link = serde_json::from_str(&text).unwrap();
        }
        for &(id, all) in &lacks {
            delivered += all.saturating_sub(u128::from(link.remaining(now, id).unwrap()) * 1_000_000_000);
        }
        // A transfer ends at the first whole nanosecond after its last byte, and what is missing is known to the byte: per transfer less than
        // a nanosecond of bandwidth and a byte of doubt.
        let offered = busy * u128::from(bandwidth);
        let doubt = 70 * (u128::from(bandwidth) + 1_000_000_000);
        prop_assert!(delivered <= offered + doubt && offered <= delivered + doubt, "{delivered} of {offered}");
    }
}
