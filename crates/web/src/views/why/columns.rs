//! Which replicas the strip has columns for.

use servelab_spec::protocol::RequestStory;

/// More replicas than this, and only those that matter have a column.
const MOST_COLUMNS: usize = 12;
/// Of those that matter: so many by what they have cached, and so many by how little they have to do.
const BEST: usize = 3;

/// The replicas shown, ascending, and how many are left out: all of them up to twelve; beyond that the one that was chosen, the three that
/// had most of the prompt cached and the three with the least in flight.
pub(super) fn columns(story: &RequestStory) -> (Vec<u32>, usize) {
    let all = story.offers.len();
    if all <= MOST_COLUMNS {
        return ((0..all as u32).collect(), 0);
    }
    let candidates = || story.offers.iter().enumerate().filter(|(_, offer)| offer.candidate);
    let mut warmest: Vec<usize> = candidates().filter(|(_, offer)| offer.cached_tokens > 0).map(|(at, _)| at).collect();
    warmest.sort_by_key(|&at| std::cmp::Reverse(story.offers[at].cached_tokens));
    let mut idlest: Vec<usize> = candidates().map(|(at, _)| at).collect();
    idlest.sort_by_key(|&at| (story.offers[at].tokens, story.offers[at].requests));
    let mut shown: Vec<u32> =
        warmest.into_iter().take(BEST).chain(idlest.into_iter().take(BEST)).map(|at| at as u32).collect();
    shown.extend(story.replica.filter(|&chosen| (chosen as usize) < all));
    shown.sort_unstable();
    shown.dedup();
    let hidden = all - shown.len();
    (shown, hidden)
}

/// The candidate that had most of the prompt cached, when that is more than the chosen one had.
pub(super) fn warmer(story: &RequestStory) -> Option<(u32, u32)> {
    let chosen = story.offers.get(story.replica? as usize)?.cached_tokens;
    let warmer = story.offers.iter().enumerate().filter(|(_, offer)| offer.candidate && offer.cached_tokens > chosen);
    // Of equals the first.
    let (at, offer) = warmer.rev().max_by_key(|(_, offer)| offer.cached_tokens)?;
    Some((at as u32, offer.cached_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_spec::protocol::Offer;

    fn story(replica: u32, offers: impl IntoIterator<Item = (u32, u64)>) -> RequestStory {
        let offers = offers
            .into_iter()
            .map(|(cached_tokens, tokens)| Offer { candidate: true, cached_tokens, requests: 1, tokens })
            .collect();
        RequestStory { replica: Some(replica), offers, ..RequestStory::default() }
    }

    #[test]
    fn a_small_fleet_is_shown_whole() {
        assert_eq!(columns(&story(2, [(0, 5); 4])), (vec![0, 1, 2, 3], 0));
        assert_eq!(columns(&story(2, [(0, 5); 12])).0.len(), 12);
    }

    #[test]
    fn of_a_large_fleet_the_chosen_the_warmest_and_the_idlest_are_shown() {
        // Replica 19 was chosen; 3, 7, 11 and 15 hold some of the prompt, 15 most; the higher the index the less there is to do.
        let mut of = story(19, (0..20).map(|at| (if at % 4 == 3 { at * 10 } else { 0 }, 100 - u64::from(at))));
        assert_eq!(columns(&of), (vec![11, 15, 17, 18, 19], 15));
        // One that could not be chosen is neither warm nor idle.
        of.offers[18].candidate = false;
        assert_eq!(columns(&of), (vec![11, 15, 16, 17, 19], 15));
    }

    #[test]
    fn the_warmer_replica_is_named_only_if_there_is_one() {
        assert_eq!(warmer(&story(0, [(64, 0), (128, 0), (256, 0), (256, 0)])), Some((2, 256)));
        assert_eq!(warmer(&story(2, [(64, 0), (128, 0), (256, 0)])), None);
        assert_eq!(warmer(&RequestStory::default()), None);
    }
}
