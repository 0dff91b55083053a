#![allow(clippy::unwrap_used)]

use super::*;

fn config() -> StoreConfig {
    StoreConfig {
        blocks: 3,
        latency: Nanos(2_000_000),
        link_bytes_per_s: 1_000_000_000,
        total_bytes_per_s: 0,
        token_bytes: 1000,
        fetch: FetchRule::Always,
    }
}

fn keys(keys: impl IntoIterator<Item = u64>) -> Vec<BlockKey> {
    keys.into_iter().map(BlockKey).collect()
}

fn order(store: &KvStore) -> Vec<u64> {
    store.in_order().map(|key| key.0).collect()
}

fn look_up(store: &mut KvStore, chain: &[u64]) -> u32 {
    store.look_up(chain.len() as u32, |index| chain.get(index as usize).map(|&key| BlockKey(key)))
}

/// 32 tokens of 1 000 bytes at 1 GB/s are 32 µs, and 2 ms later they are there.
#[test]
fn a_fetch_costs_latency_and_bytes_over_bandwidth() {
    let mut store = KvStore::new(config());
    assert_eq!(store.fetch(Nanos(500), 1, 32, Picos(0)), Some(Nanos(500 + 32_000 + 2_000_000)));
    // The next one on the same link waits for the first one's bytes, not for its latency; another link is free.
    assert_eq!(store.fetch(Nanos(500), 1, 16, Picos(0)), Some(Nanos(500 + 48_000 + 2_000_000)));
    assert_eq!(store.fetch(Nanos(500), 0, 16, Picos(0)), Some(Nanos(500 + 16_000 + 2_000_000)));
    // Part of a nanosecond is a whole one.
    let slow = StoreConfig { link_bytes_per_s: 3_000_000_000, latency: Nanos::ZERO, ..config() };
    assert_eq!(KvStore::new(slow).fetch(Nanos::ZERO, 0, 1, Picos(0)), Some(Nanos(334)));
    let stats = store.stats();
    assert_eq!((stats.fetches, stats.fetched_tokens, stats.bytes), (3, 64, 64_000));
    assert_eq!(stats.time, Nanos(6_000_000 + 32_000 + 48_000 + 16_000));
}

/// A store of 2 GB/s before links of 1 GB/s: two transfers leave it in 16 µs each; the second link starts when the first has been sent.
#[test]
fn a_shared_bandwidth_is_taken_in_turn_and_overlaps_with_links() {
    let mut store = KvStore::new(StoreConfig { total_bytes_per_s: 2_000_000_000, latency: Nanos::ZERO, ..config() });
    assert_eq!(store.fetch(Nanos::ZERO, 0, 32, Picos(0)), Some(Nanos(32_000)));
    assert_eq!(store.fetch(Nanos::ZERO, 1, 32, Picos(0)), Some(Nanos(16_000 + 32_000)));
    // A store slower than the links is the only limit: 64 µs each.
    let mut store = KvStore::new(StoreConfig { total_bytes_per_s: 500_000_000, latency: Nanos::ZERO, ..config() });
    assert_eq!(store.fetch(Nanos::ZERO, 0, 32, Picos(0)), Some(Nanos(64_000)));
    assert_eq!(store.fetch(Nanos::ZERO, 1, 32, Picos(0)), Some(Nanos(128_000)));
}

/// 50 µs a token to compute, 1 µs to fetch, 2 ms of latency: 2 ms ÷ 49 µs = 40.8 tokens break even.
#[test]
fn the_cheaper_of_the_two_is_done() {
    let cheaper = StoreConfig { fetch: FetchRule::Cheaper, ..config() };
    let compute = |tokens: u64| Picos(tokens * 50_000_000);
    assert_eq!(KvStore::new(cheaper).fetch(Nanos::ZERO, 0, 40, compute(40)), None, "2.04 ms against 2 ms");
    assert!(KvStore::new(cheaper).fetch(Nanos::ZERO, 0, 41, compute(41)).is_some(), "2.041 ms against 2.05 ms");
    // A tie is computed, a picosecond more is not.
    assert_eq!(KvStore::new(cheaper).fetch(Nanos::ZERO, 0, 10, Picos(2_010_000_000)), None);
    assert!(KvStore::new(cheaper).fetch(Nanos::ZERO, 0, 10, Picos(2_010_000_001)).is_some());
    // A busy link turns the choice round, and what is not fetched occupies nothing.
    let mut store = KvStore::new(cheaper);
    assert_eq!(store.fetch(Nanos::ZERO, 0, 41, compute(41)), Some(Nanos(2_041_000)));
    assert_eq!(store.fetch(Nanos::ZERO, 0, 41, compute(41)), None, "2.082 ms against 2.05 ms");
    assert_eq!(store.fetch(Nanos(41_000), 0, 41, compute(41)), Some(Nanos(41_000 + 2_041_000)));
    assert_eq!(store.stats().declined, 1);
    assert_eq!(
        KvStore::new(StoreConfig { fetch: FetchRule::Never, ..config() }).fetch(Nanos::ZERO, 0, 41, Picos(u64::MAX)),
        None
    );
}

#[test]
fn what_was_used_longest_ago_goes_first_and_of_a_chain_its_end() {
    let mut store = KvStore::new(config());
    store.write(&keys([1, 2, 3]));
    assert_eq!(order(&store), [3, 2, 1]);
    store.write(&keys([4]));
    assert_eq!(order(&store), [2, 1, 4]);
    assert_eq!(look_up(&mut store, &[1, 2, 3]), 2, "its end is gone");
    assert_eq!(order(&store), [4, 2, 1]);
    assert_eq!(look_up(&mut store, &[3, 4]), 0, "a chain is found from its beginning");
    // Writing what is there is using it.
    store.write(&keys([4]));
    store.write(&keys([5, 6]));
    assert_eq!(order(&store), [4, 6, 5]);
    let stats = store.stats();
    assert_eq!((stats.held, stats.written, stats.evicted), (3, 6, 3));
    store.check().unwrap();
    // A chain longer than the store keeps its beginning.
    store.write(&keys(10..20));
    assert_eq!(order(&store), [12, 11, 10]);
}

#[test]
fn a_saved_store_is_the_same_and_a_damaged_one_is_refused() {
    let mut store = KvStore::new(config());
    store.write(&keys([1, 2, 3, 4]));
    store.fetch(Nanos(7), 2, 5, Picos(0));
    let text = serde_json::to_string(&store).unwrap();
    let mut again: KvStore = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    store.write(&keys([9]));
    again.write(&keys([9]));
    assert_eq!(order(&again), order(&store));
    for (from, to) in [
        ("[3,2,1]", "[3,2,2]"),
        ("[3,2,1]", "[3,2]"),
        ("\"written\":4", "\"written\":5"),
        ("\"blocks\":3", "\"blocks\":2"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        serde_json::from_str::<KvStore>(&text.replacen(from, to, 1)).unwrap_err();
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list in order of use.
        #[test]
        fn it_is_a_list_in_order_of_use(
            blocks in 1u32..6,
            acts in prop::collection::vec((any::<bool>(), prop::collection::vec(0u64..9, 0..5)), 0..60),
        ) {
            let mut store = KvStore::new(StoreConfig { blocks, ..config() });
            let mut list: Vec<u64> = Vec::new();
            for (write, mut chain) in acts {
                chain.dedup();
                let held = chain.iter().take_while(|key| list.contains(key)).count();
                if write {
                    store.write(&keys(chain.iter().copied()));
                } else {
                    prop_assert_eq!(look_up(&mut store, &chain), held as u32);
                    chain.truncate(held);
                }
                for key in chain.into_iter().rev() {
                    list.retain(|&other| other != key);
                    list.push(key);
                    if list.len() > blocks as usize {
                        list.remove(0);
                    }
                }
                prop_assert_eq!(&order(&store), &list);
                prop_assert_eq!(store.check(), Ok(()));
            }
        }
    }
}
