//! The smallest of several numbers, and what to do when several are smallest. How ties fall has caused faults in
//! several production routers, so it is a parameter.

use super::params::{self, Params};
use servelab_engine::random::Stream;
use servelab_spec::catalog::ParamInfo;

/// Who wins a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    Lowest,
    Random,
    Highest,
}

impl Ties {
    pub(crate) const NAME: &'static str = "ties";

    /// The parameter that chooses, by default `self`.
    pub(crate) fn param(self) -> ParamInfo {
        params::choice(
            Self::NAME,
            "Ties",
            self as u32,
            &["lowest index", "random", "highest index"],
            "Which replica is taken when several are equally good.",
        )
    }

    /// What the parameter says.
    pub(crate) fn of(params: &Params) -> Self {
        match params.integer(Self::NAME) {
            0 => Ties::Lowest,
            1 => Ties::Random,
            _ => Ties::Highest,
        }
    }

    /// Position of a largest value, by IEEE total order; `values` is not empty.
    pub(crate) fn most(self, values: &[f64], stream: &mut Stream) -> usize {
        let largest = values.iter().copied().max_by(f64::total_cmp).unwrap_or(0.0);
        self.pick(values.iter().map(|value| value.total_cmp(&largest).is_eq()), stream)
    }

    /// Position of a smallest value, by IEEE total order; `values` is not empty.
    pub(crate) fn lowest(self, values: &[f64], stream: &mut Stream) -> usize {
        let smallest = values.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0);
        self.pick(values.iter().map(|value| value.total_cmp(&smallest).is_eq()), stream)
    }

    /// Position of a smallest value; `values` is not empty.
    pub(crate) fn least<T: Ord + Copy>(self, values: impl Iterator<Item = T> + Clone, stream: &mut Stream) -> usize {
        let smallest = values.clone().min();
        self.pick(values.map(|value| Some(value) == smallest), stream)
    }

    /// Position of one of the marked ones.
    fn pick(self, marked: impl Iterator<Item = bool> + Clone, stream: &mut Stream) -> usize {
        let mut tied = marked.enumerate().filter(|&(_, marked)| marked).map(|(at, _)| at);
        let nth = match self {
            Ties::Lowest => 0,
            Ties::Random => stream.below(tied.clone().count() as u64) as usize,
            Ties::Highest => return tied.last().unwrap_or(0),
        };
        tied.nth(nth).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_fall_to_the_lowest_the_highest_or_evenly() {
        let values = [3u64, 1, 2, 1, 1];
        let stream = Stream::new(1, b"ties");
        let mut counts = [0u32; 5];
        for draw in 0..3000 {
            assert_eq!(Ties::Lowest.least(values.iter().copied(), &mut stream.split(draw)), 1);
            assert_eq!(Ties::Highest.least(values.iter().copied(), &mut stream.split(draw)), 4);
            counts[Ties::Random.least(values.iter().copied(), &mut stream.split(draw))] += 1;
        }
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!([1, 3, 4].iter().all(|&at| counts[at].abs_diff(1000) < 120), "{counts:?}");
    }
}
