//! What a folder with a trained model holds: lengths and hashes of its files, and what is checked of them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The manifest's name in its folder.
pub const MANIFEST: &str = "manifest.json";

/// What a folder with a trained model holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The weights, safetensors.
    pub weights: FileInfo,
    /// The tokenizer, `tokenizer.json`.
    pub tokenizer: FileInfo,
    /// Loss on held-out text, bits per byte, as `servelab-train measure` prints it.
    pub held_out_bits_per_byte: f64,
    /// Tokens learnt from, repetitions counted.
    pub tokens_seen: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInfo {
    /// Name in the manifest's folder.
    pub file: String,
    /// Length.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
}

/// A file that is not what the manifest says, or no manifest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// No manifest, or one that can not be read.
    #[error("manifest.json: {reason}")]
    Manifest {
        /// What is wrong.
        reason: String,
    },
    /// Cut off, or another file.
    #[error("{file} has {found} bytes; the manifest says {expected}")]
    Length {
        /// Its name.
        file: String,
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// Damaged.
    #[error("{file} is damaged: its SHA-256 is {found}; the manifest says {expected}")]
    Hash {
        /// Its name.
        file: String,
        /// Hash found.
        found: String,
        /// Hash expected.
        expected: String,
    },
}

impl FileInfo {
    /// Describes a file.
    pub fn of(file: &str, content: &[u8]) -> Self {
        FileInfo { file: file.into(), bytes: content.len() as u64, sha256: hash(content) }
    }

    /// Whether this is the file.
    ///
    /// # Errors
    /// [`ManifestError::Length`] or [`ManifestError::Hash`].
    pub fn check(&self, content: &[u8]) -> Result<(), ManifestError> {
        let (file, found) = (self.file.clone(), content.len() as u64);
        if found != self.bytes {
            return Err(ManifestError::Length { file, found, expected: self.bytes });
        }
        let found = hash(content);
        if found != self.sha256 {
            return Err(ManifestError::Hash { file, found, expected: self.sha256.clone() });
        }
        Ok(())
    }
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ManifestError::Manifest`], also when a name leads out of the folder.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|error| ManifestError::Manifest { reason: error.to_string() })?;
        for info in [&manifest.weights, &manifest.tokenizer] {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if info.file.is_empty() || info.file.starts_with('.') || !info.file.chars().all(plain) {
                let reason = format!("file is {:?}; accepted is a name of letters, digits, dots, dashes", info.file);
                return Err(ManifestError::Manifest { reason });
            }
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_published_ones() {
        // The standard's own examples (FIPS 180-4): the empty message and "abc".
        assert_eq!(hash(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn length_and_hash_are_checked() {
        let info = FileInfo::of("a.json", b"abc");
        assert_eq!(info.check(b"abc"), Ok(()));
        assert!(matches!(info.check(b"abcd"), Err(ManifestError::Length { found: 4, expected: 3, .. })));
        assert!(matches!(info.check(b"abd"), Err(ManifestError::Hash { .. })));
    }

    #[test]
    fn names_stay_in_their_folder() {
        let manifest = |file: &str| {
            let info = |file: &str| FileInfo { file: file.into(), bytes: 1, sha256: String::new() };
            let (weights, tokenizer) = (info(file), info("tokenizer.json"));
            let manifest = Manifest { weights, tokenizer, held_out_bits_per_byte: 1.0, tokens_seen: 1 };
            Manifest::from_json(&serde_json::to_vec(&manifest).expect("plain data"))
                .map(|read| assert_eq!(read, manifest))
        };
        assert_eq!(manifest("a-1.safetensors"), Ok(()));
        for file in ["", "../a", "a/b", ".hidden", "https://a"] {
            assert!(manifest(file).is_err(), "{file:?}");
        }
        assert!(Manifest::from_json(b"{}").is_err());
    }
}
