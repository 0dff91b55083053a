//! Things in numbered places that are reused, so that memory follows what is in flight.

use serde::{Deserialize, Serialize};

/// A slab. Places are handed out lowest free last in, first out, which is deterministic.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.vacant.pop() {
            Some(place) => {
                self.places[place as usize] = Some(value);
                place
            }
            None => {
                self.places.push(Some(value));
                self.places.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.take()?;
        self.vacant.push(place);
        Some(value)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// Number of things.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Things with their places, in order of place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(place, value)| Some((place as u32, value.as_ref()?)))
    }

    /// Vacant places are exactly the empty ones; what a saved slab must satisfy.
    pub(crate) fn is_sound(&self) -> bool {
        let mut seen = vec![false; self.places.len()];
        let fits = self.vacant.iter().all(|&place| {
            let place = place as usize;
            self.places.get(place).is_some_and(Option::is_none) && !std::mem::replace(&mut seen[place], true)
        });
        fits && self.places.iter().filter(|value| value.is_none()).count() == self.vacant.len()
    }
}
