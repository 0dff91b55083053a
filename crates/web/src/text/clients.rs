//! Words of clients and faults.

use crate::format::{duration, number, percent};
use servelab_spec::report::ClientsReport;

pub(crate) const CLIENTS: &str = "Client policies compared";
pub(crate) const NO_CLIENT: &str = "Each request is sent once, and its client waits for ever.";
pub(crate) const ADD_CLIENT: &str = "Add a client policy…";
pub(crate) const CLIENT_SOURCE: &str = "From";
pub(crate) const GROUP_CLIENTS: &str = "Clients";
pub(crate) const CLIENTS_NOTE: &str = "Who sends requests, and what they do when one fails. What a client gave up goes on costing the server, unless cancellation reaches it.";
pub(crate) const GROUP_FAULTS: &str = "What goes wrong";
pub(crate) const FAULTS_NOTE: &str = "Replicas that are down, cut off or failing for a while, and what is done about it. Times are on the run's own clock.";

pub(crate) const CLIENTS_RESULTS: &str = "Clients and what they cost";
pub(crate) const COL_CLIENTS: &str = "Clients";
pub(crate) const COL_AMPLIFICATION: &str = "Attempts a request";
pub(crate) const COL_PEAK_LOAD: &str = "Peak load";
pub(crate) const COL_SERVED: &str = "All served";
pub(crate) const COL_GAVE_UP: &str = "Given up";
pub(crate) const COL_WAITING: &str = "Still waiting";
pub(crate) const COL_USEFUL: &str = "Useful";
pub(crate) const COL_WASTE: &str = "Wasted";
pub(crate) const COL_REFUSING: &str = "Refusing";
pub(crate) const COL_IDLE: &str = "Idle";
pub(crate) const COL_DOWN: &str = "Down";
pub(crate) const COL_TIMED_OUT: &str = "Timed out";

pub(crate) fn peak_load(of: &ClientsReport) -> String {
    format!("{} ×", number(of.peak))
}

pub(crate) fn served_at(of: &ClientsReport) -> String {
    of.all_served_s.map_or_else(|| "never".to_owned(), duration)
}

pub(crate) fn refused(of: &ClientsReport) -> String {
    let attempts = &of.attempts;
    let by = [
        (attempts.refused_by_client, "by the client"),
        (attempts.refused_by_gateway, "by the gateway"),
        (attempts.refused_by_router, "by the router"),
        (attempts.refused_by_replica, "by a replica"),
    ];
    let said: Vec<String> =
        by.into_iter().filter(|(many, _)| *many > 0).map(|(many, who)| format!("{many} {who}")).collect();
    if said.is_empty() { "none".into() } else { said.join(", ") }
}

pub(crate) const COL_REFUSED: &str = "Turned away";

/// A storm that does not end.
pub(crate) fn still_waiting(label: &str, of: &ClientsReport) -> String {
    format!(
        "{label}: {} clients still wait where the run ends. {} of the capacity has been useful so far.",
        of.waiting,
        percent(of.capacity.useful)
    )
}
