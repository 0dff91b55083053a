//! Longest prompt and longest output: a request beyond is not one for this service, however idle it is. 400, as for a request that no replica could
//! serve; nobody should try it again.

use super::ask::{Ask, Refused, View};
use super::stage::Stage;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;

/// Longest requests let through. Each is off at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthConfig {
    /// Longest prompt, tokens.
    pub max_prompt: u32,
    /// Largest output budget, tokens.
    pub max_output: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Length {
    pub(crate) config: LengthConfig,
}

impl Stage for Length {
    fn admit(&mut self, ask: &Ask, _view: &View<'_>, _draw: &mut Stream) -> Result<(), Refused> {
        let LengthConfig { max_prompt, max_output } = self.config;
        let beyond = |length: u32, most: u32| most > 0 && length > most;
        if beyond(ask.prompt, max_prompt) || beyond(ask.max_tokens, max_output) {
            return Err(Refused::new(400, Refusal::TooLong));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ask, quiet};
    use super::*;

    #[test]
    fn each_limit_alone_and_none() {
        let admitted = |max_prompt, max_output, prompt, max_tokens| {
            let mut stage = Length { config: LengthConfig { max_prompt, max_output } };
            stage.admit(&Ask { prompt, max_tokens, ..ask(0) }, &quiet(0), &mut Stream::new(0, b"test")).is_ok()
        };
        assert!(admitted(100, 50, 100, 50));
        assert!(!admitted(100, 50, 101, 1));
        assert!(!admitted(100, 50, 1, 51));
        assert!(admitted(0, 50, u32::MAX, 50) && admitted(100, 0, 100, u32::MAX));
    }
}
