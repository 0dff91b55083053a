//! A storm of many clients, and what it takes of memory: for the test that holds it and the example that measures it.

use servelab_engine::Nanos;
use servelab_fleet::clients::{ClientsConfig, Crowd, registry};
use servelab_fleet::faults::{Fault, FaultKind};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::{Fleet, FleetConfig, Outcome, Poll, ReplicaConfig};
use servelab_spec::experiment::{MultiTenantSpec, PolicySpec, WorkloadSpec};
use servelab_workload::Source;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which counts what is held.
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// `more` bytes are held and `less` no longer. Counts are right where one thread does all the work.
fn count(more: usize, less: usize) {
    let held = (HELD.load(Ordering::Relaxed) + more).saturating_sub(less);
    HELD.store(held, Ordering::Relaxed);
    if held > MOST.load(Ordering::Relaxed) {
        MOST.store(held, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // What is moved lies in both places while it is.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// `clients` come within ten seconds, a request each, while a server is down. Then it serves 64 at once and a tenth of them a second, with room for
/// half a second's work, and turning one away costs it a fiftieth of an answer. They try as the policy of that name has it, as often as it takes.
pub fn storm(clients: u32, policy: &str, params: &[(&str, f64)]) -> Result<Fleet, Box<dyn Error>> {
    let (slots, capacity) = (64, f64::from(clients) / 10.0);
    let mean = f64::from(slots) / capacity;
    let server = ServerConfig {
        queue: Some(clients / 20),
        ..ServerConfig::new(slots, Service::Exponential, Nanos::from_secs(mean))
    };
    let mut given = BTreeMap::from([("attempts".to_owned(), 1000.0)]);
    given.extend(params.iter().map(|&(name, value)| (name.to_owned(), value)));
    let config = FleetConfig {
        clients: ClientsConfig::Crowd(Box::new(Crowd::of(registry::build(policy, &given)?))),
        faults: vec![Fault {
            from: Nanos::ZERO,
            until: Nanos::from_secs(10.0),
            what: FaultKind::Down { replica: None },
        }],
        reject_cost: Nanos::from_secs(mean / 50.0),
        seed: 1,
        ..FleetConfig::new(1, ReplicaConfig::Server(server))
    };
    let sizes = MultiTenantSpec {
        requests: clients,
        tenants: 1,
        system_min: 0,
        system_max: 0,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    };
    let source = Source::new(&WorkloadSpec::MultiTenant(sizes), 1, 16, capacity)?;
    Ok(Fleet::new(config, source, &PolicySpec::named("round_robin"))?)
}

/// What a storm took.
pub struct Taken {
    /// Requests that were answered.
    pub served: u32,
    /// Most clients that waited at once.
    pub waiting: u64,
    /// Most bytes at once beyond those of the fleet before anybody came.
    pub bytes: usize,
}

/// Runs a storm to its end, and takes what has ended every `events` events.
pub fn weather(fleet: &mut Fleet, events: u32) -> Taken {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut taken = Taken { served: 0, waiting: 0, bytes: 0 };
    loop {
        let poll = fleet.poll(Nanos::MAX, events);
        taken.waiting = taken.waiting.max(fleet.waiting());
        fleet.take_ended(&mut |record| taken.served += u32::from(record.outcome == Outcome::Finished));
        if poll == Poll::Done {
            break;
        }
    }
    taken.bytes = MOST.load(Ordering::Relaxed).saturating_sub(before);
    taken
}
