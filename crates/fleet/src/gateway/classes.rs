//! Priority classes: which tenants belong together, who goes first, and how the order between classes is kept.
//!
//! *Strict*: as long as a higher class has somebody, a lower one waits (llm-d); it may wait for ever. *Weighted*: each class gets turns in proportion to its
//! weight (stride scheduling, Waldspurger and Weihl 1995): the class with the lowest pass is next and its pass moves on by 1 ÷ weight. A class that was
//! empty comes back at the pass of the present, so that nobody saves up turns.

use serde::{Deserialize, Serialize};

/// A class of tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Its name.
    pub name: String,
    /// Higher goes first; below 0 may be shed.
    pub priority: i32,
    /// Its share of turns in the weighted order, at least 1.
    pub weight: u32,
    /// Whose requests belong to it. The first class without tenants takes all others; where there is none, the first class does.
    pub tenants: Vec<u32>,
}

/// Position among `classes` of the one that a tenant belongs to; 0 where there are none.
pub fn class_of(classes: &[ClassConfig], tenant: u32) -> usize {
    let own = classes.iter().position(|class| class.tenants.contains(&tenant));
    own.or_else(|| classes.iter().position(|class| class.tenants.is_empty())).unwrap_or(0)
}

/// Order between classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By priority.
    #[default]
    Strict,
    /// Turns in proportion to weights.
    Weighted,
}

/// Classes by rank: 0 has the highest priority; equals keep the order in which they were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Classes {
    priorities: Vec<i32>,
    weights: Vec<u32>,
    /// Rank of each tenant's class.
    ranks: Vec<u32>,
}

impl Classes {
    /// Without any, one class of priority 0.
    pub(crate) fn new(configs: &[ClassConfig], tenants: u32) -> Self {
        if configs.is_empty() {
            return Classes { priorities: vec![0], weights: vec![1], ranks: vec![0; tenants as usize] };
        }
        let mut order: Vec<u32> = (0..configs.len() as u32).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(configs[at as usize].priority));
        let rank_of = |at: usize| order.iter().position(|&other| other as usize == at).unwrap_or(0) as u32;
        let ranks = (0..tenants).map(|tenant| rank_of(class_of(configs, tenant))).collect();
        let by_rank = |at: &u32| &configs[*at as usize];
        Classes {
            priorities: order.iter().map(|at| by_rank(at).priority).collect(),
            weights: order.iter().map(|at| by_rank(at).weight.max(1)).collect(),
            ranks,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.priorities.len() as u32
    }

    pub(crate) fn rank_of(&self, tenant: u32) -> u32 {
        self.ranks.get(tenant as usize).copied().unwrap_or(0)
    }

    pub(crate) fn priority(&self, rank: u32) -> i32 {
        self.priorities.get(rank as usize).copied().unwrap_or(0)
    }
}

/// Whose turn it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turns {
    order: Order,
    /// Of each rank.
    passes: Vec<u64>,
    /// The pass of the latest turn.
    present: u64,
}

/// A turn of a class of weight 1.
const STRIDE: u64 = 1 << 20;

impl Turns {
    pub(crate) fn new(order: Order, classes: &Classes) -> Self {
        Turns { order, passes: vec![0; classes.len() as usize], present: 0 }
    }

    /// There is a pass for each class.
    pub(crate) fn is_for(&self, classes: &Classes) -> bool {
        self.passes.len() == classes.len() as usize
    }

    /// Somebody comes to a class that was empty.
    pub(crate) fn woke(&mut self, rank: u32) {
        let pass = &mut self.passes[rank as usize];
        *pass = (*pass).max(self.present);
    }

    /// The rank that is next of those that may.
    pub(crate) fn next(&self, mut may: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut ranks = (0..self.passes.len() as u32).filter(|&rank| may(rank));
        match self.order {
            Order::Strict => ranks.next(),
            Order::Weighted => ranks.min_by_key(|&rank| (self.passes[rank as usize], rank)),
        }
    }

    /// It had its turn.
    pub(crate) fn took(&mut self, rank: u32, classes: &Classes) {
        let pass = &mut self.passes[rank as usize];
        self.present = *pass;
        *pass = pass.saturating_add(STRIDE / u64::from(classes.weights[rank as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, priority: i32, weight: u32, tenants: &[u32]) -> ClassConfig {
        ClassConfig { name: name.into(), priority, weight, tenants: tenants.to_vec() }
    }

    #[test]
    fn ranks_follow_priorities_and_the_rest_has_a_class() {
        let configs = [class("batch", -1, 1, &[3]), class("standard", 0, 2, &[]), class("paid", 5, 4, &[0, 2])];
        let classes = Classes::new(&configs, 5);
        assert_eq!([0, 1, 2, 3, 4].map(|tenant| classes.rank_of(tenant)), [0, 1, 0, 2, 1]);
        assert_eq!([0, 1, 2].map(|rank| classes.priority(rank)), [5, 0, -1]);
        let one = Classes::new(&[], 3);
        assert_eq!((one.len(), one.rank_of(2), one.rank_of(99)), (1, 0, 0));
    }

    /// Weights 4, 2, 1: of seven turns four, two and one, spread out. Strides are 1/4, 1/2, 1.
    #[test]
    fn turns_by_weight_by_hand() {
        let configs = [class("a", 2, 4, &[]), class("b", 1, 2, &[1]), class("c", 0, 1, &[2])];
        let classes = Classes::new(&configs, 3);
        let mut turns = Turns::new(Order::Weighted, &classes);
        let mut take = |may: [bool; 3]| {
            let rank = turns.next(|rank| may[rank as usize]);
            rank.into_iter().for_each(|rank| turns.took(rank, &classes));
            rank
        };
        // Passes (a, b, c): (0,0,0) a → (¼,0,0) b → (¼,½,0) c → (¼,½,1) a → (½,½,1) a → (¾,½,1) b → (¾,1,1) a → (1,1,1).
        let order: Vec<u32> = (0..7).filter_map(|_| take([true; 3])).collect();
        assert_eq!(order, [0, 1, 2, 0, 0, 1, 0]);
        assert_eq!(take([false, true, true]), Some(1));
        assert_eq!(take([false; 3]), None);
    }

    /// A class that was empty for a hundred turns does not get them all at once.
    #[test]
    fn nobody_saves_up_turns() {
        let configs = [class("a", 1, 1, &[]), class("b", 0, 1, &[1])];
        let classes = Classes::new(&configs, 2);
        let mut turns = Turns::new(Order::Weighted, &classes);
        (0..100).for_each(|_| turns.took(0, &classes));
        turns.woke(1);
        let mut order = Vec::new();
        for _ in 0..6 {
            let Some(rank) = turns.next(|_| true) else { continue };
            turns.took(rank, &classes);
            order.push(rank);
        }
        assert_eq!(order.iter().filter(|&&rank| rank == 1).count(), 3, "{order:?}");
        let strict = Turns::new(Order::Strict, &classes);
        assert_eq!([strict.next(|_| true), strict.next(|rank| rank == 1)], [Some(0), Some(1)]);
    }
}
