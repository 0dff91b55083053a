//! When clients want to be called, kept in little room: a million of them wait in a storm.
//!
//! Time is cut into slices of about 17 ms. What lies in a later slice is a list of 16 bytes an alarm, in order of insertion. The slice whose turn it is
//! is put in order once; alarms within it that are set afterwards are for somebody else to keep ([`Alarms::takes`]). So setting, cancelling and
//! ringing each cost what a short list costs, however many wait.

use super::TimerKey;
use servelab_engine::Nanos;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// A slice is this power of two of nanoseconds.
const SLICE_BITS: u32 = 24;

/// The place of a client whose alarm was cancelled.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Alarm {
    /// Within its slice.
    offset: u32,
    place: u32,
    number: NonZeroU64,
}

/// A slice that has not come.
#[derive(Clone, Debug, Default)]
struct Slice {
    /// In order of their numbers, cancelled ones among them.
    alarms: Vec<Alarm>,
    cancelled: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Alarms {
    later: BTreeMap<u64, Slice>,
    /// Alarms of the slice whose turn it is, the soonest last; that one is nobody's cancelled one.
    due: Vec<Alarm>,
    /// Its number; alarms up to its end are not taken.
    slice: Option<u64>,
}

fn slice_of(at: Nanos) -> u64 {
    at.0 >> SLICE_BITS
}

impl Alarm {
    fn key(&self, slice: u64) -> TimerKey {
        (Nanos(slice << SLICE_BITS | u64::from(self.offset)), self.number)
    }
}

impl Slice {
    fn find(&self, number: NonZeroU64) -> Option<usize> {
        self.alarms.binary_search_by_key(&number, |alarm| alarm.number).ok()
    }
}

impl Alarms {
    /// It lies late enough.
    pub(super) fn takes(&self, (at, _): TimerKey) -> bool {
        self.slice.is_none_or(|slice| slice < slice_of(at))
    }

    /// Calls the client at `place` then. Its number is larger than any before.
    pub(super) fn set(&mut self, (at, number): TimerKey, place: u32) {
        let offset = (at.0 & ((1 << SLICE_BITS) - 1)) as u32;
        self.later.entry(slice_of(at)).or_default().alarms.push(Alarm { offset, place, number });
    }

    /// No slice is in order, and there are some.
    pub(super) fn is_asleep(&self) -> bool {
        self.due.is_empty() && !self.later.is_empty()
    }

    /// Puts the first slice in order if it begins by `by`. Not before that is asked for: whoever comes in between would find it in order, and have to be
    /// kept elsewhere.
    pub(super) fn wake(&mut self, by: Nanos) {
        if let Some(first) = self.later.first_entry()
            && *first.key() <= slice_of(by)
        {
            self.slice = Some(*first.key());
            self.due = first.remove().alarms;
            self.due.retain(|alarm| alarm.place != NOBODY);
            self.due.sort_unstable_by_key(|alarm| std::cmp::Reverse((alarm.offset, alarm.number)));
        }
    }

    /// Some slice that is not in order begins by then.
    pub(super) fn may_ring(&self, by: Nanos) -> bool {
        self.later.first_key_value().is_some_and(|(&slice, _)| slice <= slice_of(by))
    }

    /// The soonest, of those in order.
    pub(super) fn first(&self) -> Option<TimerKey> {
        Some(self.due.last()?.key(self.slice?))
    }

    /// Takes the soonest out: whom it calls.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let place = self.due.pop()?.place;
        self.trim();
        Some(place)
    }

    /// The soonest is somebody's.
    fn trim(&mut self) {
        while self.due.last().is_some_and(|alarm| alarm.place == NOBODY) {
            self.due.pop();
        }
    }

    /// Where an alarm of the slice whose turn it is stands.
    fn find_due(&self, (at, number): TimerKey) -> Option<usize> {
        let slice = self.slice.filter(|&slice| slice == slice_of(at))?;
        self.due.binary_search_by(|alarm| (at, number).cmp(&alarm.key(slice))).ok()
    }

    /// It is not wanted any more.
    pub(super) fn remove(&mut self, key: TimerKey) {
        if let Some(at) = self.find_due(key) {
            self.due[at].place = NOBODY;
            return self.trim();
        }
        let number = slice_of(key.0);
        let Some(slice) = self.later.get_mut(&number) else { return };
        let Some(alarm) = slice.find(key.1).and_then(|at| slice.alarms.get_mut(at)) else { return };
        if std::mem::replace(&mut alarm.place, NOBODY) == NOBODY {
            return;
        }
        slice.cancelled += 1;
        if slice.cancelled as usize * 2 > slice.alarms.len() {
            slice.alarms.retain(|alarm| alarm.place != NOBODY);
            slice.cancelled = 0;
            if slice.alarms.is_empty() {
                self.later.remove(&number);
            } else {
                slice.alarms.shrink_to(slice.alarms.len() * 2);
            }
        }
    }

    /// Whom it calls, if it is set.
    pub(super) fn get(&self, key: TimerKey) -> Option<u32> {
        let of = |alarm: &Alarm| Some(alarm.place).filter(|&place| place != NOBODY);
        if let Some(at) = self.find_due(key) {
            return of(&self.due[at]);
        }
        let slice = self.later.get(&slice_of(key.0))?;
        let alarm = &slice.alarms[slice.find(key.1)?];
        of(alarm).filter(|_| alarm.key(slice_of(key.0)) == key)
    }

    /// All that are set.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TimerKey, u32)> + '_ {
        let due = self.slice.into_iter().flat_map(|slice| self.due.iter().map(move |alarm| (slice, alarm)));
        let later = self.later.iter().flat_map(|(&slice, of)| of.alarms.iter().map(move |alarm| (slice, alarm)));
        let set = due.chain(later).filter(|(_, alarm)| alarm.place != NOBODY);
        set.map(|(slice, alarm)| (alarm.key(slice), alarm.place))
    }
}
