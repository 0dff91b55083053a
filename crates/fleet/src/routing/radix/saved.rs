//! A saved tree: its nodes by place, children and counts left out because they follow.

use super::super::packed::{Packed, Unpack};
use super::{MOST_OWNERS, Node, Owned, ROOT, RadixTree, slot};
use servelab_engine::hash::KeyMap;

/// Epoch; sizes, 0 for unknown and else one more; nodes from place 1 on (owners and their latest uses, none for a vacant place; then
/// parent, maker and text); vacant places.
impl From<RadixTree> for String {
    fn from(tree: RadixTree) -> Self {
        let mut packed = Packed::default();
        packed.put(tree.epoch);
        packed.put_all(tree.sizes.iter().map(|size| size.map_or(0, |size| size + 1)));
        packed.put(tree.nodes.len() as u64 - 1);
        for node in &tree.nodes[1..] {
            packed.put(node.owners.len() as u64);
            for owned in &node.owners {
                packed.put(owned.owner.into());
                packed.put(owned.used);
            }
            if !node.owners.is_empty() {
                packed.put(node.parent.into());
                packed.put(node.maker.into());
                packed.put_all(node.text.iter().map(|&character| character.into()));
            }
        }
        packed.put_all(tree.vacant.iter().map(|&place| place.into()));
        packed.finish()
    }
}

impl TryFrom<String> for RadixTree {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut saved = Unpack::new(&text);
        let epoch = saved.take()?;
        let sizes = saved.take_all(|saved| Ok(saved.take()?.checked_sub(1)))?;
        let mut nodes = vec![Node::default()];
        nodes.extend(saved.take_all(node)?);
        let vacant = saved.take_all(Unpack::take_u32)?;
        saved.end()?;
        if sizes.len() > MOST_OWNERS as usize {
            return Err(format!("{} owners of a prefix tree are too many", sizes.len()));
        }
        let free = (0u32..).zip(&nodes).skip(1).filter(|(_, node)| node.owners.is_empty()).map(|(at, _)| at);
        let mut told = vacant.clone();
        told.sort();
        if !free.eq(told) {
            return Err("vacant places of a prefix tree are not those without a node".into());
        }
        let mut tree = RadixTree { nodes, vacant, children: KeyMap::default(), sizes, epoch };
        tree.link()?;
        Ok(tree)
    }
}

fn node(saved: &mut Unpack<'_>) -> Result<Node, String> {
    let owners = saved.take_all(|saved| Ok(Owned { owner: saved.take_u32()?, used: saved.take()?, children: 0 }))?;
    if owners.is_empty() {
        return Ok(Node::default());
    }
    let (parent, maker) = (saved.take_u32()?, saved.take_u32()?);
    let text = saved.take_all(Unpack::take_u32)?.into();
    Ok(Node { text, parent, children: 0, maker, owners })
}

impl RadixTree {
    /// Finds children and counts anew, and checks everything that the tree relies on.
    fn link(&mut self) -> Result<(), String> {
        let damaged = |node: u32, what: &str| Err(format!("node {node} of a prefix tree {what}"));
        let mut sizes: Vec<Option<u64>> = self.sizes.iter().map(|size| size.map(|_| 0)).collect();
        for node in 1..self.nodes.len() as u32 {
            let entry = &self.nodes[node as usize];
            if entry.owners.is_empty() {
                continue;
            }
            let (parent, owners): (u32, Vec<u32>) =
                (entry.parent, entry.owners.iter().map(|owned| owned.owner).collect());
            let Some(&first) = entry.text.first() else { return damaged(node, "has no text") };
            let alive = |at: u32| self.nodes.get(at as usize).is_some_and(|node| at == ROOT || !node.owners.is_empty());
            if !alive(parent) {
                return damaged(node, "hangs on nothing");
            }
            if !owners.is_sorted_by(|a, b| a < b) || entry.owners.iter().any(|owned| owned.used > self.epoch) {
                return damaged(node, "has owners out of order, or used later than now");
            }
            for &owner in &owners {
                let Some(Some(size)) = sizes.get_mut(owner as usize) else {
                    return damaged(node, "has an unknown owner");
                };
                *size += entry.text.len() as u64;
            }
            if self.children.insert(slot(parent, first), node).is_some() {
                return damaged(node, "begins like one beside it");
            }
            self.nodes[parent as usize].children += 1;
            for owner in owners {
                if parent != ROOT && self.count_child(parent, owner, 1).is_none() {
                    return damaged(node, "belongs to somebody who lacks what stands before it");
                }
            }
        }
        if sizes != self.sizes {
            return Err("sizes of a prefix tree are not those of its texts".into());
        }
        self.rooted()
    }

    /// Every node can be reached from the root: no node hangs in a ring.
    fn rooted(&self) -> Result<(), String> {
        let mut reached = vec![false; self.nodes.len()];
        reached[ROOT as usize] = true;
        let mut way = Vec::new();
        for node in (1..self.nodes.len() as u32).filter(|&node| !self.nodes[node as usize].owners.is_empty()) {
            let mut at = node;
            while !reached[at as usize] && way.len() <= self.nodes.len() {
                way.push(at);
                at = self.nodes[at as usize].parent;
            }
            if !reached[at as usize] {
                return Err(format!("node {node} of a prefix tree hangs in a ring"));
            }
            way.drain(..).for_each(|at| reached[at as usize] = true);
        }
        Ok(())
    }
}
