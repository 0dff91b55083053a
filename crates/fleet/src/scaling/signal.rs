//! What an autoscaler can go by.
//!
//! Four shapes, and a target means something else for each. *Saturating* signals (KV usage, utilisation) end at 1 and cannot say how far over the
//! load is. *Integrating* ones (queue depth) grow with the deficit and with time, whatever the number of replicas needed. *Proportional* ones (arrival
//! rate, tokens/s) follow the load and are blind to what a request costs. *Lagging* ones (TTFT, queue time) count only what has been delivered.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// A signal of one replica, or of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Share of the host's cores at work, 0 to 1.
    CpuUtilisation,
    /// Share of the accelerator's arithmetic in use, 0 to 1: low while decode is bound by memory bandwidth.
    ComputeUtilisation,
    /// Share of time in which any kernel runs, 0 to 1: what tools report as GPU utilisation.
    GpuUtilisation,
    /// Preemptions per second.
    Preemptions,
    /// Requests waiting; of the fleet, with those that the gateway holds.
    QueueDepth,
    /// By how much the queue grows, requests per second.
    QueueGrowth,
    /// Share of KV blocks in use, 0 to 1.
    KvUsage,
    /// Requests waiting and running.
    InFlight,
    /// Requests running.
    Running,
    /// Requests that arrive, per second.
    ArrivalRate,
    /// Tokens generated, per second.
    TokenRate,
    /// 95th percentile of the time to first token, seconds, as a histogram with vLLM's buckets tells it.
    TtftP95,
    /// Mean time that admitted requests had waited, seconds.
    QueueTime,
}

impl Signal {
    /// All of them, in the order in which choices list them.
    pub const ALL: [Signal; 13] = [
        Signal::CpuUtilisation,
        Signal::ComputeUtilisation,
        Signal::GpuUtilisation,
        Signal::Preemptions,
        Signal::QueueDepth,
        Signal::QueueGrowth,
        Signal::KvUsage,
        Signal::InFlight,
        Signal::Running,
        Signal::ArrivalRate,
        Signal::TokenRate,
        Signal::TtftP95,
        Signal::QueueTime,
    ];

    /// Stable snake_case names, in the same order.
    pub const NAMES: [&'static str; 13] = [
        "cpu_utilisation",
        "compute_utilisation",
        "gpu_utilisation",
        "preemptions",
        "queue_depth",
        "queue_growth",
        "kv_usage",
        "in_flight",
        "running",
        "arrival_rate",
        "token_rate",
        "ttft_p95",
        "queue_time",
    ];

    /// The signal of that place in [`Signal::ALL`]; the last one beyond its end.
    pub fn of(index: u32) -> Self {
        Self::ALL[(index as usize).min(Self::ALL.len() - 1)]
    }

    /// Its stable snake_case name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// A level that can be read at an instant; the others are made from what was counted between two scrapes.
    pub fn is_gauge(self) -> bool {
        matches!(self, Signal::QueueDepth | Signal::KvUsage | Signal::InFlight | Signal::Running)
    }

    /// The fleet's value is the sum over replicas; otherwise it is their mean.
    pub fn adds_up(self) -> bool {
        !matches!(
            self,
            Signal::CpuUtilisation
                | Signal::ComputeUtilisation
                | Signal::GpuUtilisation
                | Signal::KvUsage
                | Signal::TtftP95
                | Signal::QueueTime
        )
    }
}

/// Over which time a signal is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The latest scrape (what is counted: between it and the one before).
    Latest,
    /// The mean of so long.
    Mean(Nanos),
    /// The largest value of so long.
    Max(Nanos),
}
