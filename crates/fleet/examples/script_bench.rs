//! Decisions per second of scripts: `cargo run --release -p servelab-fleet --example script_bench [decisions]`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Prompt};
use servelab_fleet::registry;
use servelab_fleet::routing::{RequestView, RouteContext, Signals, script_reference};
use servelab_fleet::telemetry::{LocalSignals, PolledSignals, Reads};
use servelab_spec::experiment::PolicySpec;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let decisions: u32 = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let ids: Vec<u32> = (0..512).collect();
    let prompt = Prompt::from_tokens(&ids, 16, 0);
    let mut policies: Vec<(String, PolicySpec)> = (script_reference().examples.into_iter())
        .map(|of| (of.name, PolicySpec::scripted(&of.text).with("tier", of.tier.into())))
        .collect();
    policies.push(("least_tokens, built in".into(), PolicySpec::named("least_tokens")));
    policies.push(("first replica".into(), PolicySpec::scripted("fn route(request, replicas) { replicas[0].id }")));
    for (name, spec) in policies {
        for replicas in [4u32, 64] {
            let mut policy = registry::build(&spec)?;
            let candidates: Vec<u32> = (0..replicas).collect();
            policy.replicas_changed(&candidates);
            let mut local = vec![LocalSignals::default(); replicas as usize];
            let polled = vec![PolledSignals::default(); replicas as usize];
            let draws = Stream::new(1, b"bench");
            let mut scores = Vec::new();
            let start = Instant::now();
            for at in 0..decisions {
                let request = RequestView {
                    index: at,
                    tenant: at % 64,
                    session: Some(u64::from(at % 500)),
                    adapter: None,
                    prompt: &prompt,
                    user_at: 480,
                    user_tokens: 32,
                    max_tokens: 32,
                    attempt: 1,
                };
                let has = |tier| policy.reads().has(tier);
                let signals = Signals {
                    local: if has(Reads::LOCAL) { &local } else { &[] },
                    polled: if has(Reads::POLLED) { &polled } else { &[] },
                    ..Signals::default()
                };
                let ctx = RouteContext::new(Nanos(u64::from(at)), request, &candidates, 16, signals);
                scores.clear();
                let choice = policy.route(&ctx, &mut scores, &mut draws.split(u64::from(at)));
                // Loads that move, so that every branch is taken.
                let chosen = &mut local[choice.replica as usize];
                chosen.requests = (chosen.requests + 1) % 12;
                chosen.tokens = (chosen.tokens + 544) % 9000;
            }
            let seconds = start.elapsed().as_secs_f64();
            if let Some(fault) = policy.fault() {
                return Err(format!("{name}: {fault}").into());
            }
            println!("{name}, {replicas} replicas\t{:.0}\tdecisions/s", f64::from(decisions) / seconds);
        }
    }
    Ok(())
}
