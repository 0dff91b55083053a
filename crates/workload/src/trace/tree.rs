//! The prefix tree of a trace's block keys.
//!
//! A node is a block with everything before it. Whether a file's ids name whole prefixes (Mooncake's do) or contents only makes no difference: an
//! id is looked up under its parent. A request keeps its last node, so a prompt of any length costs four bytes and its new blocks.

use servelab_engine::hash::KeyMap;
use servelab_engine::random::mix;

/// No node: the place above all first blocks.
const ROOT: u32 = u32::MAX;

/// Salts the names of first blocks.
const ROOT_KEY: u64 = 0x726f_6f74;

/// Nodes by number. A node's parent has a smaller number.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    parents: Vec<u32>,
    keys: Vec<u64>,
    /// More than one request has it.
    shared: Vec<bool>,
}

/// What finds a node while a file is read; dropped after it.
#[derive(Debug, Default)]
pub(super) struct Growing {
    tree: Tree,
    children: KeyMap<(u32, u64), u32>,
}

impl Growing {
    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    /// The node of these blocks; new ones are added. `None` when there are none.
    pub(super) fn intern(&mut self, ids: &[u64]) -> Option<u32> {
        let mut at = ROOT;
        for &id in ids {
            at = match self.children.get(&(at, id)) {
                Some(&node) => {
                    self.tree.shared[node as usize] = true;
                    node
                }
                None => {
                    let node = self.tree.parents.len() as u32;
                    let above = self.tree.keys.get(at as usize).copied().unwrap_or(ROOT_KEY);
                    self.tree.parents.push(at);
                    self.tree.keys.push(mix(above, id));
                    self.tree.shared.push(false);
                    self.children.insert((at, id), node);
                    node
                }
            };
        }
        (at != ROOT).then_some(at)
    }

    pub(super) fn done(self) -> Tree {
        self.tree
    }
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn shared_len(&self) -> usize {
        self.shared.iter().filter(|&&shared| shared).count()
    }

    /// Name of a node: a function of all ids down to it.
    pub(super) fn key(&self, node: u32) -> u64 {
        self.keys.get(node as usize).copied().unwrap_or(0)
    }

    /// The nodes from a first block down to `node`, into `out`.
    pub(super) fn nodes(&self, node: u32, out: &mut Vec<u32>) {
        out.clear();
        let mut at = node;
        while let Some(&parent) = self.parents.get(at as usize) {
            out.push(at);
            at = parent;
        }
        out.reverse();
    }

    /// Names of the nodes from a first block down to `node`, appended to `out`.
    pub(super) fn path(&self, node: u32, out: &mut Vec<u64>) {
        self.walk(node, out, |tree, at| tree.key(at));
    }

    /// The same; nodes that only one request has bear a name that `salt` changes.
    pub(super) fn salted_path(&self, node: u32, salt: u64, out: &mut Vec<u64>) {
        self.walk(node, out, |tree, at| {
            let shared = tree.shared.get(at as usize).copied().unwrap_or(false);
            if shared { tree.key(at) } else { mix(tree.key(at), salt) }
        });
    }

    fn walk(&self, node: u32, out: &mut Vec<u64>, name: impl Fn(&Tree, u32) -> u64) {
        let begin = out.len();
        let mut at = node;
        while let Some(&parent) = self.parents.get(at as usize) {
            out.push(name(self, at));
            at = parent;
        }
        out[begin..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_interned_once() {
        let mut growing = Growing::default();
        assert_eq!(growing.intern(&[]), None);
        let (long, short) = (growing.intern(&[7, 8, 9]), growing.intern(&[7, 8]));
        let other = growing.intern(&[8, 9]);
        assert_eq!(growing.len(), 5, "7, 7 8, 7 8 9, 8, 8 9");
        let tree = growing.done();
        let path = |node: Option<u32>| {
            let mut out = vec![];
            tree.path(node.unwrap_or(ROOT), &mut out);
            out
        };
        assert_eq!((path(long).len(), path(short).len()), (3, 2));
        assert_eq!(path(long)[..2], path(short)[..]);
        // The same id under another parent is another block.
        assert!(path(other).iter().all(|key| !path(long).contains(key)));
        assert_eq!(tree.shared_len(), 2);
        let mut salted = vec![];
        tree.salted_path(long.unwrap_or(ROOT), 5, &mut salted);
        assert_eq!(salted[..2], path(short)[..]);
        assert_ne!(salted[2], path(long)[2]);
    }
}
