//! What a client makes of a server's word on when to come back.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::validate::SpecError;

/// How a client takes Retry-After.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obey {
    /// It waits as its own backoff says.
    #[default]
    Ignored,
    /// It comes back exactly then, and so does everybody who was told the same.
    Exactly,
    /// It comes back then or up to a share of that time later.
    Jittered,
}

/// A client's rule for Retry-After.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryAfter {
    /// How it is taken.
    pub obey: Obey,
    /// Largest share of the time named that jitter adds.
    pub spread: f64,
    /// A longer time than this is not waited for: the own backoff holds. 60 s in the SDKs of OpenAI and Anthropic.
    pub longest: Nanos,
    /// The own backoff begins again after it, as after a pushback in gRPC (A6).
    pub restarts_backoff: bool,
}

impl Default for RetryAfter {
    fn default() -> Self {
        RetryAfter { obey: Obey::Ignored, spread: 0.5, longest: Nanos(60_000_000_000), restarts_backoff: false }
    }
}

impl RetryAfter {
    /// Exactly, if it is not longer than `longest`.
    pub fn exactly(longest: Nanos) -> Self {
        RetryAfter { obey: Obey::Exactly, longest, ..RetryAfter::default() }
    }

    /// How long to wait when the server said `said`; `None`: as the own backoff says.
    pub fn wait(&self, said: Option<Nanos>, draw: &mut Stream) -> Option<Nanos> {
        let said = said.filter(|&said| said > Nanos::ZERO && said <= self.longest)?;
        match self.obey {
            Obey::Ignored => None,
            Obey::Exactly => Some(said),
            Obey::Jittered => {
                let more = said.0 as f64 * self.spread * draw.unit();
                Some(said + Nanos(libm::round(more) as u64))
            }
        }
    }

    pub(crate) fn validate(&self, field: &str) -> Result<(), SpecError> {
        if !(0.0..=100.0).contains(&self.spread) {
            return Err(SpecError::new(format!("{field}.spread"), self.spread, "use 0 to 100"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_word_is_kept_up_to_a_bound() {
        let mut draw = Stream::new(1, b"test");
        let sdk = RetryAfter::exactly(Nanos(60 * S));
        for (said, waits) in [(0, None), (1, Some(1)), (60, Some(60)), (61, None)] {
            assert_eq!(sdk.wait(Some(Nanos(said * S)), &mut draw), waits.map(|wait| Nanos(wait * S)), "{said}");
        }
        assert_eq!(sdk.wait(None, &mut draw), None);
        assert_eq!(RetryAfter::default().wait(Some(Nanos(S)), &mut draw), None, "ignored");
    }

    #[test]
    fn jitter_only_ever_adds() {
        let mut draw = Stream::new(1, b"test");
        let jittered = RetryAfter { obey: Obey::Jittered, spread: 0.5, ..RetryAfter::default() };
        let mut mean = 0.0;
        for _ in 0..10_000 {
            let wait = jittered.wait(Some(Nanos(4 * S)), &mut draw).map_or(0.0, Nanos::as_secs);
            assert!((4.0..=6.0).contains(&wait));
            mean += wait / 10_000.0;
        }
        // Standard error 2/√12/100 = 0.0058.
        assert!((mean - 5.0).abs() < 0.024, "{mean}");
        assert_eq!(RetryAfter { spread: -1.0, ..jittered }.validate("r").unwrap_err().field, "r.spread");
    }
}
