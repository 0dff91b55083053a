//! The two runs that issues and claims speak of, through the lab as page and command line use it: a million requests on 64 replicas, and a day of
//! 8.6 million on up to 200 with an autoscaler at work.
//!
//! `cargo run --release -p servelab-lab --example lab_speed` runs both; `… -- million` or `… -- day [requests per second]` one of them;
//! `… -- addresses` prints where the page finds the same specs, a name and a fragment on each line.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_lab::{Session, presets};
use servelab_spec::experiment::{
    Coefficients, ControllerSpec, DemandSpec, EngineSpec, MultiTenantSpec, PolicySpec, RateUnit, ScalingSpec, SloSpec,
    Spec, WorkloadSpec,
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

/// Runs a spec as a worker does and prints a row.
fn measure(name: &str, spec: Spec) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut session = Session::unwatched(spec)?;
    let ready = start.elapsed().as_secs_f64();
    while !session.advance(1 << 20)?.done {}
    let whole = start.elapsed().as_secs_f64();
    let report = session.report();
    let policy = &report.policies[0];
    let scaled = policy.scaling.as_ref().map_or(String::new(), |of| {
        format!("; up to {} replicas, late for {:.0} min", of.peak_ready, of.late_s / 60.0)
    });
    println!(
        "{name}, {} requests\t{whole:.1}\ts\t{ready:.1} s of them to read the workload; {:.0} requests/s{scaled}",
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
    if which == "addresses" {
        let base = presets::find("multi-tenant").ok_or("the preset is gone")?.spec;
        for policy in millions {
            println!("million, {policy}\t{}", patch::encode(&million(policy), &base));
        }
        println!("day\t{}", patch::encode(&day(mean)?, &base));
        return Ok(());
    }
    if matches!(which.as_str(), "" | "million") {
        for policy in millions {
            measure(&format!("million, {policy}"), million(policy))?;
        }
    }
    if matches!(which.as_str(), "" | "day") {
        measure("day", day(mean)?)?;
    }
    Ok(())
}
