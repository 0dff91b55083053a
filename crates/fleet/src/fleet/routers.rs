//! Routers: each has counts of its own traffic and a policy that remembers for itself.

use crate::routing::{Policy, registry};
use crate::telemetry::{LocalSignals, Reads};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::random::Stream;
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::SpecError;

/// What a router counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouterCounts {
    /// One entry for each replica.
    pub(crate) signals: Vec<LocalSignals>,
    /// How often the counts fell to zero.
    pub(crate) resets: u32,
    /// How often the policy started afresh.
    pub(crate) restarts: u32,
}

impl RouterCounts {
    pub(crate) fn new(replicas: u32) -> Self {
        RouterCounts { signals: vec![LocalSignals::default(); replicas as usize], resets: 0, restarts: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.signals.fill(LocalSignals::default());
        self.resets += 1;
    }
}

/// The routers' policies.
pub(crate) struct Policies {
    spec: PolicySpec,
    pub(crate) each: Vec<Box<dyn Policy>>,
}

impl Policies {
    pub(crate) fn new(spec: PolicySpec, routers: u32) -> Result<Self, SpecError> {
        let each = (0..routers).map(|_| registry::build(&spec)).collect::<Result<_, _>>()?;
        Ok(Policies { spec, each })
    }

    /// Every policy as it was at the start.
    pub(crate) fn restart(&mut self) {
        for policy in &mut self.each {
            if let Ok(fresh) = registry::build(&self.spec) {
                *policy = fresh;
            }
        }
    }

    pub(crate) fn replicas_changed(&mut self, ready: &[u32]) {
        self.each.iter_mut().for_each(|policy| policy.replicas_changed(ready));
    }

    /// What they read, all alike.
    pub(crate) fn reads(&self) -> Reads {
        self.each.first().map_or(Reads::NOTHING, |policy| policy.reads())
    }

    /// Whether they look at what prompts say.
    pub(crate) fn read_prompts(&self) -> bool {
        registry::reads_prompt(&self.spec.name)
    }

    pub(crate) fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    pub(crate) fn save(&self) -> Vec<Value> {
        self.each.iter().map(|policy| policy.save()).collect()
    }

    pub(crate) fn restore(&mut self, states: &[Value]) -> Result<(), String> {
        if states.len() != self.each.len() {
            return Err(format!("{} states for {} routers", states.len(), self.each.len()));
        }
        self.each.iter_mut().zip(states).try_for_each(|(policy, state)| policy.restore(state))
    }
}

/// Which router an attempt goes through: drawn for the attempt, whatever routers know.
pub(crate) fn router_of(draws: &Stream, request: u32, attempt: u32, routers: u32) -> u32 {
    if routers <= 1 {
        return 0;
    }
    draws.split(u64::from(request)).split(u64::from(attempt)).below(routers.into()) as u32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Fleet, FleetConfig, RequestRecord};
    use servelab_engine::{CostModel, EngineConfig, Nanos};
    use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, WorkloadSpec};
    use servelab_workload::{Source, Workload};

    /// All records of a run; `wordy`: with prompts as they are, though nobody reads them.
    fn records(policy: &PolicySpec, source: &Source, wordy: bool) -> Vec<RequestRecord> {
        let cost = CostModel {
            step: 2_000_000_000,
            prefill_token: 80_000_000,
            decode_sequence: 900_000_000,
            ..CostModel::default()
        };
        let engine = EngineConfig::from_spec(&EngineSpec { blocks: 96, max_batch: 8, ..EngineSpec::default() }, false);
        let mut fleet = Fleet::new(FleetConfig::priced(4, engine, cost), source.clone(), policy).unwrap();
        let words = |fleet: &Fleet| fleet.core.next_request.as_ref().unwrap().prompt.tokens.is_some();
        if wordy {
            fleet.core.source = source.clone();
            fleet.core.next_request = fleet.core.source.next_request();
        }
        assert_eq!(words(&fleet), wordy || fleet.policies.read_prompts(), "{}", policy.name);
        fleet.poll(Nanos::MAX, u32::MAX);
        let mut records = Vec::new();
        fleet.take_ended(&mut |record| records.push(record.clone()));
        records
    }

    /// Policies that say they do not read prompts choose the same when prompts say nothing, and caches find the same, though user parts are so short that blocks of
    /// different requests agree by accident.
    #[test]
    fn without_words_nothing_changes_for_who_does_not_read_them() {
        let sizes = MultiTenantSpec {
            requests: 400,
            tenants: 5,
            system_min: 45,
            system_max: 50,
            user_min: 1,
            user_max: 40,
            ..MultiTenantSpec::default()
        };
        let source = Source::new(&WorkloadSpec::MultiTenant(sizes), 5, 16, 60.0).unwrap();
        let blind: Vec<_> = registry::catalog().into_iter().filter(|info| !info.reads_prompt).collect();
        assert!(blind.len() > 8);
        for info in blind {
            let policy = PolicySpec::named(&info.name);
            let (with, without) = (records(&policy, &source, true), records(&policy, &source, false));
            assert_eq!((with.len(), &with), (400, &without), "{}", info.name);
            assert!(with.iter().any(|record| record.cached_tokens > 0));
        }
    }
}
