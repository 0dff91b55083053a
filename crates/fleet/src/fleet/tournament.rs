//! The earliest of many instants, one for each replica, in a winner tree: changing one costs log₂ n comparisons and nothing is
//! allocated. Among equals the lowest index wins.

use servelab_engine::Nanos;

pub(crate) struct Tournament {
    /// Leaves from `size` on, inner nodes before; node i is the winner of 2i and 2i + 1. Node 1 is the root.
    nodes: Vec<(Nanos, u32)>,
    size: usize,
}

impl Tournament {
    pub(crate) fn new(n: u32) -> Self {
        let size = (n as usize).next_power_of_two();
        let mut nodes = vec![(Nanos::MAX, 0); 2 * size];
        for (index, leaf) in nodes[size..].iter_mut().enumerate() {
            leaf.1 = index as u32;
        }
        for node in (1..size).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        Tournament { nodes, size }
    }

    pub(crate) fn set(&mut self, index: u32, at: Nanos) {
        let mut node = self.size + index as usize;
        self.nodes[node].0 = at;
        while node > 1 {
            node /= 2;
            let winner = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }

    /// The earliest instant and whose it is.
    pub(crate) fn first(&self) -> (Nanos, u32) {
        self.nodes[1]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_winner_is_the_earliest_and_lowest(
            n in 1u32..20,
            sets in prop::collection::vec((0u32..20, 0u64..6), 0..60),
        ) {
            let mut tournament = Tournament::new(n);
            let mut plain = vec![Nanos::MAX; n as usize];
            for (index, at) in sets {
                let index = index % n;
                tournament.set(index, Nanos(at));
                plain[index as usize] = Nanos(at);
                let least = plain.iter().copied().min().unwrap_or(Nanos::MAX);
                let whose = plain.iter().position(|&at| at == least).unwrap_or(0) as u32;
                prop_assert_eq!(tournament.first(), (least, whose));
            }
        }
    }
}
