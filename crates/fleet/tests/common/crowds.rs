//! Clients and faults to test with.
#![allow(dead_code, clippy::unwrap_used)]

use servelab_spec::experiment::{MultiTenantSpec, SessionsSpec, WorkloadSpec};
use servelab_workload::Source;

/// Requests of one token for one token, `rate` a second.
pub fn tiny_requests(requests: u32, rate: f64, seed: u64) -> Source {
    let sizes = MultiTenantSpec {
        requests,
        tenants: 1,
        system_min: 0,
        system_max: 0,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    };
    Source::new(&WorkloadSpec::MultiTenant(sizes), seed, 16, rate).unwrap()
}

pub fn sessions(requests: u32) -> Source {
    let sizes = SessionsSpec { requests, ..Default::default() };
    Source::new(&WorkloadSpec::Sessions(sizes), 5, 16, 1.0).unwrap()
}
