//! Layers of retries: what stands between a client and the server tries again as well, and the numbers of attempts multiply.
//!
//! A layer knows nothing of the others: it makes its attempts, and what fails after the last of them is one failure to the layer outside. So
//! of the attempts that reach the server, number n is number `n mod a` of the innermost layer's current round, whose round is number
//! `n div a` of the layer outside it, and so on: digits of a number with a radix for each layer. Whoever's digit grows is the one that tries again,
//! after its own backoff.

use super::backoff::Backoff;
use serde::{Deserialize, Serialize};

/// One that tries again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// It tries again at all. Off: what fails is passed on.
    pub on: bool,
    /// Most attempts for each that is asked of it, the first included; at least 1.
    pub attempts: u32,
    /// How long it waits between them.
    pub backoff: Backoff,
}

impl Layer {
    fn radix(&self) -> u32 {
        if self.on { self.attempts.max(1) } else { 1 }
    }
}

/// Most attempts in all: of the client, whose own are `own`, and of the `layers` behind it.
pub(crate) fn most(own: u32, layers: &[Layer]) -> u32 {
    layers.iter().fold(own.max(1), |product, layer| product.saturating_mul(layer.radix()))
}

/// Who tries again after `made` attempts (at least 1) have failed, and for the how-manieth time of its present round, from 0. `None` when all are used up.
/// `layers` stand in order from the client to the server.
pub(crate) fn next<'a>(own: u32, backoff: &'a Backoff, layers: &'a [Layer], made: u32) -> Option<(&'a Backoff, u32)> {
    let mut left = made;
    for layer in layers.iter().rev() {
        let digit = left % layer.radix();
        if digit > 0 {
            return Some((&layer.backoff, digit - 1));
        }
        left /= layer.radix();
    }
    (left < own.max(1)).then(|| (backoff, left.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_engine::Nanos;

    fn layer(attempts: u32, wait: u64) -> Layer {
        Layer { on: true, attempts, backoff: Backoff::fixed(Nanos(wait)) }
    }

    /// Attempts that reach the server when all fail, layer within layer.
    fn nested(radices: &[u32]) -> u32 {
        radices.split_first().map_or(1, |(&attempts, inner)| (0..attempts).map(|_| nested(inner)).sum())
    }

    /// Facts D 19: three layers of four attempts are 64 (SRE book), five of three are 243.
    #[test]
    fn attempts_of_layers_multiply() {
        for (attempts, layers, all) in [(4, 3, 64), (3, 5, 243)] {
            let behind = vec![layer(attempts, 1); layers - 1];
            assert_eq!(most(attempts, &behind), all);
            assert_eq!(nested(&vec![attempts; layers]), all);
            let own = Backoff::default();
            let made = (1..).take_while(|&made| next(attempts, &own, &behind, made).is_some()).count() as u32;
            assert_eq!(made + 1, all, "one more than the retries");
        }
    }

    /// By hand: the client tries twice, a gateway twice for each of those, a mesh three times for each of those.
    #[test]
    fn whoever_is_outside_waits_for_a_whole_round() {
        let own = Backoff::fixed(Nanos(100));
        let behind = [layer(2, 10), layer(3, 1)];
        let waits: Vec<(u64, u32)> = (1..12)
            .filter_map(|made| next(2, &own, &behind, made))
            .map(|(backoff, nth)| (backoff.base.0, nth))
            .collect();
        let by_hand = [(1, 0), (1, 1), (10, 0), (1, 0), (1, 1), (100, 0), (1, 0), (1, 1), (10, 0), (1, 0), (1, 1)];
        assert_eq!(waits, by_hand);
        assert_eq!(next(2, &own, &behind, 12), None);
    }

    #[test]
    fn a_layer_that_is_off_passes_failures_on() {
        let behind = [Layer { on: false, ..layer(9, 1) }, layer(2, 1)];
        assert_eq!(most(3, &behind), 6);
        assert_eq!(next(1, &Backoff::default(), &[Layer { on: false, ..layer(9, 1) }], 1), None);
    }
}
