//! Words of the gateway.

pub(crate) const GROUP_GATEWAY: &str = "Gateway";
pub(crate) const GATEWAY_NOTE: &str = "What stands in front of the routers: it turns requests away, or has them wait. 429 is the caller's quota, 503 is missing capacity.";
pub(crate) const CLASSES: &str = "Priority classes";
pub(crate) const CLASSES_HELP: &str = "For example interactive(priority=10,weight=4),batch(priority=-1,tenants=C E-H). A class without tenants has all others; empty, all are alike.";

pub(crate) const REFUSALS: &str = "Turned away";
pub(crate) const COL_RUN: &str = "Run";
pub(crate) const COL_LAYER: &str = "By";
pub(crate) const COL_CAUSE: &str = "Because";
pub(crate) const COL_STATUS: &str = "Status";
pub(crate) const COL_TURNED_AWAY: &str = "Attempts";
pub(crate) const CLASS_RESULTS: &str = "Priority classes";
pub(crate) const COL_CLASS: &str = "Class";
pub(crate) const COL_CLASS_REFUSED: &str = "Refused";
pub(crate) const COL_CLASS_TTFT: &str = "TTFT p95";
pub(crate) const COL_CLASS_HELD: &str = "Held p95";
pub(crate) const COL_CLASS_GOOD: &str = "Good";

/// So many of so many.
pub(crate) fn good_share(fraction: f64) -> String {
    format!("{:.0} %", fraction * 100.0)
}
