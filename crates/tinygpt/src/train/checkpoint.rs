//! Everything a run needs to go on, in a safetensors file: the weights under their own names, the optimiser's means under `first.` and
//! `second.`, all f32, steps done and settings in the header's metadata.

use super::TrainError;
use super::adamw::Moments;
use super::trainer::{Settings, State};
use crate::weights::Weights;
use crate::weights_file::{self, Precision, WeightsError};

const STEP_KEY: &str = "servelab.step";
const SETTINGS_KEY: &str = "servelab.settings";

/// Writes a checkpoint.
///
/// # Errors
/// When the format refuses.
pub fn save(state: &State, settings: &Settings) -> Result<Vec<u8>, TrainError> {
    let shapes = Weights::shapes(&state.weights.config);
    let mut tensors = Vec::new();
    for (prefix, part) in [("", &state.weights), ("first.", &state.moments.first), ("second.", &state.moments.second)] {
        for ((name, data), (_, shape)) in part.tensors().into_iter().zip(&shapes) {
            tensors.push((format!("{prefix}{name}"), shape.clone(), data));
        }
    }
    let json = serde_json::to_string(settings).map_err(|error| unreadable(error.to_string()))?;
    let more = [(STEP_KEY.to_string(), state.step.to_string()), (SETTINGS_KEY.to_string(), json)];
    Ok(weights_file::write(&state.weights.config, &tensors, Precision::F32, more)?)
}

/// Reads a checkpoint.
///
/// # Errors
/// When it is damaged, or a tensor is missing or has another shape.
pub fn load(bytes: &[u8]) -> Result<(State, Settings), TrainError> {
    let file = weights_file::open(bytes)?;
    let config = weights_file::config(bytes)?;
    let metadata = weights_file::metadata(bytes)?;
    let entry = |key: &str| metadata.get(key).ok_or_else(|| unreadable(format!("the header has no {key}")));
    let step = entry(STEP_KEY)?.parse().map_err(|error| unreadable(format!("{STEP_KEY}: {error}")))?;
    let settings =
        serde_json::from_str(entry(SETTINGS_KEY)?).map_err(|error| unreadable(format!("{SETTINGS_KEY}: {error}")))?;
    let part = |prefix: &str| -> Result<Weights, TrainError> {
        let mut part = Weights::zeros(&config)?;
        for ((name, shape), out) in Weights::shapes(&config).into_iter().zip(part.tensors_mut()) {
            let name = format!("{prefix}{name}");
            weights_file::fill(&name, &weights_file::checked(&file, &name, &shape)?, out)?;
        }
        Ok(part)
    };
    let moments = Moments { first: part("first.")?, second: part("second.")? };
    Ok((State { step, weights: part("")?, moments }, settings))
}

fn unreadable(reason: String) -> TrainError {
    TrainError::Weights(WeightsError::Unreadable { reason })
}
