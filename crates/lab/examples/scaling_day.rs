//! A day at a hundred requests a second on up to 200 replicas: 8.6 million requests of 300 prompt and 50 output tokens, batches of 32, least
//! outstanding tokens, an autoscaler at work.
//!
//! `cargo run --release -p servelab-lab --example scaling_day [requests per second]`
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_lab::Session;
use servelab_spec::experiment::{
    Coefficients, ControllerSpec, DemandSpec, EngineSpec, PolicySpec, ScalingSpec, SloSpec, Spec, WorkloadSpec,
};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mean: f64 = std::env::args().nth(1).map_or(Ok(100.0), |text| text.parse())?;
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
    spec.execution.cost = "custom".into();
    spec.execution.coefficients = Some(Coefficients {
        step_us: 120_000.0,
        prefill_token_us: 150.0,
        prefill_context_us: 0.0,
        decode_sequence_us: 2_000.0,
        decode_context_us: 1.0,
    });
    let start = Instant::now();
    let mut session = Session::unwatched(spec)?;
    let ready = start.elapsed();
    while !session.advance(1 << 20)?.done {}
    let whole = start.elapsed().as_secs_f64();
    let report = session.report();
    let policy = &report.policies[0];
    let scaling = policy.scaling.as_ref().ok_or("the run did not scale")?;
    println!(
        "day, up to {} replicas, {} requests\t{whole:.1}\ts\t{:.1} s of them to lay the workload out; {:.0} requests/s; late for {:.0} min; {:.0} replica hours",
        scaling.peak_ready,
        policy.requests.total,
        ready.as_secs_f64(),
        policy.requests.total as f64 / whole,
        scaling.late_s / 60.0,
        scaling.replica_s / 3600.0
    );
    Ok(())
}
