//! A radix tree on characters with many owners: what routers remember of who got which text.
//!
//! All owners share one tree. A node is the text between two places where prompts part, and is owned by everybody who got a text that
//! runs through it, so owners of a node own all nodes above it. Each owner's size is counted in characters and can be cut back, leaves
//! first, those not used for longest first. Two routers keep such trees and differ in what a use is ([`Use`]) and in what they ask:
//! SGLang's (`tree.rs`, smg `kv_index/string_tree.rs`) and Ray Serve's (`prefix_tree.py`).

mod saved;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;

use serde::{Deserialize, Serialize};
use servelab_engine::hash::KeyMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const ROOT: u32 = 0;
/// Replicas of a fleet are fewer; a saved state that names more is damaged.
const MOST_OWNERS: u32 = 1 << 16;

/// What counts as used when a text is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The text's last node. What lies above it is as old as it was, and goes right after it (SGLang).
    End,
    /// Every node on the way (Ray).
    Path,
}

/// The tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct RadixTree {
    /// The root first; it has no text and no owners.
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    /// Node and first character of a child, packed → that child.
    children: KeyMap<u64, u32>,
    /// Characters by owner; `None` for who was never there or was removed.
    sizes: Vec<Option<u64>>,
    /// Counts uses: the order in which things were used, whatever the clock says.
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    text: Box<[u32]>,
    parent: u32,
    children: u32,
    maker: u32,
    /// Ascending.
    owners: Vec<Owned>,
}

#[derive(Clone, Copy, Debug)]
struct Owned {
    owner: u32,
    /// Epoch of its latest use; 0 for a node that was only passed through.
    used: u64,
    /// Children of the node that this owner has too.
    children: u32,
}

/// How far a text runs in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Characters that match.
    pub(crate) chars: u32,
    node: u32,
}

fn slot(node: u32, first: u32) -> u64 {
    u64::from(node) << 32 | u64::from(first)
}

fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Default for RadixTree {
    fn default() -> Self {
        RadixTree {
            nodes: vec![Node::default()],
            vacant: Vec::new(),
            children: KeyMap::default(),
            sizes: Vec::new(),
            epoch: 0,
        }
    }
}

impl RadixTree {
    /// Makes `owner` known, with nothing.
    pub(crate) fn add(&mut self, owner: u32) {
        let at = owner as usize;
        if at >= self.sizes.len() {
            self.sizes.resize(at + 1, None);
        }
        self.sizes[at].get_or_insert(0);
    }

    /// Characters of `owner`; `None` for who is not known.
    pub(crate) fn size(&self, owner: u32) -> Option<u64> {
        self.sizes.get(owner as usize).copied().flatten()
    }

    /// Who is known, ascending.
    pub(crate) fn known(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.sizes).filter_map(|(owner, size)| size.map(|_| owner))
    }

    /// `owner` got `text`.
    pub(crate) fn insert(&mut self, text: &[u32], owner: u32, uses: Use) {
        self.add(owner);
        self.epoch += 1;
        let passed = if uses == Use::Path { Some(self.epoch) } else { None };
        let (mut at, mut rest) = (ROOT, text);
        while let Some(&first) = rest.first() {
            at = match self.children.get(&slot(at, first)) {
                Some(&child) => {
                    let common = shared(&self.nodes[child as usize].text, rest);
                    rest = &rest[common..];
                    if common < self.nodes[child as usize].text.len() { self.split(child, common) } else { child }
                }
                None => {
                    let leaf = Node { text: rest.into(), parent: at, maker: owner, ..Node::default() };
                    rest = &[];
                    self.place(leaf, first)
                }
            };
            self.own(at, owner, passed);
        }
        if at != ROOT {
            self.own(at, owner, Some(self.epoch));
        }
    }

    /// The longest beginning of `text` that anybody of `among` got, or anybody at all.
    pub(crate) fn longest(&self, text: &[u32], among: Option<&[u32]>) -> Found {
        let (mut node, mut chars) = (ROOT, 0);
        while let Some(first) = text.get(chars)
            && let Some(&child) = self.children.get(&slot(node, *first))
        {
            let entered = &self.nodes[child as usize];
            if among.is_some_and(|among| !entered.owners.iter().any(|owned| among.binary_search(&owned.owner).is_ok()))
            {
                break;
            }
            let common = shared(&entered.text, &text[chars..]);
            (node, chars) = (child, chars + common);
            if common < entered.text.len() {
                break;
            }
        }
        Found { chars: chars as u32, node }
    }

    /// Who got what was found, ascending; nobody where nothing was.
    pub(crate) fn owners(&self, found: Found) -> impl Iterator<Item = u32> + '_ {
        self.nodes[found.node as usize].owners.iter().map(|owned| owned.owner)
    }

    /// The one that what was found is put down to: whoever was first to get it, and when that one has it no more the lowest of those who
    /// have, from then on.
    pub(crate) fn maker(&mut self, found: Found) -> Option<u32> {
        let node = &mut self.nodes[found.node as usize];
        let lowest = node.owners.first()?.owner;
        if node.owners.binary_search_by_key(&node.maker, |owned| owned.owner).is_err() {
            node.maker = lowest;
        }
        Some(node.maker)
    }

    /// The one that used what was found last; of equals the lowest.
    pub(crate) fn latest(&self, found: Found) -> Option<u32> {
        let owners = &self.nodes[found.node as usize].owners;
        owners.iter().rev().max_by_key(|owned| owned.used).map(|owned| owned.owner)
    }

    /// Counts a look-up as an epoch; every eighth counts as a use of what was found by `owner`.
    pub(crate) fn touch(&mut self, found: Found, owner: u32) {
        self.epoch += 1;
        let owners = &mut self.nodes[found.node as usize].owners;
        if self.epoch.is_multiple_of(8)
            && let Ok(at) = owners.binary_search_by_key(&owner, |owned| owned.owner)
        {
            owners[at].used = self.epoch;
        }
    }

    /// Takes leaves from everybody who has more than `limit` characters, those not used for longest first, until they have no more
    /// than that.
    pub(crate) fn cut_back(&mut self, limit: u64) {
        let over = |size: &Option<u64>| size.is_some_and(|size| size > limit);
        if !self.sizes.iter().any(over) {
            return;
        }
        let mut leaves = BinaryHeap::new();
        for (node, entry) in (0u32..).zip(&self.nodes) {
            for owned in entry.owners.iter().filter(|owned| owned.children == 0) {
                if over(&self.sizes[owned.owner as usize]) {
                    leaves.push(Reverse((owned.used, node, owned.owner)));
                }
            }
        }
        while let Some(Reverse((_, node, owner))) = leaves.pop() {
            if over(&self.sizes[owner as usize]) {
                leaves.extend(self.disown(node, owner).map(|(used, node)| Reverse((used, node, owner))));
            }
        }
    }

    /// Takes leaves from `owner`, those not used for longest first, until at least `chars` characters are gone; what was used at one
    /// time goes together.
    pub(crate) fn take(&mut self, owner: u32, chars: u64) {
        let keep = self.size(owner).unwrap_or(0).saturating_sub(chars);
        let mut leaves: BinaryHeap<_> = self.leaves(owner).map(Reverse).collect();
        let mut latest = None;
        while let Some(Reverse((used, node))) = leaves.pop() {
            if self.size(owner).unwrap_or(0) <= keep && latest != Some(used) {
                return;
            }
            latest = Some(used);
            leaves.extend(self.disown(node, owner).map(Reverse));
        }
    }

    /// Forgets `owner` and all it got.
    pub(crate) fn remove(&mut self, owner: u32) {
        let leaves: Vec<_> = self.leaves(owner).collect();
        for (_, mut node) in leaves {
            while let Some((_, parent)) = self.disown(node, owner) {
                node = parent;
            }
        }
        if let Some(size) = self.sizes.get_mut(owner as usize) {
            *size = None;
        }
    }

    /// Nodes of `owner` below which it has none, each with its latest use.
    fn leaves(&self, owner: u32) -> impl Iterator<Item = (u64, u32)> + '_ {
        (0u32..).zip(&self.nodes).filter_map(move |(node, entry)| {
            let at = entry.owners.binary_search_by_key(&owner, |owned| owned.owner).ok()?;
            let owned = entry.owners[at];
            (owned.children == 0).then_some((owned.used, node))
        })
    }

    /// `owner` has `node`, if it did not, and used it at `used`.
    fn own(&mut self, node: u32, owner: u32, used: Option<u64>) {
        let entry = &mut self.nodes[node as usize];
        match entry.owners.binary_search_by_key(&owner, |owned| owned.owner) {
            Ok(at) => entry.owners[at].used = used.unwrap_or(entry.owners[at].used),
            Err(at) => {
                entry.owners.insert(at, Owned { owner, used: used.unwrap_or(0), children: 0 });
                let (len, parent) = (entry.text.len() as u64, entry.parent);
                *self.sizes[owner as usize].get_or_insert(0) += len;
                self.count_child(parent, owner, 1);
            }
        }
    }

    /// Takes the leaf `node` from `owner`, and answers with its parent and that one's latest use if it is now a leaf.
    fn disown(&mut self, node: u32, owner: u32) -> Option<(u64, u32)> {
        let entry = &mut self.nodes[node as usize];
        let at = entry.owners.binary_search_by_key(&owner, |owned| owned.owner).ok()?;
        debug_assert_eq!(entry.owners[at].children, 0, "not a leaf");
        entry.owners.remove(at);
        let (len, parent) = (entry.text.len() as u64, entry.parent);
        if entry.owners.is_empty() {
            let first = std::mem::take(entry).text.first().copied().unwrap_or(0);
            self.children.remove(&slot(parent, first));
            self.nodes[parent as usize].children -= 1;
            self.vacant.push(node);
        }
        if let Some(Some(size)) = self.sizes.get_mut(owner as usize) {
            *size -= len;
        }
        self.count_child(parent, owner, -1).filter(|owned| owned.children == 0).map(|owned| (owned.used, parent))
    }

    /// `owner` has one child more or less under `parent`, and is found there unless that is the root.
    fn count_child(&mut self, parent: u32, owner: u32, change: i32) -> Option<Owned> {
        let owners = &mut self.nodes[parent as usize].owners;
        let at = owners.binary_search_by_key(&owner, |owned| owned.owner).ok()?;
        owners[at].children = owners[at].children.saturating_add_signed(change);
        Some(owners[at])
    }

    /// Cuts `node` after `chars` characters; answers with the upper part, a new node.
    fn split(&mut self, node: u32, chars: usize) -> u32 {
        let entry = &mut self.nodes[node as usize];
        let (upper, lower) = (Box::from(&entry.text[..chars]), Box::from(&entry.text[chars..]));
        let first = entry.text[0];
        let owners = entry.owners.iter().map(|owned| Owned { children: 1, ..*owned }).collect();
        let upper = Node { text: upper, parent: entry.parent, children: 1, maker: entry.maker, owners };
        entry.text = lower;
        let next = entry.text[0];
        self.nodes[upper.parent as usize].children -= 1;
        let upper = self.place(upper, first);
        self.nodes[node as usize].parent = upper;
        self.children.insert(slot(upper, next), node);
        upper
    }

    /// Puts a new node under its parent.
    fn place(&mut self, node: Node, first: u32) -> u32 {
        let parent = node.parent;
        let place = match self.vacant.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.children.insert(slot(parent, first), place);
        self.nodes[parent as usize].children += 1;
        place
    }
}
