//! What a chain's settings must satisfy. Fields are named as in a spec.

use super::gradient::GradientConfig;
use super::ramp::RampConfig;
use super::saturation::{Detector, HoldBackConfig, ShedConfig, ShedRule};
use super::success_rate::SuccessRateConfig;
use super::{ChainConfig, GateConfig, GatewayConfig, StageConfig};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;
use std::fmt::Display;

fn ensure(holds: bool, field: &str, found: impl Display, accepted: &str) -> Result<(), SpecError> {
    if holds { Ok(()) } else { Err(SpecError::new(field, found, accepted)) }
}

fn share(field: &str, value: f64) -> Result<(), SpecError> {
    ensure((0.0..=1.0).contains(&value), field, value, "use 0 to 1")
}

fn above_zero(field: &str, value: f64) -> Result<(), SpecError> {
    ensure(value > 0.0 && value.is_finite(), field, value, "use a number above 0")
}

impl GatewayConfig {
    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        match self {
            GatewayConfig::AcceptAll | GatewayConfig::CentralQueue { .. } => Ok(()),
            GatewayConfig::Chain(chain) => chain.validate(),
        }
    }
}

impl ChainConfig {
    /// Most classes: every decision looks at each.
    pub const MAX_CLASSES: usize = 16;

    fn validate(&self) -> Result<(), SpecError> {
        ensure(self.in_flight > 0, "gateway.in_flight", 0, "use at least 1, or no limit")?;
        let known = matches!(self.refuse_with, 429 | 503);
        ensure(known, "gateway.refuse_with", self.refuse_with, "use 429 (your quota) or 503 (no capacity)")?;
        let many = self.classes.len();
        ensure(many <= Self::MAX_CLASSES, "gateway.classes", many, "use at most 16 classes")?;
        for class in &self.classes {
            ensure(class.weight > 0, "gateway.classes.weight", 0, "use at least 1")?;
        }
        self.stages.iter().try_for_each(stage)?;
        self.gates.iter().try_for_each(gate)?;
        let Some(codel) = self.queue.codel else { return Ok(()) };
        ensure(codel.interval > Nanos::ZERO, "gateway.codel.interval", 0, "use an interval above 0")?;
        ensure(codel.target > Nanos::ZERO, "gateway.codel.target", 0, "use a target above 0")
    }
}

fn detector(field: &str, detector: &Detector) -> Result<(), SpecError> {
    match *detector {
        Detector::Metrics { queue, kv, .. } => {
            above_zero(&format!("{field}.queue"), queue)?;
            ensure(kv > 0.0 && kv <= 1.0, &format!("{field}.kv"), kv, "use a share above 0, at most 1")
        }
        Detector::InFlight { per_replica } => above_zero(&format!("{field}.per_replica"), per_replica),
    }
}

fn stage(stage: &StageConfig) -> Result<(), SpecError> {
    match stage {
        StageConfig::Length(_) | StageConfig::RetryCap(_) => Ok(()),
        StageConfig::RateLimit(limit) => rate("gateway.rate", limit.rate.micro_per_s, limit.rate.burst),
        StageConfig::TokenBudget(budget) => rate("gateway.tokens", budget.rate.micro_per_s, budget.rate.burst),
        &StageConfig::SuccessRate(SuccessRateConfig { window_s, threshold, aggression, most }) => {
            let field = "gateway.success.window_s";
            ensure((1..=3600).contains(&window_s), field, window_s, "use 1 s to 3600 s")?;
            let accepted = "use a share above 0, at most 1";
            ensure(threshold > 0.0 && threshold <= 1.0, "gateway.success.threshold", threshold, accepted)?;
            let fits = aggression >= 1.0 && aggression.is_finite();
            ensure(fits, "gateway.success.aggression", aggression, "use at least 1")?;
            share("gateway.success.most", most)
        }
        StageConfig::Shed(ShedConfig { detector: by, rule }) => {
            detector("gateway.saturation", by)?;
            let ShedRule::Gradually { factor, exponent } = *rule else { return Ok(()) };
            above_zero("gateway.shed.factor", factor)?;
            above_zero("gateway.shed.exponent", exponent)
        }
    }
}

fn rate(field: &str, micro_per_s: u64, burst: u64) -> Result<(), SpecError> {
    ensure(micro_per_s > 0, &format!("{field}.per_s"), 0, "use a rate above 0")?;
    ensure(burst > 0, &format!("{field}.burst"), 0, "use at least 1")
}

fn gate(gate: &GateConfig) -> Result<(), SpecError> {
    match gate {
        GateConfig::Concurrency { limit } => ensure(*limit > 0, "gateway.concurrency", 0, "use at least 1"),
        GateConfig::HoldBack(HoldBackConfig { detector: by, share: held }) => {
            detector("gateway.saturation", by)?;
            share("gateway.hold_back", *held)
        }
        &GateConfig::Ramp(RampConfig { window, least, aggression, full }) => {
            ensure(window > Nanos::ZERO, "gateway.ramp.window", 0, "use a time above 0")?;
            share("gateway.ramp.least", least)?;
            above_zero("gateway.ramp.aggression", aggression)?;
            ensure(full > 0, "gateway.ramp.full", 0, "use at least 1")
        }
        GateConfig::Gradient(GradientConfig { quantile, min_samples, least, most, buffer, .. }) => {
            share("gateway.gradient.quantile", *quantile)?;
            ensure(*min_samples > 0, "gateway.gradient.min_samples", 0, "use at least 1")?;
            ensure(*least > 0, "gateway.gradient.least", 0, "use at least 1")?;
            ensure(most >= least, "gateway.gradient.most", most, "use at least the least limit")?;
            ensure(*buffer >= 0.0 && buffer.is_finite(), "gateway.gradient.buffer", buffer, "use 0 or more")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(chain: ChainConfig) -> Option<String> {
        GatewayConfig::Chain(Box::new(chain)).validate().err().map(|error| error.field)
    }

    #[test]
    fn nonsense_is_refused_at_the_field() {
        let plain = ChainConfig::default;
        assert_eq!(field(plain()), None);
        let named = |chain| field(chain).unwrap_or_default();
        assert_eq!(named(ChainConfig { in_flight: 0, ..plain() }), "gateway.in_flight");
        assert_eq!(named(ChainConfig { refuse_with: 500, ..plain() }), "gateway.refuse_with");
        let gate = |gate| named(ChainConfig { gates: vec![gate], ..plain() });
        assert_eq!(gate(GateConfig::Concurrency { limit: 0 }), "gateway.concurrency");
        let kv = Detector::Metrics { queue: 5.0, kv: 1.5, stale_after: Nanos::ZERO };
        assert_eq!(gate(GateConfig::HoldBack(HoldBackConfig { detector: kv, share: 0.1 })), "gateway.saturation.kv");
        let hold = HoldBackConfig { detector: Detector::LLM_D, share: f64::NAN };
        assert_eq!(gate(GateConfig::HoldBack(hold)), "gateway.hold_back");
        let gradient = GradientConfig { most: 2, ..GradientConfig::ENVOY };
        assert_eq!(gate(GateConfig::Gradient(gradient)), "gateway.gradient.most");
        let success = SuccessRateConfig { window_s: 120, threshold: 0.0, aggression: 1.0, most: 0.8 };
        let stages = vec![StageConfig::SuccessRate(success)];
        assert_eq!(named(ChainConfig { stages, ..plain() }), "gateway.success.threshold");
    }
}
