//! Values that are forgotten some time after they were last set: sessions bound to replicas, credits given ahead of events.

use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::hash::KeyMap;
use std::collections::VecDeque;

/// Numbers by key, each forgotten once its time to live has passed since it was last set.
#[derive(Clone, Debug)]
pub(crate) struct Expiring {
    ttl: Nanos,
    values: KeyMap<u64, (Nanos, u32)>,
    /// When each setting runs out, in order; a key that was set again stands there twice.
    queue: VecDeque<(Nanos, u64)>,
}

impl Expiring {
    /// Nothing yet; what is set lives for `ttl`.
    pub(crate) fn new(ttl: Nanos) -> Self {
        Expiring { ttl, values: KeyMap::default(), queue: VecDeque::new() }
    }

    /// Sets `key`, and forgets what has run out by `now`.
    pub(crate) fn set(&mut self, now: Nanos, key: u64, value: u32) {
        self.expire(now);
        let until = Nanos(now.0.saturating_add(self.ttl.0));
        if self.values.insert(key, (until, value)).is_none_or(|(before, _)| before != until) {
            self.queue.push_back((until, key));
        }
    }

    /// The value of `key`, if it has not run out by `now`.
    pub(crate) fn get(&self, now: Nanos, key: u64) -> Option<u32> {
        self.values.get(&key).filter(|&&(until, _)| until > now).map(|&(_, value)| value)
    }

    fn expire(&mut self, now: Nanos) {
        while let Some(&(until, key)) = self.queue.front()
            && until <= now
        {
            self.queue.pop_front();
            if self.values.get(&key).is_some_and(|&(latest, _)| latest <= now) {
                self.values.remove(&key);
            }
        }
    }

    /// What it holds: when each value runs out, its key and itself, in that order.
    pub(crate) fn save(&self) -> Value {
        let latest = self.queue.iter().filter_map(|&(until, key)| {
            let &(latest, value) = self.values.get(&key)?;
            (latest == until).then_some((until, key, value))
        });
        Value::from_iter(latest.map(|(until, key, value)| Value::from(vec![until.0, key, u64::from(value)])))
    }

    /// Takes back what [`Expiring::save`] gave.
    pub(crate) fn restore(&mut self, state: &Value) -> Result<(), String> {
        let saved: Vec<(Nanos, u64, u32)> = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        if !saved.is_sorted_by_key(|&(until, ..)| until) {
            return Err("values run out in another order than they were set".into());
        }
        self.queue = saved.iter().map(|&(until, key, _)| (until, key)).collect();
        self.values = saved.into_iter().map(|(until, key, value)| (key, (until, value))).collect();
        if self.values.len() != self.queue.len() {
            return Err("a key is there twice".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_run_out_and_setting_again_prolongs() {
        let mut map = Expiring::new(Nanos(10));
        map.set(Nanos(0), 1, 7);
        map.set(Nanos(4), 2, 8);
        map.set(Nanos(6), 1, 9);
        assert_eq!((map.get(Nanos(9), 1), map.get(Nanos(9), 2)), (Some(9), Some(8)));
        assert_eq!((map.get(Nanos(14), 1), map.get(Nanos(14), 2)), (Some(9), None), "at its end it is gone");
        let state = map.save();
        let mut again = Expiring::new(Nanos(10));
        again.restore(&state).unwrap();
        assert_eq!(again.save(), state);
        map.set(Nanos(16), 3, 1);
        again.set(Nanos(16), 3, 1);
        assert_eq!((map.get(Nanos(16), 1), map.queue.len()), (None, 1), "what ran out is not kept");
        assert_eq!(again.save(), map.save());
    }

    #[test]
    fn damaged_states_are_refused() {
        let mut map = Expiring::new(Nanos(10));
        for state in ["5", "[[20,1,0],[10,2,0]]", "[[10,1,0],[20,1,0]]", "[[10,1]]"] {
            assert!(map.restore(&serde_json::from_str(state).unwrap()).is_err(), "{state}");
        }
    }
}
