//! Which worker has which item: handed out in order, one to a worker at a time.

/// The items of a batch, numbered from 0, and who works on them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    total: u32,
    next: u32,
    done: u32,
    /// By worker.
    held: Vec<Option<Held>>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    run: u32,
    /// Share of the item that is done.
    fraction: f64,
}

impl Queue {
    pub(crate) fn new(total: u32, workers: usize) -> Self {
        Queue { total, next: 0, done: 0, held: vec![None; workers] }
    }

    /// The next item, for a worker that has none; `run` is the number it is asked for with.
    pub(crate) fn hand(&mut self, worker: usize, run: u32) -> Option<u32> {
        let place = self.held.get_mut(worker).filter(|place| place.is_none())?;
        if self.next >= self.total {
            return None;
        }
        *place = Some(Held { run, fraction: 0.0 });
        self.next += 1;
        Some(self.next - 1)
    }

    /// How far a worker is with its item; news of another one is none.
    pub(crate) fn progress(&mut self, worker: usize, run: u32, fraction: f64) {
        if let Some(Some(held)) = self.held.get_mut(worker)
            && held.run == run
        {
            held.fraction = fraction.clamp(0.0, 1.0);
        }
    }

    /// A worker's item has ended; false when it was not that worker's.
    pub(crate) fn ended(&mut self, worker: usize, run: u32) -> bool {
        let Some(place) = self.held.get_mut(worker) else { return false };
        if place.is_none_or(|held| held.run != run) {
            return false;
        }
        *place = None;
        self.done += 1;
        true
    }

    /// This item is some worker's.
    pub(crate) fn has(&self, run: u32) -> bool {
        self.held.iter().flatten().any(|held| held.run == run)
    }

    /// Hands out nothing more and forgets who has what; the numbers of what was under way, by worker.
    pub(crate) fn stop(&mut self) -> Vec<(usize, u32)> {
        self.next = self.total;
        let held = self.held.iter_mut().enumerate();
        held.filter_map(|(worker, place)| Some((worker, place.take()?.run))).collect()
    }

    /// Everything was handed out and has ended.
    pub(crate) fn over(&self) -> bool {
        self.next >= self.total && self.held.iter().all(Option::is_none)
    }

    /// Share of the whole that is done, what is under way included.
    pub(crate) fn share(&self) -> f64 {
        let under_way: f64 = self.held.iter().flatten().map(|held| held.fraction).sum();
        if self.total == 0 { 0.0 } else { (f64::from(self.done) + under_way) / f64::from(self.total) }
    }
}

/// How many workers a batch gets: one for each item up to the cores there are, and no more than `MOST_WORKERS`.
pub(crate) fn workers_for(items: u32, cores: f64) -> usize {
    /// Each is a copy of the simulator: some ten megabytes, and most machines have no more cores that are fast.
    const MOST_WORKERS: u32 = 8;
    let cores = if cores.is_finite() && cores >= 1.0 { cores.min(f64::from(MOST_WORKERS)) as u32 } else { 1 };
    items.clamp(1, cores) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_handed_out_once_and_in_order() {
        let mut queue = Queue::new(5, 2);
        let (mut run, mut handed, mut at) = (0, vec![], [0u32; 2]);
        let mut give = |queue: &mut Queue, worker: usize, at: &mut [u32; 2]| {
            run += 1;
            if let Some(item) = queue.hand(worker, run) {
                handed.push(item);
                at[worker] = run;
            }
        };
        give(&mut queue, 0, &mut at);
        give(&mut queue, 1, &mut at);
        give(&mut queue, 0, &mut at);
        assert!(!queue.over());
        // The second worker is the faster one.
        for worker in [1, 1, 0, 1] {
            assert!(queue.ended(worker, at[worker]));
            give(&mut queue, worker, &mut at);
        }
        assert!(!queue.over() && !queue.ended(1, at[1]) && queue.ended(0, at[0]));
        assert!(queue.over());
        assert_eq!(handed, [0, 1, 2, 3, 4]);
        assert_eq!(queue.share(), 1.0);
    }

    #[test]
    fn news_of_items_that_are_not_there_changes_nothing() {
        let mut queue = Queue::new(3, 1);
        assert_eq!(queue.hand(0, 7), Some(0));
        queue.progress(0, 6, 0.9);
        assert_eq!(queue.share(), 0.0);
        queue.progress(0, 7, 0.5);
        assert!((queue.share() - 1.0 / 6.0).abs() < 1e-12);
        assert!(!queue.ended(0, 6) && !queue.ended(4, 7) && queue.has(7));
        assert_eq!(queue.stop(), [(0, 7)]);
        assert!(queue.over() && !queue.has(7) && !queue.ended(0, 7) && queue.hand(0, 8).is_none());
    }

    #[test]
    fn workers_are_as_many_as_there_are_cores_or_items() {
        let cases =
            [(35, 2.0, 2), (1, 16.0, 1), (3, 16.0, 3), (100, 16.0, 8), (5, 0.0, 1), (5, f64::NAN, 1), (0, 4.0, 1)];
        for (items, cores, workers) in cases {
            assert_eq!(workers_for(items, cores), workers, "{items} on {cores}");
        }
    }
}
