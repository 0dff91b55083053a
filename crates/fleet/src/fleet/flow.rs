//! What became of attempts over time, in bins: few however long a run is.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// Most bins. When they are full, each two become one.
const BINS: usize = 4096;

/// Length of a bin at the start.
const FIRST: Nanos = Nanos(10_000_000);

/// One bin of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowBin {
    /// Attempts made.
    pub attempts: u32,
    /// Of those, retries and hedges.
    pub repeats: u32,
    /// Attempts turned away.
    pub refused: u32,
    /// Attempts that failed otherwise.
    pub failed: u32,
    /// Requests finished.
    pub finished: u32,
    /// Requests given up.
    pub given_up: u32,
    /// Work for requests that were waited for, as it ended.
    pub useful: Nanos,
    /// Work that nobody had any use for, as it ended.
    pub wasted: Nanos,
}

impl FlowBin {
    fn and(self, other: FlowBin) -> FlowBin {
        FlowBin {
            attempts: self.attempts + other.attempts,
            repeats: self.repeats + other.repeats,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            finished: self.finished + other.finished,
            given_up: self.given_up + other.given_up,
            useful: self.useful + other.useful,
            wasted: self.wasted + other.wasted,
        }
    }
}

/// All bins so far; the last one may not be over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    bin: Nanos,
    bins: Vec<FlowBin>,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { bin: FIRST, bins: Vec::new() }
    }
}

impl Flow {
    /// Length of a bin.
    pub fn bin(&self) -> Nanos {
        self.bin
    }

    /// The bins, the first from time zero.
    pub fn bins(&self) -> &[FlowBin] {
        &self.bins
    }

    /// The bin of `now`.
    pub(crate) fn at(&mut self, now: Nanos) -> &mut FlowBin {
        while now.0 / self.bin.0 >= BINS as u64 {
            self.bin = Nanos(self.bin.0 * 2);
            for at in 0..self.bins.len().div_ceil(2) {
                let second = self.bins.get(2 * at + 1).copied().unwrap_or_default();
                self.bins[at] = self.bins[2 * at].and(second);
            }
            self.bins.truncate(self.bins.len().div_ceil(2));
        }
        let at = (now.0 / self.bin.0) as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, FlowBin::default());
        }
        &mut self.bins[at]
    }

    /// What a saved state must satisfy.
    pub(crate) fn is_sound(&self) -> bool {
        self.bin >= FIRST && self.bins.len() <= BINS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_merge_and_lose_nothing() {
        let mut flow = Flow::default();
        let instants = [0, 9_999_999, 10_000_000, 40_959_999_999, 40_960_000_000, 200_000_000_000, 3_000_000_000_000];
        for at in instants {
            flow.at(Nanos(at)).attempts += 1;
            flow.at(Nanos(at)).useful += Nanos(7);
        }
        assert!(flow.bins().len() <= BINS && flow.is_sound());
        assert_eq!(
            flow.bin(),
            Nanos(1_280_000_000),
            "the first power of two times 10 ms of which 4096 are more than 3000 s"
        );
        let mut expected = vec![0; flow.bins().len()];
        instants.iter().for_each(|at| expected[(at / flow.bin().0) as usize] += 1);
        assert_eq!(flow.bins().iter().map(|bin| bin.attempts).collect::<Vec<_>>(), expected);
        assert_eq!(flow.bins().iter().map(|bin| bin.useful.0).sum::<u64>(), 7 * 7);
    }
}
