#![allow(clippy::unwrap_used)]
use super::super::packed::Packed;
use super::*;
use proptest::prelude::*;

fn chars(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

fn grown(texts: &[(&str, u32)], uses: Use) -> RadixTree {
    let mut tree = RadixTree::default();
    texts.iter().for_each(|&(text, owner)| tree.insert(&chars(text), owner, uses));
    tree
}

fn reloaded(tree: &RadixTree) -> RadixTree {
    let text = serde_json::to_string(tree).unwrap();
    let again: RadixTree = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    again
}

fn match_of(tree: &RadixTree, text: &str) -> (u32, Vec<u32>) {
    let found = tree.longest(&chars(text), None);
    (found.chars, tree.owners(found).collect())
}

/// What a list that is searched knows: who got a text that begins with at least `chars` characters of this one.
fn naive(list: &[(Vec<u32>, u32)], text: &[u32], among: &[u32]) -> (usize, Vec<u32>) {
    let of = |owner: u32| list.iter().filter(move |(_, by)| *by == owner).map(|(other, _)| shared(other, text)).max();
    let longest = among.iter().filter_map(|&owner| of(owner)).max().unwrap_or(0);
    let owners = (0..8).filter(|&owner| longest > 0 && of(owner).is_some_and(|chars| chars >= longest)).collect();
    (longest, owners)
}

/// Distinct beginnings of an owner's texts: what its part of any prefix tree holds.
fn naive_size(list: &[(Vec<u32>, u32)], owner: u32) -> u64 {
    let mut beginnings: Vec<&[u32]> = Vec::new();
    for (text, _) in list.iter().filter(|(_, by)| *by == owner) {
        beginnings.extend((1..=text.len()).map(|chars| &text[..chars]));
    }
    beginnings.sort();
    beginnings.dedup();
    beginnings.len() as u64
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u32>, u32, bool),
    Remove(u32),
    CutBack(u64),
    Take(u32, u64),
}

fn texts() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..3, 0..9)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (texts(), 0u32..4, any::<bool>()).prop_map(|(text, owner, path)| Step::Insert(text, owner, path)),
        1 => (0u32..4).prop_map(Step::Remove),
        1 => (0u64..20).prop_map(Step::CutBack),
        1 => (0u32..4, 0u64..20).prop_map(|(owner, chars)| Step::Take(owner, chars)),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]
    /// Against the list of everything inserted and not removed.
    #[test]
    fn finds_what_a_list_finds(
        inserts in prop::collection::vec((texts(), 0u32..4, 0u32..6), 0..40), asked in texts(), path: bool,
    ) {
        let (mut tree, mut list) = (RadixTree::default(), Vec::<(Vec<u32>, u32)>::new());
        for (text, owner, remove) in inserts {
            tree.insert(&text, owner, if path { Use::Path } else { Use::End });
            list.push((text, owner));
            if remove < 4 && remove != owner {
                tree.remove(remove);
                list.retain(|(_, owner)| *owner != remove);
                prop_assert_eq!(tree.size(remove), None);
            }
            let found = tree.longest(&asked, None);
            let (chars, owners) = naive(&list, &asked, &[0, 1, 2, 3]);
            prop_assert_eq!((found.chars as usize, tree.owners(found).collect::<Vec<_>>()), (chars, owners));
            // Among some: the others' texts do not lengthen the match.
            let found = tree.longest(&asked, Some(&[1, 3]));
            let (chars, _) = naive(&list, &asked, &[1, 3]);
            prop_assert_eq!(found.chars as usize, chars);
            prop_assert!(chars == 0 || tree.owners(found).any(|owner| owner == 1 || owner == 3));
            for owner in 0..4 {
                prop_assert_eq!(tree.size(owner).unwrap_or(0), naive_size(&list, owner));
            }
            tree = reloaded(&tree);
        }
    }

    /// Whatever is done to it, a tree is one that a restore accepts: sizes add up, owners own all that stands before.
    #[test]
    fn stays_sound(steps in steps()) {
        let mut tree = RadixTree::default();
        for step in steps {
            match step {
                Step::Insert(text, owner, path) => {
                    tree.insert(&text, owner, if path { Use::Path } else { Use::End });
                    let found = tree.longest(&text, Some(&[owner]));
                    prop_assert_eq!(found.chars as usize, text.len());
                }
                Step::Remove(owner) => tree.remove(owner),
                Step::CutBack(limit) => {
                    tree.cut_back(limit);
                    prop_assert!((0..4).all(|owner| tree.size(owner).unwrap_or(0) <= limit));
                }
                Step::Take(owner, chars) => {
                    let before = tree.size(owner).unwrap_or(0);
                    tree.take(owner, chars);
                    prop_assert!(tree.size(owner).unwrap_or(0) <= before.saturating_sub(chars));
                }
            }
            tree = reloaded(&tree);
        }
    }

    /// What was inserted last stays whole as long as it fits.
    #[test]
    fn the_newest_goes_last(inserts in prop::collection::vec(texts(), 1..30), path: bool, limit in 8u64..20) {
        let mut tree = RadixTree::default();
        inserts.iter().for_each(|text| tree.insert(text, 0, if path { Use::Path } else { Use::End }));
        tree.cut_back(limit);
        let newest = inserts.last().unwrap();
        prop_assert_eq!(tree.longest(newest, None).chars as usize, newest.len());
    }
}

#[test]
fn texts_part_where_they_differ() {
    let mut tree = grown(&[("helloworld", 1), ("hellothere", 2), ("hellothomas", 2)], Use::End);
    assert_eq!(match_of(&tree, "hello"), (5, vec![1, 2]));
    assert_eq!(match_of(&tree, "hellothermos"), (9, vec![2]));
    assert_eq!(match_of(&tree, "jello"), (0, vec![]));
    assert_eq!((tree.size(1), tree.size(2), tree.size(0)), (Some(10), Some(14), None));
    // Put down to whoever made it: 1 made what became hello.
    let hello = tree.longest(&chars("hello"), None);
    assert_eq!((tree.maker(hello), tree.latest(hello)), (Some(1), Some(1)), "2 only passed through");
    tree.insert(&chars("hello"), 2, Use::End);
    assert_eq!((tree.maker(hello), tree.latest(hello)), (Some(1), Some(2)));
    tree.remove(1);
    assert_eq!(tree.maker(hello), Some(2));
    tree.insert(&chars("hello"), 1, Use::End);
    assert_eq!(tree.maker(hello), Some(2), "from then on");
}

/// By hand. Uses of owner 0: abc 1, abd 2, xy 3, abc 4. Nodes: ab (the split keeps use 1), c 4, d 2, xy 3.
#[test]
fn leaves_go_first_and_the_oldest_of_them() {
    let texts = [("abc", 0), ("abd", 0), ("xy", 0), ("abc", 0)];
    for (limit, left) in [(6, ["abc", "abd", "xy"].as_slice()), (5, &["abc", "xy"]), (4, &["abc"]), (2, &[]), (0, &[])]
    {
        let mut tree = grown(&texts, Use::End);
        assert_eq!(tree.size(0), Some(6));
        tree.cut_back(limit);
        for text in ["abc", "abd", "xy"] {
            let whole = tree.longest(&chars(text), None).chars as usize == text.len();
            assert_eq!(whole, left.contains(&text), "{text} at {limit}");
        }
    }
    // At 2, c is the last to go and ab, as old as it was, would be next: 2 is enough.
    let mut tree = grown(&texts, Use::End);
    tree.cut_back(2);
    assert_eq!(match_of(&tree, "abc"), (2, vec![0]));
    // Only who is over the limit loses.
    let mut tree = grown(&[("aaaa", 0), ("aa", 1)], Use::End);
    tree.cut_back(2);
    assert_eq!(match_of(&tree, "aaaa"), (2, vec![0, 1]));
}

/// Ray's way: the whole path is used, and what was used at one time goes together.
#[test]
fn one_time_goes_together() {
    let mut tree = grown(&[("abcd", 0), ("abxy", 0), ("q", 0)], Use::Path);
    // cd 1; ab and xy 2; q 3. One character is asked for, cd goes whole.
    tree.take(0, 1);
    assert_eq!(tree.size(0), Some(5));
    assert_eq!(match_of(&tree, "abcd").0, 2);
    // Next, ab and xy go together though xy would do.
    tree.take(0, 1);
    assert_eq!((tree.size(0), match_of(&tree, "abxy").0), (Some(1), 0));
}

/// Every eighth epoch of inserts and look-ups together.
#[test]
fn every_eighth_look_up_is_a_use() {
    let mut tree = grown(&[("a", 0), ("b", 0)], Use::End);
    let a = tree.longest(&chars("a"), None);
    // Epochs 3 to 7: nothing. At 8 it is a use, and b becomes the oldest.
    (0..5).for_each(|_| tree.touch(a, 0));
    let mut early = tree.clone();
    early.cut_back(1);
    assert_eq!(match_of(&early, "a").0, 0);
    tree.touch(a, 0);
    tree.cut_back(1);
    assert_eq!((match_of(&tree, "a").0, match_of(&tree, "b").0), (1, 0));
}

#[test]
fn damage_is_refused() {
    let tree = grown(&[("abc", 0), ("abd", 1), ("xy", 0)], Use::End);
    // Each on a line: owners and uses, parent, maker, text.
    let sound = [
        vec![3, 2, 6, 4, 4],
        vec![1, 0, 1, 2, 0, 1, 99],
        vec![2, 0, 1, 1, 0, 0, 0, 2, 97, 98],
        vec![1, 1, 2, 2, 1, 1, 100],
        vec![1, 0, 3, 0, 0, 2, 120, 121],
        vec![0],
    ];
    let packed = |lines: &[Vec<u64>]| {
        let mut packed = Packed::default();
        lines.iter().flatten().for_each(|&number| packed.put(number));
        packed.finish()
    };
    assert_eq!(String::from(tree), packed(&sound));
    for (line, damaged, why) in [
        (3, vec![1, 1, 2, 9, 1, 1, 100], "hangs on nothing"),
        (2, vec![2, 0, 1, 1, 0, 2, 0, 2, 97, 98], "ring"),
        (3, vec![1, 1, 2, 2, 1, 0], "no text"),
        (3, vec![1, 1, 2, 2, 1, 1, 99], "begins like"),
        (3, vec![1, 0, 2, 2, 1, 1, 100], "sizes"),
        (3, vec![1, 7, 2, 2, 1, 1, 100], "unknown owner"),
        (3, vec![1, 1, 9, 2, 1, 1, 100], "later than now"),
        (2, vec![2, 1, 0, 0, 1, 0, 0, 2, 97, 98], "out of order"),
        (2, vec![1, 0, 1, 0, 0, 2, 97, 98], "lacks"),
        (5, vec![1, 3], "vacant"),
        (0, vec![3, 2, 6, 5, 4], "sizes"),
        (5, vec![], "early"),
        (5, vec![0, 0], "go on"),
    ] {
        let mut lines = sound.clone();
        lines[line] = damaged;
        let error = RadixTree::try_from(packed(&lines)).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
}
