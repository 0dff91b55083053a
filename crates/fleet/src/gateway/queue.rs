//! What the gateway holds: for each class a queue, or one for each of its tenants who then take turns.
//!
//! Everything costs the same however much is held, and allocates nothing once the places are there: entries are threaded through lists
//! ([`super::list`]) by the loop's number for the attempt. An entry stands in the list of its lane (its class, or its tenant in the class) and in that of its
//! class by age; a lane with entries stands in its class' ring. Saved, it is the entries of each class by age and the ring; the rest follows.

use super::list::{Links, List};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// Which of a class is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Within {
    /// Who came first.
    #[default]
    ComeFirst,
    /// Each tenant in turn, and of a tenant's who came first.
    Tenants,
}

/// Something held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Held {
    /// The loop's number for the attempt.
    pub(crate) place: u32,
    pub(crate) tenant: u32,
    /// When it came.
    pub(crate) since: Nanos,
    /// What it may cost.
    pub(crate) tokens: u64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    age: List,
    ring: List,
    held: u32,
    tokens: u64,
}

/// The queues of all classes, by rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "SavedQueue", try_from = "SavedQueue")]
pub(crate) struct Queue {
    within: Within,
    tenants: u32,
    classes: Vec<Class>,
    lanes: Vec<List>,
    /// Neighbours of each lane in its class' ring.
    rings: Vec<Links>,
    /// By place: the entry and its rank; neighbours in its lane and by age.
    entries: Vec<Option<(Held, u32)>>,
    by_lane: Vec<Links>,
    by_age: Vec<Links>,
    held: u32,
}

impl Queue {
    pub(crate) fn new(within: Within, ranks: u32, tenants: u32) -> Self {
        let tenants = if within == Within::Tenants { tenants.max(1) } else { 1 };
        let lanes = (ranks * tenants) as usize;
        Queue {
            within,
            tenants,
            classes: vec![Class::default(); ranks as usize],
            lanes: vec![List::default(); lanes],
            rings: vec![Links::default(); lanes],
            entries: Vec::new(),
            by_lane: Vec::new(),
            by_age: Vec::new(),
            held: 0,
        }
    }

    fn lane(&self, rank: u32, tenant: u32) -> u32 {
        rank * self.tenants + if self.within == Within::Tenants { tenant.min(self.tenants - 1) } else { 0 }
    }

    /// It has the same lanes.
    pub(crate) fn is_like(&self, other: &Queue) -> bool {
        let shape = |queue: &Queue| (queue.within, queue.tenants, queue.classes.len());
        shape(self) == shape(other)
    }

    /// Entries in all.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Entries of a class, and the tokens they may cost.
    pub(crate) fn of(&self, rank: u32) -> (u32, u64) {
        self.classes.get(rank as usize).map_or((0, 0), |class| (class.held, class.tokens))
    }

    pub(crate) fn push(&mut self, rank: u32, held: Held) {
        let at = held.place as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, None);
            self.by_lane.resize(at + 1, Links::default());
            self.by_age.resize(at + 1, Links::default());
        }
        debug_assert!(self.entries[at].is_none(), "attempt {at} is held already");
        self.entries[at] = Some((held, rank));
        let lane = self.lane(rank, held.tenant);
        let class = &mut self.classes[rank as usize];
        if self.lanes[lane as usize].first().is_none() {
            class.ring.push_back(&mut self.rings, lane);
        }
        self.lanes[lane as usize].push_back(&mut self.by_lane, held.place);
        class.age.push_back(&mut self.by_age, held.place);
        (class.held, class.tokens) = (class.held + 1, class.tokens + held.tokens);
        self.held += 1;
    }

    /// The next of a class leaves; `newest`: the one who came last, whoever's turn it is.
    pub(crate) fn pop(&mut self, rank: u32, newest: bool) -> Option<Held> {
        let class = self.classes.get(rank as usize)?;
        if newest {
            let place = class.age.last()?;
            return self.remove(place).map(|(held, _)| held);
        }
        let lane = class.ring.first()?;
        let place = self.lanes[lane as usize].first()?;
        let held = self.remove(place).map(|(held, _)| held);
        // The lane has had its turn.
        if self.lanes[lane as usize].first().is_some() {
            let ring = &mut self.classes[rank as usize].ring;
            ring.remove(&mut self.rings, lane);
            ring.push_back(&mut self.rings, lane);
        }
        held
    }

    /// Who has been held longest of a class.
    pub(crate) fn oldest(&self, rank: u32) -> Option<Held> {
        let place = self.classes.get(rank as usize)?.age.first()?;
        self.entries.get(place as usize)?.map(|(held, _)| held)
    }

    /// Takes an entry out, whoever's turn it is, if it is held.
    pub(crate) fn remove(&mut self, place: u32) -> Option<(Held, u32)> {
        let (held, rank) = self.entries.get_mut(place as usize)?.take()?;
        let lane = self.lane(rank, held.tenant);
        let class = &mut self.classes[rank as usize];
        self.lanes[lane as usize].remove(&mut self.by_lane, place);
        class.age.remove(&mut self.by_age, place);
        if self.lanes[lane as usize].first().is_none() {
            class.ring.remove(&mut self.rings, lane);
        }
        (class.held, class.tokens) = (class.held - 1, class.tokens - held.tokens);
        self.held -= 1;
        Some((held, rank))
    }

    /// Everything held, class by class, by age.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Held> + '_ {
        let places = self.classes.iter().flat_map(|class| class.age.iter(&self.by_age));
        places.filter_map(|place| self.entries[place as usize].map(|(held, _)| held))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedQueue {
    within: Within,
    tenants: u32,
    classes: Vec<SavedClass>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedClass {
    held: Vec<Held>,
    /// Lanes with entries; the first is next.
    ring: Vec<u32>,
}

/// Most that is threaded through: as many requests as may be in flight at once.
const MOST: u32 = 1 << 24;

impl From<Queue> for SavedQueue {
    fn from(queue: Queue) -> Self {
        let held = |class: &Class| {
            let entries = class.age.iter(&queue.by_age);
            entries.filter_map(|place| queue.entries[place as usize].map(|(held, _)| held)).collect()
        };
        let classes = queue.classes.iter();
        let classes =
            classes.map(|class| SavedClass { held: held(class), ring: class.ring.iter(&queue.rings).collect() });
        SavedQueue { within: queue.within, tenants: queue.tenants, classes: classes.collect() }
    }
}

impl TryFrom<SavedQueue> for Queue {
    type Error = String;

    fn try_from(saved: SavedQueue) -> Result<Self, String> {
        let ranks = saved.classes.len() as u32;
        if u64::from(ranks) * u64::from(saved.tenants) > u64::from(MOST) {
            return Err(format!("{ranks} classes of {} tenants are too many", saved.tenants));
        }
        let mut queue = Queue::new(saved.within, ranks, saved.tenants);
        for (rank, class) in (0..).zip(&saved.classes) {
            for &held in &class.held {
                let taken = queue.entries.get(held.place as usize).is_some_and(Option::is_some);
                if held.place >= MOST || taken {
                    return Err(format!("attempt {} is held twice, or by nobody", held.place));
                }
                queue.push(rank, held);
            }
            // Each lane with entries goes to the end once, in the order saved: then they stand in that order.
            for &lane in &class.ring {
                let of_class = lane / queue.tenants == rank && (lane as usize) < queue.lanes.len();
                if !of_class || queue.lanes[lane as usize].first().is_none() {
                    return Err(format!("the lane {lane} has no turn in class {rank}"));
                }
                let ring = &mut queue.classes[rank as usize].ring;
                ring.remove(&mut queue.rings, lane);
                ring.push_back(&mut queue.rings, lane);
            }
        }
        Ok(queue)
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn held(place: u32, tenant: u32) -> Held {
        Held { place, tenant, since: Nanos(u64::from(place)), tokens: 10 }
    }

    /// Three of tenant 0, then one each of 1 and 2: first come first served, or in turns.
    #[test]
    fn turns_by_hand() {
        for (within, expected) in [(Within::ComeFirst, [0, 1, 2, 3, 4]), (Within::Tenants, [0, 3, 4, 1, 2])] {
            let mut queue = Queue::new(within, 1, 3);
            for (place, tenant) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)] {
                queue.push(0, held(place, tenant));
            }
            assert_eq!((queue.of(0), queue.oldest(0)), ((5, 50), Some(held(0, 0))));
            let order: Vec<u32> = std::iter::from_fn(|| queue.pop(0, false)).map(|held| held.place).collect();
            assert_eq!(order, expected);
        }
    }

    #[test]
    fn the_newest_first_and_one_in_the_middle() {
        let mut queue = Queue::new(Within::Tenants, 2, 2);
        for (place, tenant) in [(7, 0), (3, 1), (5, 0)] {
            queue.push(1, held(place, tenant));
        }
        assert_eq!(queue.pop(0, false), None);
        assert_eq!(queue.remove(3).map(|(held, rank)| (held.place, rank)), Some((3, 1)));
        assert_eq!(queue.remove(3), None);
        assert_eq!(queue.pop(1, true).map(|held| held.place), Some(5));
        assert_eq!(queue.pop(1, true).map(|held| held.place), Some(7));
        assert_eq!((queue.held(), queue.of(1)), (0, (0, 0)));
    }

    /// What the queue says, and a plain second queue: vectors that are searched.
    #[derive(Default)]
    struct Plain {
        held: Vec<(u32, Held)>,
        /// Tenants of each class, whose turn is next.
        turns: Vec<Vec<u32>>,
    }

    impl Plain {
        fn settle(&mut self) {
            let held = &self.held;
            for (rank, turns) in (0..).zip(&mut self.turns) {
                turns.retain(|tenant| held.iter().any(|(other, held)| *other == rank && held.tenant == *tenant));
            }
        }

        fn pop(&mut self, rank: u32, newest: bool, within: Within) -> Option<Held> {
            let of = |(other, _): &&(u32, Held)| *other == rank;
            let held = if newest {
                self.held.iter().rfind(of)?.1
            } else if within == Within::ComeFirst {
                self.held.iter().find(of)?.1
            } else {
                let tenant = *self.turns[rank as usize].first()?;
                let held = self.held.iter().filter(of).find(|(_, held)| held.tenant == tenant)?.1;
                self.turns[rank as usize].rotate_left(1);
                held
            };
            self.held.retain(|(_, other)| other.place != held.place);
            self.settle();
            Some(held)
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Push(u32, u32, u32),
        Pop(u32, bool),
        Remove(u32),
        Restore,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0u32..3, 0u32..4, 0u32..24).prop_map(|(rank, tenant, place)| Op::Push(rank, tenant, place)),
            4 => (0u32..3, prop::bool::weighted(0.3)).prop_map(|(rank, newest)| Op::Pop(rank, newest)),
            1 => (0u32..24).prop_map(Op::Remove),
            1 => Just(Op::Restore),
        ]
    }

    proptest! {
        #[test]
        fn as_plain_vectors_would(tenants: bool, ops in prop::collection::vec(op(), 0..120)) {
            let within = if tenants { Within::Tenants } else { Within::ComeFirst };
            let mut queue = Queue::new(within, 3, 4);
            let mut plain = Plain { turns: vec![vec![]; 3], ..Plain::default() };
            for (at, op) in (0u64..).zip(ops) {
                match op {
                    Op::Push(rank, tenant, place) => {
                        if plain.held.iter().any(|(_, held)| held.place == place) {
                            continue;
                        }
                        let held = Held { place, tenant, since: Nanos(at), tokens: u64::from(place) };
                        queue.push(rank, held);
                        plain.held.push((rank, held));
                        if !plain.turns[rank as usize].contains(&tenant) {
                            plain.turns[rank as usize].push(tenant);
                        }
                    }
                    Op::Pop(rank, newest) => prop_assert_eq!(queue.pop(rank, newest), plain.pop(rank, newest, within)),
                    Op::Remove(place) => {
                        let there = plain.held.iter().any(|(_, held)| held.place == place);
                        plain.held.retain(|(_, held)| held.place != place);
                        plain.settle();
                        prop_assert_eq!(queue.remove(place).is_some(), there);
                    }
                    Op::Restore => {
                        let text = serde_json::to_string(&queue).unwrap();
                        queue = serde_json::from_str(&text).unwrap();
                        prop_assert_eq!(serde_json::to_string(&queue).unwrap(), text);
                    }
                }
                for rank in 0..3 {
                    let of = plain.held.iter().filter(|(other, _)| *other == rank).map(|(_, held)| held);
                    let tokens: u64 = of.clone().map(|held| held.tokens).sum();
                    prop_assert_eq!(queue.of(rank), (of.clone().count() as u32, tokens));
                    prop_assert_eq!(queue.oldest(rank), of.clone().next().copied());
                }
                prop_assert_eq!(queue.held() as usize, plain.held.len());
                prop_assert_eq!(queue.iter().count(), plain.held.len());
            }
        }
    }

    #[test]
    fn a_damaged_queue_is_refused() {
        let mut queue = Queue::new(Within::Tenants, 2, 2);
        queue.push(0, held(1, 0));
        queue.push(1, held(2, 1));
        let text = serde_json::to_string(&queue).unwrap();
        for (from, to) in [
            ("\"place\":2", "\"place\":1"),
            ("\"place\":2", "\"place\":4000000000"),
            ("\"ring\":[3]", "\"ring\":[2]"),
            ("\"ring\":[3]", "\"ring\":[0]"),
            ("\"ring\":[3]", "\"ring\":[99]"),
            ("\"tenants\":2", "\"tenants\":4000000000"),
        ] {
            assert!(text.contains(from), "{text}");
            assert!(serde_json::from_str::<Queue>(&text.replace(from, to)).is_err(), "{from} → {to}");
        }
    }
}
