//! Byte texts for a model of other tokens.
//!
//! Workloads of live runs are made of bytes ([`BYTE_VOCABULARY`] ids), whatever the model's vocabulary is. A model of subwords reads each byte as the
//! token of that byte alone, and what it writes is numbered from [`BYTE_VOCABULARY`] on, so that both are told apart and none of
//! its tokens is taken for a special one.

use crate::tokenizer::BYTE_VOCABULARY;
use thiserror::Error;

/// Ids of live runs to ids of a byte-level model and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alphabet {
    /// The model's token of each byte.
    bytes: Vec<u32>,
    /// The bytes of each token.
    tokens: Vec<Vec<u8>>,
}

/// A `tokenizer.json` without an alphabet of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AlphabetError {
    /// Not a tokenizer file.
    #[error("tokenizer.json: {reason}; accepted is a byte-level BPE tokenizer as the tokenizers crate saves it")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// A byte without a token.
    #[error("tokenizer.json: it has no token for byte {byte}; accepted is one for each of the 256")]
    Missing {
        /// The first of them.
        byte: u8,
    },
}

/// What is read of a `tokenizer.json`.
#[derive(serde::Deserialize)]
struct File {
    model: Vocabulary,
}

#[derive(serde::Deserialize)]
struct Vocabulary {
    vocab: std::collections::BTreeMap<String, u32>,
}

impl Alphabet {
    /// The alphabet of a byte-level `tokenizer.json`.
    ///
    /// # Errors
    /// [`AlphabetError`] when the file is none, or bytes are missing.
    pub fn from_json(bytes: &[u8]) -> Result<Self, AlphabetError> {
        let unreadable = |error: serde_json::Error| AlphabetError::Unreadable { reason: error.to_string() };
        let File { model } = serde_json::from_slice(bytes).map_err(unreadable)?;
        let token = |byte: u8| model.vocab.get(byte_character(byte).encode_utf8(&mut [0; 4])).copied();
        let bytes =
            (0..=255u8).map(|byte| token(byte).ok_or(AlphabetError::Missing { byte })).collect::<Result<_, _>>()?;
        let mut tokens = vec![vec![]; model.vocab.len()];
        for (word, &token) in &model.vocab {
            if let Some(of) = tokens.get_mut(token as usize) {
                of.extend(
                    word.chars().filter_map(|character| (0..=255u8).find(|&byte| byte_character(byte) == character)),
                );
            }
        }
        Ok(Alphabet { bytes, tokens })
    }

    /// The model's token for an id of the run. Specials, which the model was not trained with, read as a line feed.
    pub fn to_model(&self, id: u32) -> u32 {
        match self.bytes.get(id as usize) {
            Some(&token) => token,
            None => id.checked_sub(BYTE_VOCABULARY as u32).unwrap_or_else(|| self.bytes[usize::from(b'\n')]),
        }
    }

    /// The run's id for a token of the model.
    pub fn from_model(&self, token: u32) -> u32 {
        token + BYTE_VOCABULARY as u32
    }

    /// Number of the model's tokens.
    pub fn vocabulary(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Ids of a run as text: bytes as they are, tokens by their bytes, specials as nothing; broken UTF-8 shows as U+FFFD.
    pub fn text(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            match u8::try_from(id) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    let token =
                        id.checked_sub(BYTE_VOCABULARY as u32).and_then(|token| self.tokens.get(token as usize));
                    bytes.extend(token.into_iter().flatten());
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The character that stands for a byte in byte-level BPE: printable Latin-1 stands for itself, the rest for 256 and up, in order.
pub(crate) fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(skip: Option<u8>) -> Vec<u8> {
        let characters = (0..=255u8).rev().filter(|&byte| Some(byte) != skip).map(byte_character);
        let vocab: std::collections::BTreeMap<String, u32> = characters.map(String::from).zip(7u32..).collect();
        serde_json::to_vec(&serde_json::json!({ "model": { "vocab": vocab } })).expect("plain data")
    }

    #[test]
    fn every_id_has_a_token_and_written_tokens_come_back() {
        let alphabet = Alphabet::from_json(&json(None)).expect("all bytes");
        for byte in 0..=255u32 {
            assert_eq!(alphabet.to_model(byte), 7 + 255 - byte);
        }
        for special in 256..BYTE_VOCABULARY as u32 {
            assert_eq!(alphabet.to_model(special), alphabet.to_model(u32::from(b'\n')));
        }
        for token in [0, 10, 257, 1023] {
            let id = alphabet.from_model(token);
            assert!(id >= BYTE_VOCABULARY as u32, "no special");
            assert_eq!(alphabet.to_model(id), token);
        }
    }

    #[test]
    fn what_was_read_and_written_is_text() {
        let vocab = |extra: &str| {
            let bytes = (0..=255u8).map(|byte| byte_character(byte).to_string());
            let all: std::collections::BTreeMap<String, u32> = bytes.chain([extra.to_owned()]).zip(0u32..).collect();
            serde_json::to_vec(&serde_json::json!({ "model": { "vocab": all } })).expect("plain data")
        };
        // "Ġof" is " of" in this alphabet.
        let alphabet = Alphabet::from_json(&vocab("\u{120}of")).expect("all bytes");
        assert_eq!(alphabet.vocabulary(), 257);
        let ids = [u32::from(b'o'), 257, alphabet.from_model(256), alphabet.from_model(u32::from(b'!')), 9999];
        assert_eq!(alphabet.text(&ids), "o of!");
    }

    #[test]
    fn a_missing_byte_is_named() {
        assert_eq!(Alphabet::from_json(&json(Some(9))), Err(AlphabetError::Missing { byte: 9 }));
        assert!(matches!(Alphabet::from_json(b"{}"), Err(AlphabetError::Unreadable { .. })));
    }
}
