//! Subword tokens: byte-level BPE by the `tokenizers` crate, read from a `tokenizer.json`.

use crate::alphabet::byte_character;
use crate::tokenizer::Tokenizer;
use thiserror::Error;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// Longest `tokenizer.json` that is read, bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// Byte-level BPE. Every text has token ids, and they decode to the same bytes, whatever the text was that it was trained on.
#[derive(Clone, Debug)]
pub struct BpeTokenizer {
    inner: tokenizers::Tokenizer,
    vocabulary: usize,
}

/// A `tokenizer.json` that can not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BpeError {
    /// Not a tokenizer file, or one with parts that this build has not got.
    #[error("tokenizer.json: {reason}; accepted is a byte-level BPE tokenizer as the tokenizers crate saves it")]
    Unreadable {
        /// What the reader says.
        reason: String,
    },
    /// Bytes are missing from its alphabet, so that some texts would lose characters.
    #[error(
        "tokenizer.json: it has no token for byte {byte}; accepted is a byte-level BPE tokenizer, which has one for each of the 256"
    )]
    NotByteLevel {
        /// The first byte without a token.
        byte: u8,
    },
    /// Token ids with gaps, or none.
    #[error(
        "tokenizer.json: its largest token id is {largest}, it has {tokens} tokens; accepted are ids 0 to tokens − 1"
    )]
    Ids {
        /// Largest id.
        largest: u32,
        /// Number of tokens.
        tokens: usize,
    },
}

impl BpeTokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// [`BpeError`] when it is no byte-level BPE tokenizer.
    pub fn from_json(bytes: &[u8]) -> Result<Self, BpeError> {
        let unreadable = |reason: String| BpeError::Unreadable { reason };
        if bytes.len() > MAX_BYTES {
            return Err(unreadable(format!("it has {} bytes, more than {MAX_BYTES}", bytes.len())));
        }
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| unreadable(error.to_string()))?;
        // Neither belongs to a text's round trip, and both can be set in a file.
        _ = inner.with_truncation(None);
        inner.with_padding(None);
        let byte_level = |wrapper: Option<&tokenizers::PreTokenizerWrapper>| matches!(wrapper, Some(tokenizers::PreTokenizerWrapper::ByteLevel(level)) if !level.add_prefix_space);
        if !byte_level(inner.get_pre_tokenizer())
            || !matches!(inner.get_decoder(), Some(tokenizers::DecoderWrapper::ByteLevel(_)))
            || inner.get_normalizer().is_some()
            || !matches!(inner.get_model(), tokenizers::ModelWrapper::BPE(_))
        {
            let reason = "it is not BPE with a byte-level pre-tokenizer (without a prefix space) and decoder, and without a normalizer";
            return Err(unreadable(reason.into()));
        }
        let vocabulary = inner.get_vocab(true);
        let tokens = vocabulary.len();
        match vocabulary.values().max() {
            Some(&largest) if largest as usize == tokens - 1 => {}
            largest => return Err(BpeError::Ids { largest: largest.copied().unwrap_or(0), tokens }),
        }
        for byte in 0..=255u8 {
            let character = byte_character(byte).to_string();
            if !vocabulary.contains_key(&character) {
                return Err(BpeError::NotByteLevel { byte });
            }
        }
        Ok(BpeTokenizer { inner, vocabulary: tokens })
    }

    /// Learns `vocabulary` tokens from a text: the 256 bytes and the most frequent merges within words.
    ///
    /// # Errors
    /// [`BpeError`] when the crate refuses.
    pub fn learn(text: &str, vocabulary: usize) -> Result<Self, BpeError> {
        use tokenizers::models::bpe::{BPE, BpeTrainer};
        let unreadable = |error: tokenizers::Error| BpeError::Unreadable { reason: error.to_string() };
        let level = ByteLevel::new(false, true, true);
        let mut learner =
            tokenizers::TokenizerImpl::<BPE, tokenizers::NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>::new(
                BPE::default(),
            );
        learner.with_pre_tokenizer(Some(level)).with_decoder(Some(level));
        let mut trainer = BpeTrainer::builder()
            .vocab_size(vocabulary)
            .min_frequency(2)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        // Line by line: a word never crosses one, and the crate counts lines in parallel.
        learner.train(&mut trainer, text.split_inclusive('\n')).map_err(unreadable)?;
        let json = serde_json::to_vec(&learner).map_err(|error| BpeError::Unreadable { reason: error.to_string() })?;
        BpeTokenizer::from_json(&json)
    }

    /// The `tokenizer.json`.
    ///
    /// # Errors
    /// [`BpeError::Unreadable`] when the crate can not write it.
    pub fn to_json(&self) -> Result<String, BpeError> {
        self.inner.to_string(false).map_err(|error| BpeError::Unreadable { reason: error.to_string() })
    }
}

impl Tokenizer for BpeTokenizer {
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        // A byte-level encoder has tokens for everything; it fails on nothing that is a `str`.
        self.inner.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        self.inner.decode(tokens, true).unwrap_or_default()
    }

    fn begin_of_sequence(&self) -> Option<u32> {
        None
    }

    fn end_of_text(&self) -> Option<u32> {
        None
    }
}
