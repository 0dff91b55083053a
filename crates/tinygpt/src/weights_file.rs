//! Weights in a safetensors file: names and shapes of [`Weights::shapes`], f32 or f16, the configuration as JSON in the header's metadata.

use crate::config::{ConfigError, TinyGptConfig};
use crate::weights::Weights;
use half::f16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::BTreeMap;
use thiserror::Error;

/// Key of the configuration in the header's metadata.
pub const CONFIG_KEY: &str = "servelab.tinygpt";

/// Longest file that is read, bytes.
pub const MAX_BYTES: usize = 1 << 30;

/// How numbers lie in a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Four bytes, as trained.
    F32,
    /// Two bytes, rounded to nearest.
    F16,
}

/// A file of weights that can not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WeightsError {
    /// Not a safetensors file, cut off, or too long.
    #[error("weights: {reason}; accepted is a safetensors file of a TinyGPT")]
    Unreadable {
        /// What the reader says.
        reason: String,
    },
    /// The header names no configuration, or one that can not be read.
    #[error(
        "weights: the header's metadata {reason}; accepted is the configuration as JSON under \"servelab.tinygpt\""
    )]
    NoConfig {
        /// What is wrong.
        reason: String,
    },
    /// A configuration that describes no network.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A tensor is not there.
    #[error("weights: tensor {tensor} is missing; expected with shape {expected:?}")]
    Missing {
        /// Its name.
        tensor: String,
        /// Its shape.
        expected: Vec<usize>,
    },
    /// A tensor of another shape.
    #[error("weights: tensor {tensor} has shape {found:?}; expected is {expected:?}")]
    Shape {
        /// Its name.
        tensor: String,
        /// What the configuration asks for.
        expected: Vec<usize>,
        /// What the file has.
        found: Vec<usize>,
    },
    /// A tensor that the configuration does not know.
    #[error(
        "weights: tensor {tensor} of shape {found:?} belongs to no part of this network; expected are {expected} tensors"
    )]
    Unknown {
        /// Its name.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// How many tensors the network has.
        expected: usize,
    },
    /// Numbers of another type.
    #[error("weights: tensor {tensor} holds {found}; accepted are F32 and F16")]
    Type {
        /// Its name.
        tensor: String,
        /// The type.
        found: String,
    },
    /// A number that is none.
    #[error("weights: tensor {tensor} has {value} at element {index}; accepted are finite numbers")]
    NotFinite {
        /// Its name.
        tensor: String,
        /// Which element.
        index: usize,
        /// Its value.
        value: String,
    },
    /// Vocabularies of weights and tokenizer differ.
    #[error(
        "weights: tensor embedding has shape {found:?}; the tokenizer has {vocabulary} tokens, so expected is {expected:?}"
    )]
    Vocabulary {
        /// Tokens of the tokenizer.
        vocabulary: usize,
        /// Shape that goes with it.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
}

impl Weights {
    /// Reads a safetensors file; numbers of half precision are widened.
    ///
    /// # Errors
    /// [`WeightsError`] naming the tensor, what was expected and what was found.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, WeightsError> {
        let file = open(bytes)?;
        let config = config(bytes)?;
        if config.layers > file.len() {
            // Before anything is made for that many layers.
            let expected = vec![config.width];
            return Err(WeightsError::Missing { tensor: format!("layers.{}.attention_norm", file.len()), expected });
        }
        let shapes = Weights::shapes(&config);
        if let Some((name, view)) = file.iter().find(|(name, _)| shapes.iter().all(|(known, _)| known != name)) {
            return Err(WeightsError::Unknown {
                tensor: name.into(),
                found: view.shape().to_vec(),
                expected: shapes.len(),
            });
        }
        // Shapes first: a configuration that asks for more than the file holds must not make anybody allocate it.
        let views: Vec<TensorView<'_>> =
            shapes.iter().map(|(name, expected)| checked(&file, name, expected)).collect::<Result<_, _>>()?;
        let mut weights = Weights::zeros(&config)?;
        for (((name, _), view), tensor) in shapes.iter().zip(&views).zip(weights.tensors_mut()) {
            fill(name, view, tensor)?;
        }
        Ok(weights)
    }

    /// Writes a safetensors file.
    ///
    /// # Errors
    /// [`WeightsError::Unreadable`] when the format refuses.
    pub fn to_safetensors(&self, precision: Precision) -> Result<Vec<u8>, WeightsError> {
        let tensors = self.tensors().into_iter().zip(Weights::shapes(&self.config));
        let tensors: Vec<_> = tensors.map(|((name, data), (_, shape))| (name, shape, data)).collect();
        write(&self.config, &tensors, precision, [])
    }

    /// Whether a tokenizer's ids are these weights' rows.
    ///
    /// # Errors
    /// [`WeightsError::Vocabulary`].
    pub fn suits(&self, vocabulary: usize) -> Result<(), WeightsError> {
        let (have, width) = (self.config.vocabulary, self.config.width);
        if have == vocabulary {
            return Ok(());
        }
        Err(WeightsError::Vocabulary { vocabulary, expected: vec![vocabulary, width], found: vec![have, width] })
    }
}

/// Named tensors with their shapes and numbers, as a safetensors file.
pub(crate) fn write(
    config: &TinyGptConfig,
    tensors: &[(String, Vec<usize>, &[f32])],
    precision: Precision,
    more: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<u8>, WeightsError> {
    let unreadable = |reason: String| WeightsError::Unreadable { reason };
    let json = serde_json::to_string(config).map_err(|error| unreadable(error.to_string()))?;
    // Of the map type that the crate asks for.
    let metadata = more.into_iter().chain([(CONFIG_KEY.to_string(), json)]).collect();
    let dtype = match precision {
        Precision::F32 => Dtype::F32,
        Precision::F16 => Dtype::F16,
    };
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, data)| match precision {
            Precision::F32 => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Precision::F16 => data.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        })
        .collect();
    let views: Vec<(String, TensorView<'_>)> = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| Ok((name.clone(), TensorView::new(dtype, shape.clone(), bytes)?)))
        .collect::<Result<_, safetensors::SafeTensorError>>()
        .map_err(|error| unreadable(error.to_string()))?;
    safetensors::serialize(views, Some(metadata)).map_err(|error| unreadable(error.to_string()))
}

/// Opens a file's header and checks that its data is there.
pub(crate) fn open(bytes: &[u8]) -> Result<SafeTensors<'_>, WeightsError> {
    if bytes.len() > MAX_BYTES {
        let reason = format!("the file has {} bytes, more than {MAX_BYTES}", bytes.len());
        return Err(WeightsError::Unreadable { reason });
    }
    SafeTensors::deserialize(bytes).map_err(|error| WeightsError::Unreadable { reason: error.to_string() })
}

/// Metadata of a file's header.
pub(crate) fn metadata(bytes: &[u8]) -> Result<BTreeMap<String, String>, WeightsError> {
    let (_, metadata) =
        SafeTensors::read_metadata(bytes).map_err(|error| WeightsError::Unreadable { reason: error.to_string() })?;
    Ok(metadata.metadata().iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The configuration in a file's header.
pub(crate) fn config(bytes: &[u8]) -> Result<TinyGptConfig, WeightsError> {
    let missing = |reason: String| WeightsError::NoConfig { reason };
    let metadata = metadata(bytes)?;
    let json = metadata.get(CONFIG_KEY).ok_or_else(|| missing("has no entry of that name".into()))?;
    let config: TinyGptConfig =
        serde_json::from_str(json).map_err(|error| missing(format!("can not be read: {error}")))?;
    config.validate()?;
    Ok(config)
}

/// A tensor of a file, if it has the expected shape and a type that can be read.
pub(crate) fn checked<'a>(
    file: &SafeTensors<'a>,
    name: &str,
    expected: &[usize],
) -> Result<TensorView<'a>, WeightsError> {
    let tensor = || name.to_string();
    let Ok(view) = file.tensor(name) else {
        return Err(WeightsError::Missing { tensor: tensor(), expected: expected.to_vec() });
    };
    if view.shape() != expected {
        let (expected, found) = (expected.to_vec(), view.shape().to_vec());
        return Err(WeightsError::Shape { tensor: tensor(), expected, found });
    }
    if !matches!(view.dtype(), Dtype::F32 | Dtype::F16) {
        return Err(WeightsError::Type { tensor: tensor(), found: format!("{:?}", view.dtype()) });
    }
    Ok(view)
}

/// Widens a tensor's numbers into `out`.
pub(crate) fn fill(name: &str, view: &TensorView<'_>, out: &mut [f32]) -> Result<(), WeightsError> {
    let data = view.data();
    if view.dtype() == Dtype::F16 {
        for (out, pair) in out.iter_mut().zip(data.chunks_exact(2)) {
            *out = f16::from_le_bytes([pair[0], pair[1]]).to_f32();
        }
    } else {
        for (out, quad) in out.iter_mut().zip(data.chunks_exact(4)) {
            *out = f32::from_le_bytes([quad[0], quad[1], quad[2], quad[3]]);
        }
    }
    match out.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(index) => Err(WeightsError::NotFinite { tensor: name.into(), index, value: out[index].to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TinyGptConfig {
        TinyGptConfig {
            layers: 1,
            width: 16,
            heads: 2,
            kv_heads: 1,
            hidden: 24,
            vocabulary: 40,
            ..TinyGptConfig::default()
        }
    }

    /// A file with one tensor changed.
    fn changed(change: impl FnOnce(&mut Vec<(String, Vec<usize>, &[f32])>)) -> WeightsError {
        let weights = Weights::random(&config(), 1).expect("valid");
        let shapes = Weights::shapes(&config());
        let mut tensors: Vec<_> =
            weights.tensors().into_iter().zip(shapes).map(|((name, data), (_, shape))| (name, shape, data)).collect();
        change(&mut tensors);
        let bytes = write(&config(), &tensors, Precision::F32, []).expect("a file");
        Weights::from_safetensors(&bytes).expect_err("changed")
    }

    #[test]
    fn a_file_holds_what_was_written() {
        let weights = Weights::random(&config(), 1).expect("valid");
        let exact = weights.to_safetensors(Precision::F32).expect("a file");
        assert!(Weights::from_safetensors(&exact) == Ok(weights.clone()));
        let half = weights.to_safetensors(Precision::F16).expect("a file");
        assert!(half.len() < exact.len() * 6 / 10);
        let read = Weights::from_safetensors(&half).expect("readable");
        for ((_, a), (name, b)) in weights.tensors().into_iter().zip(read.tensors()) {
            // Eleven significant bits; below 2^-14 the spacing is fixed at 2^-24.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= (a.abs() / 2048.0).max(f32::powi(2.0, -25));
            assert!(a.iter().zip(b).all(near), "{name}");
        }
        assert_eq!(weights.suits(40), Ok(()));
        let error = weights.suits(41).expect_err("another vocabulary").to_string();
        assert!(error.contains("[41, 16]") && error.contains("[40, 16]"), "{error}");
    }

    #[test]
    fn a_mismatch_names_the_tensor_and_both_shapes() {
        static ZEROS: [f32; 16 * 32] = [0.0; 16 * 32];
        static NAN: [f32; 16] = [f32::NAN; 16];
        let error = changed(|tensors| {
            let at = tensors.iter().position(|(name, ..)| name == "layers.0.up").expect("there");
            tensors[at] = ("layers.0.up".into(), vec![16, 32], &ZEROS);
        });
        let (expected, found) = (vec![16, 24], vec![16, 32]);
        assert_eq!(error, WeightsError::Shape { tensor: "layers.0.up".into(), expected, found });
        assert_eq!(error.to_string(), "weights: tensor layers.0.up has shape [16, 32]; expected is [16, 24]");
        let error = changed(|tensors| tensors.retain(|(name, ..)| name != "layers.0.key"));
        assert_eq!(error, WeightsError::Missing { tensor: "layers.0.key".into(), expected: vec![16, 8] });
        let error = changed(|tensors| tensors.push(("bias".into(), vec![4], &ZEROS[..4])));
        assert_eq!(error, WeightsError::Unknown { tensor: "bias".into(), found: vec![4], expected: 12 });
        let error = changed(|tensors| {
            let at = tensors.iter().position(|(name, ..)| name == "final_norm").expect("there");
            tensors[at].2 = &NAN;
        });
        assert!(matches!(error, WeightsError::NotFinite { tensor, index: 0, .. } if tensor == "final_norm"));
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        let whole = Weights::random(&config(), 1).expect("valid").to_safetensors(Precision::F16).expect("a file");
        for cut in [0, 7, 8, 20, whole.len() / 2, whole.len() - 1] {
            assert!(matches!(Weights::from_safetensors(&whole[..cut]), Err(WeightsError::Unreadable { .. })), "{cut}");
        }
        assert!(matches!(Weights::from_safetensors(b"GGUF but not this"), Err(WeightsError::Unreadable { .. })));
        // Every byte of the header, turned over.
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
        for at in 0..header {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 7);
            _ = Weights::from_safetensors(&damaged);
        }
        // A header that asks for more layers than anybody has.
        let greedy = TinyGptConfig { layers: 1 << 24, ..config() };
        let bytes = write(&greedy, &[("embedding".into(), vec![1], &[1.0])], Precision::F32, []).expect("a file");
        assert!(matches!(Weights::from_safetensors(&bytes), Err(WeightsError::Missing { .. })));
        let bytes = safetensors::serialize(Vec::<(String, TensorView<'_>)>::new(), None).expect("a file");
        assert!(matches!(Weights::from_safetensors(&bytes), Err(WeightsError::NoConfig { .. })));
    }
}
