//! Signals as PromQL, under vLLM's and the exporters' own names.
//!
//! A selector stands where each tool wants its own: `<<.LabelMatchers>>` in rules of the Prometheus adapter, a job or namespace elsewhere. What is counted is taken as
//! a rate over two scrapes unless the controller's window is longer, as here in the simulation.

use servelab_fleet::scaling::Signal;

/// The requests that llm-d's gateway holds; 0 where it holds none or is not there.
const HELD: &str = "(sum(inference_extension_flow_control_queue_size) or vector(0))";

/// A signal as a query of each replica.
pub(super) struct Query {
    /// The series that must exist.
    pub(super) series: &'static str,
    /// A name that Kubernetes accepts.
    pub(super) name: String,
    template: String,
}

impl Query {
    /// `signal`, scraped every `scrape_s`, over `window_s` seconds (0: as it is).
    pub(super) fn new(signal: Signal, scrape_s: f64, window_s: f64) -> Self {
        let range = libm::ceil(window_s.max(2.0 * scrape_s).max(1.0));
        let gauge = |series: &str| {
            if window_s > 0.0 {
                format!("avg_over_time({series}{{SELECTOR}}[{window_s}s])")
            } else {
                format!("{series}{{SELECTOR}}")
            }
        };
        let rate = |series: &str| format!("rate({series}{{SELECTOR}}[{range}s])");
        let each = |inner: String| format!("sum by (GROUP) ({inner})");
        let (series, template) = match signal {
            Signal::CpuUtilisation => (
                "container_cpu_usage_seconds_total",
                format!(
                    "sum by (GROUP) ({}) / sum by (GROUP) (kube_pod_container_resource_limits{{resource=\"cpu\",SELECTOR}})",
                    rate("container_cpu_usage_seconds_total")
                ),
            ),
            Signal::ComputeUtilisation => (
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                format!("avg by (GROUP) ({})", gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")),
            ),
            Signal::GpuUtilisation => {
                ("DCGM_FI_DEV_GPU_UTIL", format!("avg by (GROUP) ({}) / 100", gauge("DCGM_FI_DEV_GPU_UTIL")))
            }
            Signal::Preemptions => ("vllm:num_preemptions_total", each(rate("vllm:num_preemptions_total"))),
            Signal::QueueDepth => ("vllm:num_requests_waiting", each(gauge("vllm:num_requests_waiting"))),
            Signal::QueueGrowth => {
                ("vllm:num_requests_waiting", each(format!("deriv(vllm:num_requests_waiting{{SELECTOR}}[{range}s])")))
            }
            Signal::KvUsage => ("vllm:kv_cache_usage_perc", each(gauge("vllm:kv_cache_usage_perc"))),
            Signal::InFlight => (
                "vllm:num_requests_running",
                format!("{} + {}", each(gauge("vllm:num_requests_running")), each(gauge("vllm:num_requests_waiting"))),
            ),
            Signal::Running => ("vllm:num_requests_running", each(gauge("vllm:num_requests_running"))),
            // vLLM counts what it has finished, not what arrives.
            Signal::ArrivalRate => ("vllm:request_success_total", each(rate("vllm:request_success_total"))),
            Signal::TokenRate => ("vllm:generation_tokens_total", each(rate("vllm:generation_tokens_total"))),
            Signal::TtftP95 => (
                "vllm:time_to_first_token_seconds_bucket",
                format!(
                    "histogram_quantile(0.95, sum by (le, GROUP) ({}))",
                    rate("vllm:time_to_first_token_seconds_bucket")
                ),
            ),
            Signal::QueueTime => (
                "vllm:request_queue_time_seconds_sum",
                format!(
                    "{} / {}",
                    each(rate("vllm:request_queue_time_seconds_sum")),
                    each(rate("vllm:request_queue_time_seconds_count"))
                ),
            ),
        };
        Query { series, name: format!("servelab_{}", signal.name()), template }
    }

    /// For a rule of the Prometheus adapter.
    pub(super) fn adapter(&self) -> String {
        self.template.replace("SELECTOR", "<<.LabelMatchers>>").replace("GROUP", "<<.GroupBy>>")
    }

    /// Summed over the fleet, with what the gateway holds where the signal is a queue.
    pub(super) fn fleet(&self, signal: Signal, selector: &str) -> String {
        let each = self.template.replace("SELECTOR", selector).replace("GROUP", "pod");
        let held = matches!(signal, Signal::QueueDepth | Signal::InFlight);
        if held { format!("sum({each}) + {HELD}") } else { format!("sum({each})") }
    }
}

/// The metric as AIBrix names it; `None` where it has none.
pub(super) fn aibrix_metric(signal: Signal) -> Option<&'static str> {
    match signal {
        Signal::QueueDepth => Some("num_requests_waiting"),
        Signal::Running => Some("num_requests_running"),
        Signal::KvUsage => Some("kv_cache_usage_perc"),
        Signal::TokenRate => Some("avg_generation_throughput_toks_per_s"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_whole() {
        for signal in Signal::ALL {
            for window in [0.0, 60.0] {
                let query = Query::new(signal, 15.0, window);
                for text in [query.adapter(), query.fleet(signal, "namespace=\"default\"")] {
                    assert!(!text.contains("SELECTOR") && !text.contains("GROUP"), "{text}");
                    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
                        let count = |one: char| text.chars().filter(|&c| c == one).count();
                        assert_eq!(count(open), count(close), "{text}");
                    }
                }
                assert!(query.adapter().contains(query.series), "{}", query.adapter());
            }
        }
    }

    #[test]
    fn queues_have_what_the_gateway_holds_and_windows_are_as_set() {
        let query = Query::new(Signal::QueueDepth, 15.0, 0.0);
        let sum = "sum(sum by (pod) (vllm:num_requests_waiting{job=\"x\"}))";
        assert_eq!(query.fleet(Signal::QueueDepth, "job=\"x\""), format!("{sum} + {HELD}"));
        assert_eq!(
            Query::new(Signal::TokenRate, 15.0, 0.0).adapter(),
            "sum by (<<.GroupBy>>) (rate(vllm:generation_tokens_total{<<.LabelMatchers>>}[30s]))"
        );
        assert!(
            Query::new(Signal::KvUsage, 15.0, 60.0)
                .adapter()
                .contains("avg_over_time(vllm:kv_cache_usage_perc{<<.LabelMatchers>>}[60s])")
        );
    }
}
