//! Lists threaded through numbered places: putting something at the end and taking it out anywhere cost the same and allocate nothing.

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

/// A place's neighbours in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    prev: u32,
    next: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { prev: NONE, next: NONE }
    }
}

/// A list's ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NONE, tail: NONE }
    }
}

impl List {
    pub(crate) fn first(&self) -> Option<u32> {
        Some(self.head).filter(|&head| head != NONE)
    }

    pub(crate) fn last(&self) -> Option<u32> {
        Some(self.tail).filter(|&tail| tail != NONE)
    }

    pub(crate) fn push_back(&mut self, links: &mut [Links], at: u32) {
        links[at as usize] = Links { prev: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = at,
            tail => links[tail as usize].next = at,
        }
        self.tail = at;
    }

    /// `at` is in this list.
    pub(crate) fn remove(&mut self, links: &mut [Links], at: u32) {
        let Links { prev, next } = std::mem::take(&mut links[at as usize]);
        match prev {
            NONE => self.head = next,
            prev => links[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => links[next as usize].prev = prev,
        }
    }

    pub(crate) fn iter<'a>(&self, links: &'a [Links]) -> impl Iterator<Item = u32> + use<'a> {
        std::iter::successors(self.first(), |&at| Some(links[at as usize].next).filter(|&next| next != NONE))
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_vector_would(ops in prop::collection::vec((any::<bool>(), 0u32..12), 0..80)) {
            let mut links = vec![Links::default(); 12];
            let (mut list, mut plain) = (List::default(), Vec::new());
            for (push, at) in ops {
                let there = plain.iter().position(|&other| other == at);
                match (push, there) {
                    (true, None) => {
                        list.push_back(&mut links, at);
                        plain.push(at);
                    }
                    (false, Some(position)) => {
                        list.remove(&mut links, at);
                        plain.remove(position);
                    }
                    _ => {}
                }
                prop_assert_eq!(list.iter(&links).collect::<Vec<_>>(), plain.clone());
                prop_assert_eq!((list.first(), list.last()), (plain.first().copied(), plain.last().copied()));
            }
        }
    }
}
