//! Versions as programs print them.

use std::fmt;

/// Major, minor and patch; what follows is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
}

impl Version {
    pub(crate) const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch }
    }

    /// The first version in `text`: `trunk 0.21.14`, `v20.20.2`, `Chromium 156.0.8078.73`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(Self::parse)
    }

    fn parse(word: &str) -> Option<Self> {
        let word = word.strip_prefix('v').unwrap_or(word);
        let mut parts = word.split(['.', '-', '+']).map(|part| part.parse().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(Self { major, minor, patch: parts.next().flatten().unwrap_or(0) })
    }

    /// Same release line as `wanted` by cargo's rule, and not older.
    pub(crate) fn compatible_with(self, wanted: Self) -> bool {
        let same_line = if wanted.major == 0 {
            (self.major, self.minor) == (wanted.major, wanted.minor)
        } else {
            self.major == wanted.major
        };
        same_line && self >= wanted
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_programs_print() {
        let cases = [
            ("trunk 0.21.14", Version::new(0, 21, 14)),
            ("wasm-bindgen 0.2.130\n", Version::new(0, 2, 130)),
            ("v20.20.2", Version::new(20, 20, 2)),
            ("Chromium 156.0.8078.108 built on Debian GNU/Linux 12", Version::new(156, 0, 8078)),
            ("rustc 1.96.0-nightly (abc 2026-05-25)", Version::new(1, 96, 0)),
            ("tool 2.1", Version::new(2, 1, 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(Version::find(text), Some(expected), "{text}");
        }
        assert_eq!(Version::find("no version here"), None);
        assert_eq!(Version::find(""), None);
    }

    #[test]
    fn compatibility_follows_cargo() {
        let wanted = Version::new(0, 21, 14);
        assert!(Version::new(0, 21, 14).compatible_with(wanted));
        assert!(Version::new(0, 21, 15).compatible_with(wanted));
        assert!(!Version::new(0, 21, 13).compatible_with(wanted));
        assert!(!Version::new(0, 22, 0).compatible_with(wanted));
        assert!(Version::new(20, 1, 0).compatible_with(Version::new(20, 0, 0)));
        assert!(!Version::new(21, 1, 0).compatible_with(Version::new(20, 0, 0)));
    }
}
