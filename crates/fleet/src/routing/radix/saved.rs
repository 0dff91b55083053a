//! A saved tree: its nodes by place, children and counts left out because they follow.

use super::{MOST_OWNERS, Node, Owned, ROOT, RadixTree, slot};
use serde::{Deserialize, Serialize};
use servelab_engine::hash::KeyMap;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    epoch: u64,
    sizes: Vec<Option<u64>>,
    /// From place 1 on, the root is not among them; `None` where a place is vacant.
    nodes: Vec<Option<SavedNode>>,
    vacant: Vec<u32>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedNode {
    text: Box<[u32]>,
    parent: u32,
    maker: u32,
    /// Owner and its latest use.
    owners: Vec<(u32, u64)>,
}

impl From<RadixTree> for Saved {
    fn from(tree: RadixTree) -> Self {
        let RadixTree { nodes, vacant, sizes, epoch, .. } = tree;
        let nodes = nodes.into_iter().skip(1).map(|Node { text, parent, maker, owners, .. }| {
            let owners: Vec<(u32, u64)> = owners.iter().map(|owned| (owned.owner, owned.used)).collect();
            (!owners.is_empty()).then_some(SavedNode { text, parent, maker, owners })
        });
        Saved { epoch, sizes, nodes: nodes.collect(), vacant }
    }
}

impl TryFrom<Saved> for RadixTree {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { epoch, sizes, nodes, vacant } = saved;
        if sizes.len() > MOST_OWNERS as usize {
            return Err(format!("{} owners of a prefix tree are too many", sizes.len()));
        }
        let mut free: Vec<u32> = (1u32..).zip(&nodes).filter(|(_, node)| node.is_none()).map(|(at, _)| at).collect();
        let mut told = vacant.clone();
        free.sort();
        told.sort();
        if free != told {
            return Err("vacant places of a prefix tree are not those without a node".into());
        }
        let mut tree = RadixTree { nodes: vec![Node::default()], vacant, children: KeyMap::default(), sizes, epoch };
        tree.nodes.extend(nodes.into_iter().map(|node| match node {
            None => Node::default(),
            Some(SavedNode { text, parent, maker, owners }) => {
                let owners = owners.into_iter().map(|(owner, used)| Owned { owner, used, children: 0 }).collect();
                Node { text, parent, children: 0, maker, owners }
            }
        }));
        tree.link()?;
        Ok(tree)
    }
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
