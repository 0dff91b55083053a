//! Base64 in the alphabet that addresses hold as it is (RFC 4648 §5), without padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Four characters for three bytes; the last one or two bytes take two or three.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        for at in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(word >> (18 - 6 * at) & 63) as usize]));
        }
    }
    out
}

/// The text that [`encode`] was given; `None` for anything that it does not write.
pub fn decode_text(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for (at, byte) in chunk.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == byte)?;
            word |= (value as u32) << (18 - 6 * at);
        }
        let whole = (chunk.len() * 6) / 8;
        // One character holds no byte, and what lies past the last byte is zero.
        if whole == 0 || word & ((1 << (24 - 8 * whole)) - 1) != 0 {
            return None;
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..=whole]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10, without padding.
    #[test]
    fn the_standards_own_vectors() {
        let pairs = [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in pairs {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode_text(coded).as_deref(), Some(plain));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn only_its_own_writing_is_read() {
        for wrong in ["Z", "Zg==", "Zh", "Zm9", "Zm 8", "Zm+8", "Zm9vZ", "_w", "\u{2713}"] {
            assert_eq!(decode_text(wrong), None, "{wrong}");
        }
    }
}
