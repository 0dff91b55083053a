//! The smallest of several numbers, and what to do when several are smallest. How ties fall has caused faults in
//! several production routers, so it is a parameter.

use servelab_engine::random::Stream;
use servelab_spec::catalog::{ParamInfo, ParamKind};

/// Who wins a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    Lowest,
    Random,
}

impl Ties {
    pub(crate) const NAME: &'static str = "ties";

    pub(crate) fn from_index(index: u32) -> Self {
        if index == 0 { Ties::Lowest } else { Ties::Random }
    }

    pub(crate) fn index(self) -> f64 {
        if self == Ties::Lowest { 0.0 } else { 1.0 }
    }

    pub(crate) fn param() -> ParamInfo {
        ParamInfo {
            name: Self::NAME.into(),
            label: "Ties".into(),
            unit: String::new(),
            default: 0.0,
            min: 0.0,
            max: 1.0,
            step: 1.0,
            kind: ParamKind::Choice(vec!["lowest index".into(), "random".into()]),
            help: "Which replica is taken when several are equally good.".into(),
        }
    }

    /// Position of a smallest value; `values` is not empty.
    pub(crate) fn least(self, values: impl Iterator<Item = u64> + Clone, stream: &mut Stream) -> usize {
        let smallest = values.clone().min().unwrap_or(0);
        let mut tied = values.enumerate().filter(|&(_, value)| value == smallest).map(|(at, _)| at);
        let nth = match self {
            Ties::Lowest => 0,
            Ties::Random => stream.below(tied.clone().count() as u64) as usize,
        };
        tied.nth(nth).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_fall_to_the_lowest_or_evenly() {
        let values = [3u64, 1, 2, 1, 1];
        let stream = Stream::new(1, b"ties");
        let mut counts = [0u32; 5];
        for draw in 0..3000 {
            assert_eq!(Ties::Lowest.least(values.iter().copied(), &mut stream.split(draw)), 1);
            counts[Ties::Random.least(values.iter().copied(), &mut stream.split(draw))] += 1;
        }
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!([1, 3, 4].iter().all(|&at| counts[at].abs_diff(1000) < 120), "{counts:?}");
    }
}
