//! What sources refuse by themselves. A spec is checked before it comes here; a saved state, or a caller, may hold anything.

use servelab_spec::validate::SpecError;

/// Refuses a range that is upside down, or whose shortest is below `least`.
pub(super) fn range(field: &str, (low, high): (u32, u32), least: u32) -> Result<(), SpecError> {
    if low < least {
        return Err(SpecError::new(format!("workload.{field}_min"), low, format!("use at least {least}")));
    }
    if high < low || high > 1 << 24 {
        let accepted = format!("use {low} (workload.{field}_min) to {}", 1 << 24);
        return Err(SpecError::new(format!("workload.{field}_max"), high, accepted));
    }
    Ok(())
}

pub(super) fn tenants(tenants: u32, skew: f64) -> Result<(), SpecError> {
    if tenants == 0 {
        return Err(SpecError::new("workload.tenants", 0, "use at least 1"));
    }
    if !skew.is_finite() || skew < 0.0 {
        return Err(SpecError::new("workload.skew", skew, "use 0 (uniform) or more"));
    }
    Ok(())
}

pub(super) fn rate(rate_per_s: f64) -> Result<(), SpecError> {
    if !rate_per_s.is_finite() || rate_per_s <= 0.0 {
        return Err(SpecError::new("workload.rate", rate_per_s, "use a rate above 0 requests/s"));
    }
    Ok(())
}

/// A time or a share.
pub(super) fn real(field: &str, value: f64, most: f64) -> Result<(), SpecError> {
    if !value.is_finite() || value < 0.0 || value > most {
        return Err(SpecError::new(format!("workload.{field}"), value, format!("use 0 to {most}")));
    }
    Ok(())
}

/// A number that has bounds.
pub(super) fn whole(field: &str, value: u32, least: u32, most: u32) -> Result<(), SpecError> {
    if value < least || value > most {
        return Err(SpecError::new(format!("workload.{field}"), value, format!("use {least} to {most}")));
    }
    Ok(())
}

/// Most requests of a source that keeps a schedule of them: as many as a spec may ask for.
pub(super) fn requests(requests: u32) -> Result<(), SpecError> {
    whole("requests", requests, 1, 1_000_000)
}
