//! The trained model that comes with the page: a manifest of lengths and hashes, weights and tokenizer, and what is checked on opening them.

use crate::bpe::{BpeError, BpeTokenizer};
use crate::config::TinyGptConfig;
pub use crate::manifest::{FileInfo, MANIFEST, Manifest, ManifestError};
use crate::tokenizer::{ByteTokenizer, Tokenizer};
use crate::weights::Weights;
use crate::weights_file::WeightsError;
use thiserror::Error;

/// Seed of the random reference weights that stand in for a model that can not be had.
const WEIGHTS_SEED: u64 = 0;

/// A model that can not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// A file that is not what the manifest says.
    #[error(transparent)]
    File(#[from] ManifestError),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] BpeError),
    /// The weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// Weights and the tokenizer that goes with them.
pub struct Model {
    /// The weights.
    pub weights: Weights,
    /// The tokenizer.
    pub tokenizer: Box<dyn Tokenizer>,
}

impl Model {
    /// The model of a manifest, its files checked.
    ///
    /// # Errors
    /// [`ModelError`] naming the file or the tensor.
    pub fn checked(manifest: &Manifest, weights: &[u8], tokenizer: &[u8]) -> Result<Self, ModelError> {
        manifest.weights.check(weights)?;
        manifest.tokenizer.check(tokenizer)?;
        Model::from_files(weights, tokenizer)
    }

    /// Anyone's own files.
    ///
    /// # Errors
    /// [`ModelError`] naming the tensor, its expected and its found shape.
    pub fn from_files(weights: &[u8], tokenizer: &[u8]) -> Result<Self, ModelError> {
        let tokenizer = BpeTokenizer::from_json(tokenizer)?;
        let weights = Weights::from_safetensors(weights)?;
        weights.suits(tokenizer.vocabulary())?;
        Ok(Model { weights, tokenizer: Box::new(tokenizer) })
    }

    /// Random reference weights over bytes: what stands in for a model that can not be had. They write nonsense, at a model's pace.
    pub fn stand_in() -> Self {
        let weights = Weights::random(&TinyGptConfig::default(), WEIGHTS_SEED);
        Model { weights: weights.expect("the reference is valid"), tokenizer: Box::new(ByteTokenizer) }
    }
}
