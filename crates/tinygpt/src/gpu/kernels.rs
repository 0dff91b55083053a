//! The kernels, one launch each.
//!
//! All floats are f32 and move as groups of four ([`Four`]), which is what a GPU loads at once; so every width is a
//! multiple of four. Matrices are row-major `[in, out]`: neighbouring units read neighbouring columns. Kernels are
//! launched without the runtime's bounds checks: they guard their own edges, a plan that points elsewhere is refused when the
//! [batch](crate::batch) is filled, and a browser clamps every access anyway.

mod attend;
mod embed;
mod project;
mod rope;

pub use attend::Attention;
pub use embed::{embed, pack};
pub use project::{Fuse, Projection};
pub use rope::Rope;

use super::step::{ROWS, SAMPLED_AT, SAMPLES, encode};
use crate::batch::Batch;
use cubecl::prelude::*;

/// Four neighbouring floats.
pub(crate) type Four = Vector<f32, Const<4>>;

/// Which rows of the step a launch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// All, in place.
    All,
    /// The sampled ones, read from where they are among all, written one after the other.
    Sampled,
    /// The sampled ones, read and written one after the other.
    Packed,
}

impl Rows {
    /// As kernels are told.
    fn code(self) -> u32 {
        match self {
            Rows::All => ALL,
            Rows::Sampled => SAMPLED,
            Rows::Packed => PACKED,
        }
    }
}

const ALL: u32 = 0;
const SAMPLED: u32 = 1;
const PACKED: u32 = 2;

/// How many rows there are.
#[cube]
fn row_count(step: &[u32], rows: u32) -> usize {
    let mut count = step[SAMPLES];
    if rows == ALL {
        count = step[ROWS];
    }
    count as usize
}

/// Where a row is read.
#[cube]
fn row_of(step: &[u32], row: usize, rows: u32) -> usize {
    let mut at = row;
    if rows == SAMPLED {
        at = step[step[SAMPLED_AT] as usize + row] as usize;
    }
    at
}

/// A buffer on the device, of f32 or u32.
#[derive(Clone, Debug)]
pub struct Buffer {
    handle: cubecl::server::Handle,
    len: usize,
}

impl Buffer {
    /// Room for `len` words, content undefined.
    pub fn empty(client: &Client, len: usize) -> Self {
        Buffer { handle: client.empty(len * size_of::<f32>()), len }
    }

    /// A copy of host words.
    pub fn floats(client: &Client, values: &[f32]) -> Self {
        Buffer { handle: client.create_from_slice(f32::as_bytes(values)), len: values.len() }
    }

    /// A copy of host words.
    pub fn words(client: &Client, values: &[u32]) -> Self {
        Buffer { handle: client.create_from_slice(u32::as_bytes(values)), len: values.len() }
    }

    /// What a tensor lives in; it must be contiguous.
    pub(crate) fn of(handle: cubecl::server::Handle, len: usize) -> Self {
        Buffer { handle, len }
    }

    /// Words.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no words.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the kernels read of a batch; `words` is scratch space.
    pub fn step(client: &Client, batch: &Batch, words: &mut Vec<u32>) -> Self {
        encode(batch, words);
        Buffer::words(client, words)
    }

    /// Waits for everything queued and reads the first `len` floats back.
    ///
    /// # Errors
    /// What the runtime says of the device, or of a launch that was to write here.
    pub async fn read(&self, client: &Client, len: usize) -> Result<Vec<f32>, String> {
        let wanted = len.min(self.len) * size_of::<f32>();
        let spare = self.handle.size_in_used() - wanted as u64;
        let read = client.read_async(vec![self.handle.clone().offset_end(spare)]).await;
        let bytes = read.map_err(|error| error.to_string())?;
        let bytes =
            bytes.first().filter(|bytes| bytes.len() == wanted).ok_or("fewer bytes came back than asked for")?;
        let (values, _) = bytes.as_chunks();
        Ok(values.iter().map(|&value| f32::from_le_bytes(value)).collect())
    }

    fn scalars(&self) -> BufferArg {
        // SAFETY: the handle holds `len` words.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.len) }
    }

    fn fours(&self) -> BufferArg {
        // SAFETY: the handle holds `len` words, hence ⌊len ÷ 4⌋ groups.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.len / 4) }
    }
}

/// Units of a cube in kernels that treat elements one by one.
const FLAT: usize = 64;

fn flat(elements: usize) -> (CubeCount, CubeDim) {
    (CubeCount::Static(elements.div_ceil(FLAT) as u32, 1, 1), CubeDim::new_1d(FLAT as u32))
}
