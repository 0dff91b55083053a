//! Mean sizes of a workload: what a rate given as a multiple of capacity is worked out from.

use servelab_spec::experiment::WorkloadSpec;

/// The mean request of a workload when no prompt token is reused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanRequest {
    /// Mean prompt length, tokens.
    pub prompt_tokens: f64,
    /// Mean output length, tokens.
    pub output_tokens: f64,
}

/// Expected sizes of a request of `spec`: of the distribution, not of one seed's draws. The last session or task of a run is cut
/// short, which the mean leaves out.
pub fn mean_request(spec: &WorkloadSpec) -> MeanRequest {
    let middle = |low: u32, high: u32| (f64::from(low) + f64::from(high)) / 2.0;
    match spec {
        // 10 476 prompt tokens and 610 output tokens in 24 requests.
        WorkloadSpec::BookTrace => MeanRequest { prompt_tokens: 10_476.0 / 24.0, output_tokens: 610.0 / 24.0 },
        WorkloadSpec::MultiTenant(w) => MeanRequest {
            prompt_tokens: middle(w.system_min, w.system_max) + middle(w.user_min, w.user_max),
            output_tokens: middle(w.output_min, w.output_max),
        },
        WorkloadSpec::Sessions(w) => {
            // Turn k of a session of K reads k user parts and k − 1 answers: Σ k = K(K+1)/2 over its turns. Long sessions have more turns,
            // so the mean over turns is E[K(K+1)/2] ÷ E[K].
            let (mut turns, mut parts) = (0.0, 0.0);
            for k in (w.turns_min..=w.turns_max).map(f64::from) {
                turns += k;
                parts += k * (k + 1.0) / 2.0;
            }
            let parts = parts / f64::max(turns, 1.0);
            let (user, output) = (middle(w.user_min, w.user_max), middle(w.output_min, w.output_max));
            let history = parts * user + (parts - 1.0).max(0.0) * output;
            MeanRequest { prompt_tokens: middle(w.system_min, w.system_max) + history, output_tokens: output }
        }
        WorkloadSpec::AgentTree(w) => {
            // bˡ agents on level l read l parts each.
            let (mut agents, mut parts, mut level) = (0.0, 0.0, 1.0);
            for l in 0..=w.depth {
                agents += level;
                parts += level * f64::from(l);
                level *= f64::from(w.branches);
            }
            let shared = middle(w.system_min, w.system_max) + middle(w.task_min, w.task_max);
            MeanRequest {
                prompt_tokens: shared + parts / agents * middle(w.user_min, w.user_max),
                output_tokens: middle(w.output_min, w.output_max),
            }
        }
        WorkloadSpec::Demand(w) => MeanRequest {
            prompt_tokens: middle(w.system_min, w.system_max) + middle(w.user_min, w.user_max),
            output_tokens: middle(w.output_min, w.output_max),
        },
        // Of the trace as it is, which is not a distribution but all there is.
        WorkloadSpec::Trace(w) => {
            let (prompt_tokens, output_tokens) = crate::source::replay::mean_lengths(w);
            MeanRequest { prompt_tokens, output_tokens }
        }
        WorkloadSpec::Generated(w) => {
            let (prompt_tokens, output_tokens) = crate::source::generated::mean_lengths(w);
            MeanRequest { prompt_tokens, output_tokens }
        }
        WorkloadSpec::LongShort(w) => MeanRequest {
            prompt_tokens: w.long_share * middle(w.document_min, w.document_max) + middle(w.user_min, w.user_max),
            output_tokens: middle(w.output_min, w.output_max),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Source, Workload};
    use servelab_spec::experiment::{
        AgentTreeSpec, GeneratedSpec, LengthLaw, LongShortSpec, MultiTenantSpec, SessionsSpec,
    };

    #[test]
    fn means_agree_with_the_requests() {
        // Eight seeds of 10 000 requests and 500 beginnings each. The noisiest mean is that of long and short requests, whose share has a
        // standard deviation of 0.0014, which is 0.6 % of the mean; beginnings add 0.2 %. Two per cent are three of these.
        let (requests, tenants) = (10_000, 500);
        let cases = [
            WorkloadSpec::BookTrace,
            WorkloadSpec::MultiTenant(MultiTenantSpec { requests, tenants, ..Default::default() }),
            WorkloadSpec::Sessions(SessionsSpec { requests, tenants, ..Default::default() }),
            WorkloadSpec::Sessions(SessionsSpec {
                requests,
                tenants,
                turns_min: 1,
                turns_max: 1,
                ..Default::default()
            }),
            WorkloadSpec::AgentTree(AgentTreeSpec { requests, tenants, ..Default::default() }),
            WorkloadSpec::AgentTree(AgentTreeSpec { requests, tenants, depth: 0, ..Default::default() }),
            WorkloadSpec::LongShort(LongShortSpec { requests, documents: tenants, ..Default::default() }),
            WorkloadSpec::Generated(GeneratedSpec { requests, tenants, user_mean: 900.0, ..Default::default() }),
            WorkloadSpec::Generated(GeneratedSpec {
                requests,
                tenants,
                lengths: LengthLaw::Empirical,
                system_min: 0,
                system_max: 0,
                ..Default::default()
            }),
        ];
        for spec in cases {
            let mean = mean_request(&spec);
            let (mut prompts, mut outputs, mut n) = (0.0, 0.0, 0.0);
            for seed in 1..=8 {
                let mut source = Source::new(&spec, seed, 16, 1.0).unwrap();
                n += f64::from(source.total());
                while let Some(request) = source.next_request() {
                    prompts += f64::from(request.prompt.len);
                    outputs += f64::from(request.output_tokens);
                }
            }
            let tolerance = if spec == WorkloadSpec::BookTrace { 1e-9 } else { 0.02 };
            assert!((prompts / n / mean.prompt_tokens - 1.0).abs() < tolerance, "{spec:?}: {}", prompts / n);
            assert!((outputs / n / mean.output_tokens - 1.0).abs() < tolerance, "{spec:?}: {}", outputs / n);
        }
    }
}
