//! Every controller there is. A plain static list: adding a controller is one line here and one file.

use super::{
    Controller, aibrix_apa, dynamo_planner, keda, knative_kpa, kubernetes_hpa, llm_d_wva, naive_ratio, oracle,
    ray_serve, schedule, skyserve,
};
use crate::routing::params::Params;
use servelab_spec::catalog::ControllerInfo;
use servelab_spec::experiment::ControllerSpec;
use servelab_spec::validate::SpecError;

/// A controller's place in the registry.
pub struct Entry {
    /// Its stable snake_case name.
    pub name: &'static str,
    /// Its description.
    pub info: fn() -> ControllerInfo,
    /// Builds it from checked parameters.
    pub(crate) build: fn(&Params) -> Box<dyn Controller>,
}

/// The controllers, in the order in which they are listed.
pub static CONTROLLERS: &[Entry] = &[
    kubernetes_hpa::ENTRY,
    keda::ENTRY,
    knative_kpa::ENTRY,
    ray_serve::ENTRY,
    skyserve::ENTRY,
    aibrix_apa::ENTRY,
    dynamo_planner::ENTRY,
    llm_d_wva::ENTRY,
    naive_ratio::ENTRY,
    schedule::ENTRY,
    oracle::ENTRY,
];

/// Descriptions of all controllers, for the catalog.
pub fn catalog() -> Vec<ControllerInfo> {
    CONTROLLERS.iter().map(|entry| (entry.info)()).collect()
}

/// Builds a controller.
///
/// # Errors
/// [`SpecError`] naming the field: an unknown controller (`scaling.controllers.name`), an unknown parameter or one out of range
/// (`scaling.controllers.<controller>.<parameter>`).
pub fn build(spec: &ControllerSpec) -> Result<Box<dyn Controller>, SpecError> {
    let Some(entry) = CONTROLLERS.iter().find(|entry| entry.name == spec.name) else {
        let known: Vec<&str> = CONTROLLERS.iter().map(|entry| entry.name).collect();
        let accepted = format!("controllers are {}", known.join(", "));
        return Err(SpecError::new("scaling.controllers.name", &spec.name, accepted));
    };
    let info = (entry.info)();
    let params = Params::read(&format!("scaling.controllers.{}", info.name), &info.params, &spec.params)?;
    Ok((entry.build)(&params))
}
