//! Workloads whose prompts grow, on one replica that forgets nothing: what can be reused is reused, to the block.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use proptest::prelude::*;
use servelab_engine::Nanos;
use servelab_fleet::{Fleet, FleetConfig, RequestRecord};
use servelab_spec::experiment::{
    AgentTreeSpec, DemandSpec, EngineSpec, GeneratedSpec, LongShortSpec, MultiTenantSpec, PolicySpec, SessionsSpec,
    WorkloadSpec,
};
use servelab_workload::{Request, Source, Workload, survey};
use std::collections::BTreeMap;

/// One replica with room for everything and steps of nanoseconds, so that every answer is there before the next turn comes.
fn serve(workload: &WorkloadSpec, seed: u64, block_tokens: u32) -> (Source, Vec<RequestRecord>) {
    let source = Source::new(workload, seed, block_tokens, 2.0).unwrap();
    let blocks = 40_000 / block_tokens;
    let spec = EngineSpec { block_tokens, blocks, max_context: 20_000, ..EngineSpec::default() };
    let config = FleetConfig::priced(1, engine(spec), tiny_cost());
    let mut fleet = fleet(config, source.clone(), &PolicySpec::named("round_robin"));
    let records = finish(&mut fleet);
    assert_eq!(stats(&fleet)[0].evictions, 0, "ample");
    assert_eq!(records.len(), source.total() as usize);
    let survey = survey(&source);
    assert_eq!(reuse(&fleet), (survey.ceiling_hit_tokens, survey.prompt_tokens), "{workload:?}");
    (source, records)
}

fn requests(source: &Source) -> Vec<Request> {
    (0..source.total()).map(|index| source.request_again(index).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]
    /// Each turn but a session's first finds every full block of its history: the prompt before and the answer to it, of which the last
    /// token was never read.
    #[test]
    fn a_turn_finds_its_whole_history(seed in 0u64..1 << 53, block_tokens in 3u32..20, turns in 1u32..9) {
        let sizes = SessionsSpec { requests: 60, turns_min: 1, turns_max: turns, output_min: 1, ..Default::default() };
        let (source, records) = serve(&WorkloadSpec::Sessions(sizes), seed, block_tokens);
        let requests = requests(&source);
        let cached: BTreeMap<u32, u32> = records.iter().map(|record| (record.index, record.cached_tokens)).collect();
        let mut before: BTreeMap<u64, &Request> = BTreeMap::new();
        for request in &requests {
            if let Some(before) = before.insert(request.session.unwrap(), request) {
                let history = before.prompt.len + before.output_tokens - 1;
                prop_assert_eq!(cached[&request.index], history / block_tokens * block_tokens);
            }
        }
    }

    /// Every agent below the first finds its parent's prompt, and no less of its siblings' than that.
    #[test]
    fn an_agent_finds_its_parents_prompt(seed in 0u64..1 << 53, block_tokens in 3u32..20, branches in 1u32..4) {
        let sizes = AgentTreeSpec { requests: 40, branches, depth: 2, ..Default::default() };
        let (source, records) = serve(&WorkloadSpec::AgentTree(sizes.clone()), seed, block_tokens);
        let requests = requests(&source);
        let mut tasks: BTreeMap<u64, u32> = BTreeMap::new();
        for request in &requests {
            let task = request.prompt.len.min(*tasks.entry(request.session.unwrap()).or_insert(u32::MAX));
            tasks.insert(request.session.unwrap(), task);
        }
        for record in records {
            let request = &requests[record.index as usize];
            let shared = tasks[&request.session.unwrap()];
            if request.prompt.len > shared {
                prop_assert!(record.cached_tokens >= shared / block_tokens * block_tokens);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(4, 200), failure_persistence: None, ..Default::default() })]
    /// Under any policy, on caches that are too small: every request ends once, and a fleet saved on the way goes on byte for byte.
    #[test]
    fn every_kind_of_workload_is_served_and_resumed(
        seed in 0u64..1 << 53,
        policy in any_policy(),
        kind in prop::sample::select(&WorkloadSpec::KINDS[..]),
        events in 0u32..400,
    ) {
        let workload = match WorkloadSpec::of_kind(kind).unwrap() {
            WorkloadSpec::MultiTenant(w) => WorkloadSpec::MultiTenant(MultiTenantSpec { requests: 50, adapters: 3, ..w }),
            WorkloadSpec::Sessions(w) => WorkloadSpec::Sessions(SessionsSpec { requests: 50, ..w }),
            WorkloadSpec::AgentTree(w) => WorkloadSpec::AgentTree(AgentTreeSpec { requests: 50, ..w }),
            WorkloadSpec::LongShort(w) => WorkloadSpec::LongShort(LongShortSpec { requests: 50, ..w }),
            WorkloadSpec::Demand(w) => WorkloadSpec::Demand(DemandSpec { curve: "0:1,0.001:1".into(), ..w }),
            WorkloadSpec::Generated(w) => WorkloadSpec::Generated(GeneratedSpec { requests: 50, ..w }),
            as_it_is => as_it_is,
        };
        let source = Source::new(&workload, seed, 16, 12.0).unwrap();
        let spec = EngineSpec { blocks: 160, ..EngineSpec::default() };
        let mut whole = fleet(FleetConfig::priced(3, engine(spec), cost()), source.clone(), &policy);
        whole.poll(Nanos::MAX, events);
        let saved = serde_json::to_string(&whole.save()).unwrap();
        let mut restored = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
        let records = finish(&mut whole);
        prop_assert_eq!(&finish(&mut restored), &records);
        let mut ended: Vec<u32> = records.iter().map(|record| record.index).collect();
        ended.sort();
        prop_assert_eq!(ended, (0..source.total()).collect::<Vec<_>>());
        prop_assert!(reuse(&whole).0 <= survey(&source).ceiling_hit_tokens);
    }
}

/// Policies that read the first user message, or the session, find the same in every turn: on an idle fleet nothing drives a conversation
/// from its home.
#[test]
fn an_idle_fleet_keeps_a_conversation_where_it_began() {
    for seed in 1..=4 {
        let sizes = SessionsSpec { requests: 120, ..Default::default() };
        let source = Source::new(&WorkloadSpec::Sessions(sizes), seed, 16, 1.0).unwrap();
        let requests = requests(&source);
        for policy in ["kubeai_prefix_hash", "session_sticky"] {
            let config = FleetConfig::priced(4, engine(EngineSpec::default()), tiny_cost());
            let mut fleet = fleet(config, source.clone(), &PolicySpec::named(policy));
            let mut homes: BTreeMap<u64, Option<u32>> = BTreeMap::new();
            for record in finish(&mut fleet) {
                let session = requests[record.index as usize].session.unwrap();
                assert_eq!(*homes.entry(session).or_insert(record.replica), record.replica, "{policy}");
            }
            let used: std::collections::BTreeSet<_> = homes.values().collect();
            assert_eq!(used.len(), 4, "{policy} spreads conversations");
        }
    }
}

#[test]
fn documents_are_read_once() {
    for seed in 1..=4 {
        let sizes = LongShortSpec { requests: 80, documents: 3, ..Default::default() };
        let (source, records) = serve(&WorkloadSpec::LongShort(sizes), seed, 16);
        let requests = requests(&source);
        for record in records {
            let request = &requests[record.index as usize];
            let first =
                requests.iter().take(record.index as usize).all(|other| other.prompt.key(0) != request.prompt.key(0));
            let document = request.tenant == 1 && !first;
            assert_eq!(record.cached_tokens > 900, document, "{record:?}");
        }
    }
}
