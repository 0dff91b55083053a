//! The trained model for live runs: weights and alphabet out of its folder, wherever that is, and where starting replicas get theirs.

use crate::alphabet::Alphabet;
use crate::boot::Fetch;
use crate::config::TinyGptConfig;
use crate::manifest::{FileInfo, MANIFEST, Manifest};
use crate::weights::Weights;
use servelab_spec::experiment::ModelChoice;
use std::pin::Pin;
use std::rc::Rc;

/// Seed of random weights. Fixed: the model belongs to the project and not to the experiment.
pub const WEIGHTS_SEED: u64 = 0;

/// Gets a file of the folder by its name; the hash tells versions of it apart where somebody keeps copies.
pub type Get = Rc<dyn Fn(String, Option<String>) -> Got>;

/// A file on its way, or why it does not come.
pub type Got = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>>>>;

/// Weights of a live run's model, and its alphabet where that is not bytes.
///
/// # Errors
/// A sentence on the file that is missing or damaged.
pub async fn open(model: ModelChoice, get: &Get) -> Result<(Weights, Option<Alphabet>), String> {
    if let Some(config) = random(model) {
        return Weights::random(&config, WEIGHTS_SEED)
            .map(|weights| (weights, None))
            .map_err(|error| error.to_string());
    }
    let manifest = manifest(get).await?;
    let tokenizer = checked(&manifest.tokenizer, get).await?;
    let alphabet = Alphabet::from_json(&tokenizer).map_err(|error| error.to_string())?;
    let weights = weights(&manifest, get).await?;
    weights.suits(alphabet.vocabulary() as usize).map_err(|error| error.to_string())?;
    Ok((weights, Some(alphabet)))
}

/// Where starting replicas of that model get their weights: the trained ones from the folder, each time; random ones are drawn anew.
pub fn fetch(model: ModelChoice, get: Get) -> Fetch {
    Box::new(move || {
        let get = get.clone();
        Box::pin(async move {
            match random(model) {
                Some(config) => Weights::random(&config, WEIGHTS_SEED).map_err(|error| error.to_string()),
                None => weights(&manifest(&get).await?, &get).await,
            }
        })
    })
}

/// The shape of a model with random weights.
fn random(model: ModelChoice) -> Option<TinyGptConfig> {
    match model {
        ModelChoice::Reference => Some(TinyGptConfig::default()),
        ModelChoice::Small => Some(TinyGptConfig::small()),
        ModelChoice::Trained => None,
    }
}

async fn manifest(get: &Get) -> Result<Manifest, String> {
    let bytes = get(MANIFEST.into(), None).await?;
    Manifest::from_json(&bytes).map_err(|error| error.to_string())
}

async fn weights(manifest: &Manifest, get: &Get) -> Result<Weights, String> {
    let bytes = checked(&manifest.weights, get).await?;
    Weights::from_safetensors(&bytes).map_err(|error| error.to_string())
}

async fn checked(info: &FileInfo, get: &Get) -> Result<Vec<u8>, String> {
    let bytes = get(info.file.clone(), Some(info.sha256.clone())).await?;
    info.check(&bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
