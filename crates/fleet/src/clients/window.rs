//! Counts of the latest time, in ten slots.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

const SLOTS: u64 = 10;

/// Two counts over a window of time that moves in steps of a tenth of it: what is older than the window is forgotten, at most a tenth
/// of it too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    /// Number of the slot that counts go into: the instant ÷ the length of a slot.
    latest: u64,
    slots: [(i64, i64); SLOTS as usize],
    sums: (i64, i64),
}

impl Window {
    pub(crate) fn new() -> Self {
        Window { latest: 0, slots: [(0, 0); SLOTS as usize], sums: (0, 0) }
    }

    /// Forgets what is older than `length`, and answers with the sums of the rest.
    pub(crate) fn at(&mut self, now: Nanos, length: Nanos) -> (i64, i64) {
        let slot = now.0 / (length.0 / SLOTS).max(1);
        if slot > self.latest {
            let gone = (slot - self.latest).min(SLOTS);
            for at in 1..=gone {
                let old = std::mem::take(&mut self.slots[((self.latest + at) % SLOTS) as usize]);
                self.sums = (self.sums.0 - old.0, self.sums.1 - old.1);
            }
            // Beyond a whole turn everything is forgotten, wherever the turn began.
            self.latest = slot;
        }
        self.sums
    }

    /// Adds to the present slot.
    pub(crate) fn add(&mut self, now: Nanos, length: Nanos, first: i64, second: i64) {
        self.at(now, length);
        let slot = &mut self.slots[(self.latest % SLOTS) as usize];
        *slot = (slot.0 + first, slot.1 + second);
        self.sums = (self.sums.0 + first, self.sums.1 + second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let (mut window, length) = (Window::new(), Nanos(100));
        window.add(Nanos(5), length, 1, 10);
        window.add(Nanos(14), length, 2, 20);
        window.add(Nanos(19), length, 4, 40);
        assert_eq!(window.at(Nanos(99), length), (7, 70));
        assert_eq!(window.at(Nanos(100), length), (6, 60), "the slot of instants 0 to 9 is over");
        assert_eq!(window.at(Nanos(109), length), (6, 60));
        assert_eq!(window.at(Nanos(110), length), (0, 0));
        window.add(Nanos(1_000_003), length, 8, 0);
        assert_eq!(window.at(Nanos(1_000_099), length), (8, 0));
        assert_eq!(window.at(Nanos(1_000_100), length), (0, 0));
        window.add(Nanos(1_000_100), length, 1, 1);
        assert_eq!(window.at(Nanos(9_000_000_000), length), (0, 0));
    }

    /// Against a list of everything.
    #[test]
    fn sums_are_those_of_a_list() {
        let (mut window, length, mut all) = (Window::new(), Nanos(1000), Vec::new());
        let mut draw = servelab_engine::random::Stream::new(2, b"window");
        let mut now = 0;
        for _ in 0..5000 {
            now += draw.below(260) * u64::from(draw.below(3) > 0);
            let (first, second) = (draw.below(5) as i64 - 1, draw.below(3) as i64);
            window.add(Nanos(now), length, first, second);
            all.push((now / 100, first, second));
            let kept = all.iter().filter(|(slot, ..)| *slot + 10 > now / 100);
            let expected = kept.fold((0, 0), |sums, (_, first, second)| (sums.0 + first, sums.1 + second));
            assert_eq!(window.at(Nanos(now), length), expected);
        }
    }
}
