//! Stages: each decides alone on an attempt, when it comes.

use super::ask::{Ask, Ended, Refused, View};
use super::classes::Classes;
use super::length::{Length, LengthConfig};
use super::rate_limit::{RateLimit, RateLimitConfig};
use super::retry_cap::{RetryCap, RetryCapConfig};
use super::saturation::{Shed, ShedConfig};
use super::success_rate::{SuccessRate, SuccessRateConfig};
use super::token_budget::{TokenBudget, TokenBudgetConfig};
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;

/// A stage of the chain. An attempt passes them in the order in which they stand; the first that refuses ends it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StageConfig {
    /// Longest prompt and output: 400.
    Length(LengthConfig),
    /// Cap on retries: 429.
    RetryCap(RetryCapConfig),
    /// Fewer while the servers fail: 503.
    SuccessRate(SuccessRateConfig),
    /// Work of negative priority is shed while the fleet is full: 429.
    Shed(ShedConfig),
    /// Requests per second of each tenant: 429.
    RateLimit(RateLimitConfig),
    /// Tokens per second of each tenant: 429.
    TokenBudget(TokenBudgetConfig),
}

/// What a stage does.
pub(crate) trait Stage {
    /// Lets an attempt through, and remembers that it did, or says why not. `draw` is this attempt's own at this stage.
    fn admit(&mut self, ask: &Ask, view: &View<'_>, draw: &mut Stream) -> Result<(), Refused>;

    /// An attempt it let through never reached a replica.
    fn forget(&mut self, _ask: &Ask) {}

    /// An attempt that reached a replica has ended.
    fn ended(&mut self, _ended: &Ended) {}
}

/// The stages, dispatched by hand so that they can be saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnyStage {
    Length(Length),
    RetryCap(RetryCap),
    SuccessRate(SuccessRate),
    Shed(Shed),
    RateLimit(RateLimit),
    TokenBudget(TokenBudget),
}

impl AnyStage {
    pub(crate) fn new(config: StageConfig, tenants: u32) -> Self {
        match config {
            StageConfig::Length(config) => AnyStage::Length(Length { config }),
            StageConfig::RetryCap(config) => AnyStage::RetryCap(RetryCap::new(config)),
            StageConfig::SuccessRate(config) => AnyStage::SuccessRate(SuccessRate::new(config)),
            StageConfig::Shed(config) => AnyStage::Shed(Shed { config }),
            StageConfig::RateLimit(config) => AnyStage::RateLimit(RateLimit::new(config, tenants)),
            StageConfig::TokenBudget(config) => AnyStage::TokenBudget(TokenBudget::new(config, tenants)),
        }
    }

    fn stage(&mut self) -> Option<&mut dyn Stage> {
        match self {
            AnyStage::Length(stage) => Some(stage),
            AnyStage::RetryCap(stage) => Some(stage),
            AnyStage::SuccessRate(stage) => Some(stage),
            AnyStage::RateLimit(stage) => Some(stage),
            AnyStage::TokenBudget(stage) => Some(stage),
            // It asks for the class, which is the chain's to know.
            AnyStage::Shed(_) => None,
        }
    }

    pub(crate) fn admit(
        &mut self,
        ask: &Ask,
        classes: &Classes,
        view: &View<'_>,
        draw: &mut Stream,
    ) -> Result<(), Refused> {
        if let AnyStage::Shed(shed) = self {
            return shed.admit(ask, classes, view, draw);
        }
        self.stage().map_or(Ok(()), |stage| stage.admit(ask, view, draw))
    }

    pub(crate) fn forget(&mut self, ask: &Ask) {
        if let Some(stage) = self.stage() {
            stage.forget(ask);
        }
    }

    pub(crate) fn ended(&mut self, ended: &Ended) {
        if let Some(stage) = self.stage() {
            stage.ended(ended);
        }
    }

    /// It has the same settings, and counts as many tenants.
    pub(crate) fn is_like(&self, other: &AnyStage) -> bool {
        match (self, other) {
            (AnyStage::Length(one), AnyStage::Length(other)) => one.config == other.config,
            (AnyStage::RetryCap(one), AnyStage::RetryCap(other)) => one.config == other.config,
            (AnyStage::SuccessRate(one), AnyStage::SuccessRate(other)) => one.config == other.config,
            (AnyStage::Shed(one), AnyStage::Shed(other)) => one.config == other.config,
            (AnyStage::RateLimit(one), AnyStage::RateLimit(other)) => {
                one.config == other.config && one.tenants() == other.tenants()
            }
            (AnyStage::TokenBudget(one), AnyStage::TokenBudget(other)) => {
                one.config == other.config && one.tenants() == other.tenants()
            }
            _ => false,
        }
    }

    pub(crate) fn reads_metrics(&self) -> bool {
        matches!(self, AnyStage::Shed(shed) if shed.config.detector.reads_metrics())
    }
}
