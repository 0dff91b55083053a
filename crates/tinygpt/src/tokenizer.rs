//! Text to token ids and back.

/// Tokens of the byte vocabulary: 256 bytes, [`BOS`], [`EOS`], [`PAD`] and one spare, which makes it a multiple of four.
pub const BYTE_VOCABULARY: usize = 260;
/// Begin of sequence.
pub const BOS: u32 = 256;
/// End of text.
pub const EOS: u32 = 257;
/// Padding.
pub const PAD: u32 = 258;

/// Text to token ids and back.
pub trait Tokenizer {
    /// Number of token ids; every id given out is below.
    fn vocabulary(&self) -> usize;

    /// Token ids of a text. Adds no special tokens.
    fn encode(&self, text: &str) -> Vec<u32>;

    /// Text of token ids. Specials and unknown ids yield nothing; broken UTF-8 shows as U+FFFD.
    fn decode(&self, tokens: &[u32]) -> String;

    /// Put before the first token of a text, where the model was trained so.
    fn begin_of_sequence(&self) -> Option<u32>;

    /// The token by which the model ends a text.
    fn end_of_text(&self) -> Option<u32>;
}

/// One token a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn vocabulary(&self) -> usize {
        BYTE_VOCABULARY
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn begin_of_sequence(&self) -> Option<u32> {
        Some(BOS)
    }

    fn end_of_text(&self) -> Option<u32> {
        Some(EOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_the_round_trip() {
        for text in ["", "plain", "Straße, 東京, 🙂", "\0\n\u{7f}"] {
            let tokens = ByteTokenizer.encode(text);
            assert_eq!(tokens.len(), text.len());
            assert_eq!(ByteTokenizer.decode(&tokens), text);
        }
    }

    #[test]
    fn specials_vanish_and_broken_utf8_shows() {
        assert_eq!(ByteTokenizer.decode(&[BOS, 104, 105, EOS, PAD, 259, 4_000_000_000]), "hi");
        assert_eq!(ByteTokenizer.decode(&[0xe2, 0x82, 104]), "\u{fffd}h");
        assert!((BOS as usize) < BYTE_VOCABULARY && (PAD as usize) < BYTE_VOCABULARY);
    }
}
