//! The runs that issues and claims speak of, through the lab as page and command line use it: a million requests on 64 replicas, a storm of a million
//! clients, and a day of 8.6 million on up to 200 replicas with an autoscaler at work.
//!
//! `cargo run --release -p servelab-lab --example lab_speed` runs all; `… -- million`, `… -- storm` or `… -- day [requests per second]` one of them;
//! `… -- addresses` prints where the page finds the same specs, a name and a fragment on each line.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_lab::{Session, presets};
use servelab_spec::experiment::{
    ClientSpec, ClientsSpec, Coefficients, ControllerSpec, DemandSpec, EngineSpec, ExecutionMode, FaultsSpec,
    MultiTenantSpec, PolicySpec, RateUnit, ScalingSpec, ServerSpec, SloSpec, Spec, WorkloadSpec,
};
use servelab_spec::patch;
use std::error::Error;
use std::time::Instant;

/// 64 tenants with prompts of 512 tokens, user parts of 8 to 32, outputs of 16 to 32, batches of 32, 4 096 blocks, at 0.7 of what the fleet serves
/// without reuse.
fn million(policy: &str) -> Spec {
    let sizes = MultiTenantSpec {
        requests: 1_000_000,
        rate: 0.7,
        rate_unit: RateUnit::OfCapacity,
        tenants: 64,
        system_min: 512,
        system_max: 512,
        user_min: 8,
        user_max: 32,
        output_min: 16,
        output_max: 32,
        ..MultiTenantSpec::default()
    };
    let coefficients = Coefficients {
        step_us: 2000.0,
        prefill_token_us: 80.0,
        prefill_context_us: 0.02,
        decode_sequence_us: 900.0,
        decode_context_us: 1.5,
    };
    custom(
        Spec {
            seed: 1,
            replicas: 64,
            policies: vec![PolicySpec::named(policy)],
            workload: WorkloadSpec::MultiTenant(sizes),
            engine: EngineSpec { blocks: 4096, max_batch: 32, ..EngineSpec::default() },
            ..Spec::default()
        },
        coefficients,
    )
}

/// A million clients come within ten seconds while the server is down. Then it answers a hundred thousand a second, 64 at once, with room for half a
/// second's work; turning one away costs it a fiftieth of an answer. They try until they are served.
fn storm(policy: &str) -> Spec {
    let sizes = MultiTenantSpec {
        requests: 1_000_000,
        rate: 1.0,
        rate_unit: RateUnit::OfCapacity,
        tenants: 1,
        system_min: 1,
        system_max: 1,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..MultiTenantSpec::default()
    };
    let client = ClientSpec::named(policy).with("attempts", 1000.0);
    let mut spec = Spec {
        seed: 1,
        replicas: 1,
        policies: vec![PolicySpec::named("round_robin")],
        workload: WorkloadSpec::MultiTenant(sizes),
        server: ServerSpec { slots: 64, service_s: 0.000_64, queue: 50_000, ..ServerSpec::default() },
        clients: ClientsSpec { on: true, policies: vec![client], ..ClientsSpec::default() },
        faults: FaultsSpec {
            down: 1,
            down_at_s: 0.0,
            down_s: 10.0,
            reject_cost_s: 0.000_012_8,
            ..FaultsSpec::default()
        },
        ..Spec::default()
    };
    spec.execution.mode = ExecutionMode::Server;
    spec
}

/// A day at `mean` requests a second: 300 prompt and 50 output tokens, batches of 32, least outstanding tokens, an autoscaler at work.
fn day(mean: f64) -> Result<Spec, Box<dyn Error>> {
    let mut demand =
        DemandSpec { system_min: 200, system_max: 200, user_min: 100, user_max: 100, ..Default::default() };
    (demand.output_min, demand.output_max) = (50, 50);
    let curve = demand.points()?;
    demand.rate = mean * curve.end_s() / curve.area();
    // Signal 7 is requests in flight: at sixteen of thirty-two places, half of a replica is in use.
    let hpa = ControllerSpec::named("kubernetes_hpa").with("signal", 7.0).with("target", 16.0);
    let mut spec = Spec {
        replicas: 20,
        policies: vec![PolicySpec::named("least_tokens")],
        workload: WorkloadSpec::Demand(demand),
        engine: EngineSpec { blocks: 1024, max_batch: 32, ..EngineSpec::default() },
        scaling: ScalingSpec { on: true, controllers: vec![hpa], min: 1, max: 200, ..ScalingSpec::default() },
        slo: SloSpec { ttft_s: 5.0, itl_s: 1.0 },
        ..Spec::default()
    };
    (spec.startup.node_s, spec.startup.process_s) = (90.0, 120.0);
    let coefficients = Coefficients {
        step_us: 120_000.0,
        prefill_token_us: 150.0,
        prefill_context_us: 0.0,
        decode_sequence_us: 2_000.0,
        decode_context_us: 1.0,
    };
    Ok(custom(spec, coefficients))
}

fn custom(mut spec: Spec, coefficients: Coefficients) -> Spec {
    spec.execution.cost = "custom".into();
    spec.execution.coefficients = Some(coefficients);
    spec
}

/// Runs a spec as a worker does and prints a row; `watched`: it keeps states to come back to.
fn measure(name: &str, spec: Spec, watched: bool) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut session = if watched { Session::new(spec)? } else { Session::unwatched(spec)? };
    let ready = start.elapsed().as_secs_f64();
    while !session.advance(1 << 20)?.done {}
    let whole = start.elapsed().as_secs_f64();
    let report = session.report();
    let policy = &report.policies[0];
    let scaled = policy.scaling.as_ref().map_or(String::new(), |of| {
        format!("; up to {} replicas, late for {:.0} min", of.peak_ready, of.late_s / 60.0)
    });
    let stormed = policy.clients.as_ref().map_or(String::new(), |of| {
        let served = of.all_served_s.map_or("never".to_owned(), |at| format!("after {at:.0} s"));
        format!("; {:.1} attempts a request, all served {served}", of.amplification)
    });
    println!(
        "{name}, {} requests\t{whole:.1}\ts\t{ready:.1} s of them to read the workload; {:.0} requests/s{scaled}{stormed}",
        policy.requests.total,
        policy.requests.total as f64 / whole
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let which = args.next().unwrap_or_default();
    let mean: f64 = args.next().map_or(Ok(100.0), |text| text.parse())?;
    let millions = ["least_tokens", "prefix_affinity"];
    let storms = ["every_second", "full_jitter"];
    if which == "addresses" {
        let base = presets::find("multi-tenant").ok_or("the preset is gone")?.spec;
        for policy in millions {
            println!("million, {policy}\t{}", patch::encode(&million(policy), &base));
        }
        for policy in storms {
            println!("storm, {policy}\t{}", patch::encode(&storm(policy), &base));
        }
        println!("day\t{}", patch::encode(&day(mean)?, &base));
        return Ok(());
    }
    if matches!(which.as_str(), "" | "million") {
        for policy in millions {
            measure(&format!("million, {policy}"), million(policy), false)?;
        }
    }
    if matches!(which.as_str(), "" | "storm") {
        for policy in storms {
            measure(&format!("storm, {policy}"), storm(policy), true)?;
        }
    }
    if matches!(which.as_str(), "" | "day") {
        measure("day", day(mean)?, false)?;
    }
    Ok(())
}
