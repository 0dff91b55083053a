//! Things in numbered places that are reused, so that memory follows what is in flight.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// Places that lie together. A slab grows by so many at a time and never moves what it holds: a million clients that come at once cost what
/// they take and not twice as much.
const TOGETHER: usize = 256;

/// A slab. Places are handed out lowest free last in, first out, which is deterministic.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Saved<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct Slab<T> {
    /// All but the last are full.
    groups: Vec<Vec<Option<T>>>,
    vacant: Vec<u32>,
}

/// How it is saved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<T> {
    places: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { groups: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.vacant.pop() {
            Some(place) => {
                if let Some(vacant) = self.place_mut(place) {
                    *vacant = Some(value);
                }
                place
            }
            None => self.push(Some(value)),
        }
    }

    fn push(&mut self, value: Option<T>) -> u32 {
        if self.groups.last().is_none_or(|last| last.len() == TOGETHER) {
            // The first group grows as it is filled: most fleets are small.
            let room = if self.groups.is_empty() { 0 } else { TOGETHER };
            self.groups.push(Vec::with_capacity(room));
        }
        let before = self.groups.len() - 1;
        let last = &mut self.groups[before];
        last.push(value);
        (before * TOGETHER + last.len()) as u32 - 1
    }

    fn place_mut(&mut self, place: u32) -> Option<&mut Option<T>> {
        self.groups.get_mut(place as usize / TOGETHER)?.get_mut(place as usize % TOGETHER)
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.place_mut(place)?.take()?;
        self.vacant.push(place);
        Some(value)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.groups.get(place as usize / TOGETHER)?.get(place as usize % TOGETHER)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.place_mut(place)?.as_mut()
    }

    /// Places, vacant ones among them.
    fn places(&self) -> usize {
        self.groups.last().map_or(0, |last| (self.groups.len() - 1) * TOGETHER + last.len())
    }

    /// Number of things.
    pub(crate) fn len(&self) -> usize {
        self.places() - self.vacant.len()
    }

    /// Things with their places, in order of place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.groups.iter().flatten().enumerate().filter_map(|(place, value)| Some((place as u32, value.as_ref()?)))
    }

    /// Vacant places are exactly the empty ones; what a saved slab must satisfy.
    pub(crate) fn is_sound(&self) -> bool {
        let empty: Vec<bool> = self.groups.iter().flatten().map(Option::is_none).collect();
        let mut seen = vec![false; empty.len()];
        let fits = self.vacant.iter().all(|&place| {
            let place = place as usize;
            empty.get(place) == Some(&true) && !std::mem::replace(&mut seen[place], true)
        });
        fits && empty.iter().filter(|&&empty| empty).count() == self.vacant.len()
    }
}

impl<T> From<Saved<T>> for Slab<T> {
    fn from(saved: Saved<T>) -> Self {
        let mut slab = Slab { vacant: saved.vacant, ..Slab::default() };
        for value in saved.places {
            slab.push(value);
        }
        slab
    }
}

impl<T: Serialize> Serialize for Slab<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// All places in a row.
        struct Places<'a, T>(&'a [Vec<Option<T>>]);

        impl<T: Serialize> Serialize for Places<'_, T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().flatten())
            }
        }

        let mut saved = serializer.serialize_struct("Slab", 2)?;
        saved.serialize_field("places", &Places(&self.groups))?;
        saved.serialize_field("vacant", &self.vacant)?;
        saved.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_reused_last_in_first_out_in_any_group() {
        let mut slab = Slab::default();
        let many = 2 * TOGETHER as u32 + 7;
        assert!((0..many).all(|number| slab.insert(number) == number));
        for place in [3, TOGETHER as u32, many - 1] {
            assert_eq!(slab.remove(place), Some(place));
            assert_eq!((slab.remove(place), slab.get(place)), (None, None));
        }
        assert_eq!((slab.len() as u32, slab.is_sound()), (many - 3, true));
        assert_eq!(
            [slab.insert(0), slab.insert(0), slab.insert(0), slab.insert(0)],
            [many - 1, TOGETHER as u32, 3, many]
        );
        *slab.get_mut(3).unwrap() = 9;
        assert_eq!(slab.iter().filter(|&(place, &value)| place != value).count(), 4, "three places and the new one");
        assert_eq!((slab.get(3), slab.get(many + 1), slab.len() as u32), (Some(&9), None, many + 1));
    }

    #[test]
    fn a_slab_is_saved_as_its_places_in_a_row() {
        let mut slab = Slab::default();
        assert!((0..3).all(|number| slab.insert(number) == number));
        slab.remove(1);
        let text = serde_json::to_string(&slab).unwrap();
        assert_eq!(text, r#"{"places":[0,null,2],"vacant":[1]}"#);
        let back: Slab<u32> = serde_json::from_str(&text).unwrap();
        assert_eq!((serde_json::to_string(&back).unwrap(), back.is_sound()), (text.clone(), true));
        for damaged in [text.replace("[1]", "[0]"), text.replace("[1]", "[1,1]"), text.replace("[1]", "[77]")] {
            assert!(!serde_json::from_str::<Slab<u32>>(&damaged).unwrap().is_sound(), "{damaged}");
        }
        assert!(serde_json::from_str::<Slab<u32>>(&text.replace("vacant", "vacated")).is_err());
    }
}
