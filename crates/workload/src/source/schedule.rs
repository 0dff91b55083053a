//! Who comes when, where requests of many groups (sessions, tasks) interleave.
//!
//! Groups start one after the other and go on side by side, so the order of their requests is known only once all are drawn. That is done
//! when the source is made: 16 bytes a request, shared by every copy of the source and the same at its start as at its end. The
//! prompts themselves are built anew when their request is due.

use servelab_engine::Nanos;

/// One request: its group and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) at: Nanos,
    pub(super) group: u32,
    pub(super) member: u32,
}

/// The requests of all groups in order of arrival; at one instant by group and member.
#[derive(Debug)]
pub(super) struct Schedule(Box<[Slot]>);

impl Schedule {
    /// `requests` requests. `group` appends when the members of a group arrive, the first one at the given instant, in an order in which nobody
    /// comes before whom it depends on; the last group is cut short. Gaps between starts are drawn by `gap`, nanoseconds.
    pub(super) fn new(
        requests: u32,
        mut gap: impl FnMut(u32) -> f64,
        mut group: impl FnMut(u32, Nanos, &mut Vec<Nanos>),
    ) -> Self {
        let mut slots: Vec<Slot> = Vec::with_capacity(requests as usize);
        let (mut start, mut at, mut members) = (Nanos::ZERO, 0, vec![]);
        while slots.len() < requests as usize {
            start += nanos(gap(at));
            members.clear();
            group(at, start, &mut members);
            let left = requests as usize - slots.len();
            slots.extend((0u32..).zip(&members).take(left).map(|(member, &when)| Slot { at: when, group: at, member }));
            at += 1;
        }
        slots.sort();
        Schedule(slots.into())
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn get(&self, index: u32) -> Option<Slot> {
        self.0.get(index as usize).copied()
    }
}

/// Nanoseconds rounded to whole ones.
pub(super) fn nanos(ns: f64) -> Nanos {
    Nanos(libm::round(ns) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of three that start every 10 ns, members 25 ns apart: 0 25 50, 10 35 60, 20 45 (cut).
    #[test]
    fn groups_interleave_and_the_last_is_cut() {
        let schedule = Schedule::new(
            8,
            |at| if at == 0 { 0.0 } else { 10.0 },
            |_, start, members| members.extend((0..3).map(|member| Nanos(start.0 + 25 * member))),
        );
        let order: Vec<(u64, u32, u32)> =
            (0..8).filter_map(|index| schedule.get(index)).map(|slot| (slot.at.0, slot.group, slot.member)).collect();
        assert_eq!(
            order,
            [(0, 0, 0), (10, 1, 0), (20, 2, 0), (25, 0, 1), (35, 1, 1), (45, 2, 1), (50, 0, 2), (60, 1, 2)]
        );
        assert_eq!((schedule.len(), schedule.get(8)), (8, None));
    }
}
