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

/// Expected sizes of a request of `spec`: of the distribution, not of one seed's draws.
pub fn mean_request(spec: &WorkloadSpec) -> MeanRequest {
    match spec {
        // 10 476 prompt tokens and 610 output tokens in 24 requests.
        WorkloadSpec::BookTrace => MeanRequest { prompt_tokens: 10_476.0 / 24.0, output_tokens: 610.0 / 24.0 },
        WorkloadSpec::MultiTenant(sizes) => {
            let middle = |low: u32, high: u32| (f64::from(low) + f64::from(high)) / 2.0;
            MeanRequest {
                prompt_tokens: middle(sizes.system_min, sizes.system_max) + middle(sizes.user_min, sizes.user_max),
                output_tokens: middle(sizes.output_min, sizes.output_max),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Source, Workload};
    use servelab_spec::experiment::MultiTenantSpec;

    #[test]
    fn means_agree_with_the_requests() {
        let many = MultiTenantSpec { requests: 20_000, tenants: 500, ..Default::default() };
        for (spec, tolerance) in [(WorkloadSpec::BookTrace, 1e-9), (WorkloadSpec::MultiTenant(many), 0.01)] {
            let mean = mean_request(&spec);
            let mut source = Source::new(&spec, 1, 16, 1.0).unwrap();
            let (mut prompts, mut outputs) = (0.0, 0.0);
            while let Some(request) = source.next_request() {
                prompts += f64::from(request.prompt.len);
                outputs += f64::from(request.output_tokens);
            }
            let n = f64::from(source.total());
            assert!((prompts / n / mean.prompt_tokens - 1.0).abs() < tolerance, "{prompts}");
            assert!((outputs / n / mean.output_tokens - 1.0).abs() < tolerance, "{outputs}");
        }
    }
}
