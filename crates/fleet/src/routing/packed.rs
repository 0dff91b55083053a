//! Numbers packed into a line of text: what a large memory is saved as.
//!
//! Sessions keep dozens of saved states to come back to. A tree of all prompts as a JSON value would take some hundred bytes a node and thirty a
//! character; packed, a character takes two and a 64-bit key thirteen. Each digit is five bits, the lowest first, and a sixth that says
//! that more follow, written in the alphabet of base64 for addresses.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MORE: u64 = 32;

/// Packs numbers, one after the other.
#[derive(Default)]
pub(crate) struct Packed(String);

impl Packed {
    pub(crate) fn put(&mut self, mut number: u64) {
        loop {
            let (digit, rest) = (number % MORE, number / MORE);
            let more = if rest > 0 { MORE } else { 0 };
            self.0.push(char::from(ALPHABET[(digit | more) as usize]));
            if rest == 0 {
                return;
            }
            number = rest;
        }
    }

    /// How many follow, then each of them.
    pub(crate) fn put_all(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.put(numbers.len() as u64);
        numbers.for_each(|number| self.put(number));
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Reads packed numbers back.
pub(crate) struct Unpack<'a>(std::slice::Iter<'a, u8>);

impl<'a> Unpack<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Unpack(text.as_bytes().iter())
    }

    /// The next number.
    pub(crate) fn take(&mut self) -> Result<u64, String> {
        let mut number = 0u64;
        for place in 0..13 {
            let byte = self.0.next().ok_or("packed numbers end too early")?;
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return Err("packed numbers hold something that is no digit".into()),
            };
            let (value, more) = (u64::from(digit) % MORE, u64::from(digit) >= MORE);
            if place == 12 && (value >= 16 || more) {
                break;
            }
            number |= value << (5 * place);
            if !more {
                return Ok(number);
            }
        }
        Err("a packed number is too large".into())
    }

    /// The next number, which has to fit.
    pub(crate) fn take_u32(&mut self) -> Result<u32, String> {
        u32::try_from(self.take()?).map_err(|_| "a packed number is too large".into())
    }

    /// Every number that [`Packed::put_all`] put, as far as they are taken.
    pub(crate) fn take_all<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let n = self.take()?;
        // Nothing is reserved for a count that may be damaged: each item takes a digit at least, so the text ends first.
        let mut all = Vec::new();
        for _ in 0..n {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// Nothing is left.
    pub(crate) fn end(self) -> Result<(), String> {
        if self.0.len() == 0 { Ok(()) } else { Err("packed numbers go on after their end".into()) }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(numbers in prop::collection::vec(prop_oneof![0u64..100, any::<u64>(), Just(u64::MAX)], 0..20)) {
            let mut packed = Packed::default();
            packed.put_all(numbers.iter().copied());
            let text = packed.finish();
            let mut unpack = Unpack::new(&text);
            prop_assert_eq!(unpack.take_all(Unpack::take).unwrap(), numbers);
            prop_assert!(unpack.end().is_ok());
        }

        #[test]
        fn nothing_panics(text in "[A-Za-z0-9_!-]{0,40}") {
            let mut unpack = Unpack::new(&text);
            let _ = unpack.take_all(Unpack::take_u32);
        }
    }

    #[test]
    fn small_numbers_are_short() {
        let pack = |number| {
            let mut packed = Packed::default();
            packed.put(number);
            packed.finish()
        };
        assert_eq!([0, 31, 32, 97, u64::MAX].map(pack), ["A", "f", "gB", "hD", "____________P"]);
        for (text, why) in [("", "early"), ("g", "early"), ("!", "no digit"), ("____________Q", "large")] {
            assert!(Unpack::new(text).take().unwrap_err().contains(why), "{text}");
        }
        assert!(Unpack::new("gggggggB").take_u32().is_err());
        assert!(Unpack::new("A").end().is_err());
    }
}
