//! Which signal sees too much load coming, and how long before the first late user: what is answered.

use serde::{Deserialize, Serialize};

/// Every signal on one run of a fleet that nobody scales.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalsReport {
    /// Arrival of the first request that was late, seconds; absent when nobody was.
    pub first_late_s: Option<f64>,
    /// How far the run went, seconds.
    pub until_s: f64,
    /// Seconds between two scrapes.
    pub scrape_s: f64,
    /// Every signal is the mean of so many seconds.
    pub window_s: f64,
    /// What a new replica takes to be ready, seconds: a lead shorter than that is too short.
    pub cold_start_s: f64,
    /// Share of a replica's capacity that was asked for when the first user was late; absent when nobody was.
    pub load_at_first_late: Option<f64>,
    /// One row each, the best first.
    pub rows: Vec<SignalRow>,
    /// What that comes to, in a sentence or two.
    pub sentences: Vec<String>,
}

/// One signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalRow {
    /// Stable snake_case name.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// Its unit; empty for shares and counts.
    pub unit: String,
    /// The value at which it calls, for each replica.
    pub threshold: f64,
    /// Where that comes from.
    pub basis: String,
    /// Its median while nobody was late and nobody was about to be; absent when it never had a value then.
    pub calm: Option<f64>,
    /// Its value at the last scrape before the first late user.
    pub at_first_late: Option<f64>,
    /// How long before the first late user it began to call without a break, seconds; negative: after. Absent when it never called, or nobody was late.
    pub lead_s: Option<f64>,
    /// Share of calm scrapes at which it called.
    pub false_share: f64,
    /// What to think of it.
    pub verdict: SignalVerdict,
}

/// What to think of a signal at its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalVerdict {
    /// It called early enough for a new replica to be ready.
    InTime,
    /// It called before the first late user, but a new replica would have come after.
    TooShort,
    /// It called when users were late already.
    Late,
    /// It calls while nothing is wrong.
    CriesWolf,
    /// It never called.
    Silent,
}

impl SignalVerdict {
    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            SignalVerdict::InTime => "in time",
            SignalVerdict::TooShort => "too short a warning",
            SignalVerdict::Late => "late",
            SignalVerdict::CriesWolf => "calls without need",
            SignalVerdict::Silent => "never calls",
        }
    }
}
