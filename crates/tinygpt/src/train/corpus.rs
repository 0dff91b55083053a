//! A text as tokens: the first nine tenths to learn from, the last tenth held out.

use super::TrainError;
use crate::tokenizer::Tokenizer;
use servelab_engine::random::Stream;

/// Share of the text, by bytes, that is learnt from.
pub const LEARNT: f64 = 0.9;

/// A text, split and tokenised; no token spans the border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Tokens to learn from.
    pub learnt: Vec<u32>,
    /// Tokens held out.
    pub held_out: Vec<u32>,
    /// Bytes held out.
    pub held_out_bytes: usize,
}

/// Splits a text at nine tenths of its bytes, or at the next character's start.
pub fn split(text: &str) -> (&str, &str) {
    let mut at = (text.len() as f64 * LEARNT) as usize;
    while !text.is_char_boundary(at) {
        at += 1;
    }
    text.split_at(at)
}

impl Corpus {
    /// Splits and tokenises.
    ///
    /// # Errors
    /// [`TrainError::Setting`] when either part is shorter than `length` + 1 tokens.
    pub fn new(text: &str, tokenizer: &dyn Tokenizer, length: usize) -> Result<Self, TrainError> {
        let (learnt, held_out) = split(text);
        let corpus = Corpus {
            learnt: tokenizer.encode(learnt),
            held_out: tokenizer.encode(held_out),
            held_out_bytes: held_out.len(),
        };
        let shortest = corpus.learnt.len().min(corpus.held_out.len());
        if shortest <= length {
            return Err(TrainError::Setting {
                field: "corpus",
                value: format!("{} + {} tokens", corpus.learnt.len(), corpus.held_out.len()),
                accepted: format!("a text whose last tenth has more than {length} tokens"),
            });
        }
        Ok(corpus)
    }

    /// A step's windows: `count` slices of `length` + 1 tokens, the last of each only predicted.
    pub fn windows(&self, seed: u64, step: u64, count: usize, length: usize) -> Vec<&[u32]> {
        let mut stream = Stream::new(seed, b"training windows").split(step);
        let starts = (self.learnt.len() - length) as u64;
        (0..count)
            .map(|_| {
                let start = stream.below(starts) as usize;
                &self.learnt[start..start + length + 1]
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::ByteTokenizer;

    #[test]
    fn the_last_tenth_by_bytes_is_held_out() {
        let text = "0123456789".repeat(10);
        let corpus = Corpus::new(&text, &ByteTokenizer, 9).expect("long enough");
        assert_eq!((corpus.learnt.len(), corpus.held_out.len(), corpus.held_out_bytes), (90, 10, 10));
        // 4-byte characters: the border moves up to the next one.
        let (learnt, held_out) = split("🙂🙂🙂");
        assert_eq!((learnt.len(), held_out.len()), (12, 0));
        assert!(Corpus::new(&text, &ByteTokenizer, 10).is_err());
    }

    #[test]
    fn windows_are_a_function_of_the_step_and_stay_inside() {
        let text: String = (0..1000u32).filter_map(|i| char::from_u32(32 + i % 90)).collect();
        let corpus = Corpus::new(&text, &ByteTokenizer, 20).expect("long enough");
        let windows = corpus.windows(1, 5, 50, 20);
        assert_eq!(windows, corpus.windows(1, 5, 50, 20));
        assert_ne!(windows, corpus.windows(1, 6, 50, 20));
        assert!(windows.iter().all(|window| window.len() == 21));
    }
}
