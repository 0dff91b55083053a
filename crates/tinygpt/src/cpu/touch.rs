//! Fetching from memory ahead of use.

/// Streams read side by side: a core's prefetcher follows each within its page, and starts anew on every page, so several at once hide
/// each other's starts. Eight was as good as sixteen and better than one (Sapphire Rapids).
const STREAMS: usize = 8;

/// Reads one number of every cache line, so that what follows finds them in a near cache.
///
/// Arithmetic that does much between two lines sees few of them at a time in the core's reordering window, and waits for
/// memory one line after the other; this loop has dozens under way. WebAssembly has no prefetch instruction.
#[inline(never)]
pub(crate) fn touch(numbers: &[f32]) {
    const LINE: usize = 64 / size_of::<f32>();
    let lines = numbers.as_chunks::<LINE>().0;
    let part = lines.len() / STREAMS;
    let mut all = [0; STREAMS];
    for line in 0..part {
        for (stream, all) in all.iter_mut().enumerate() {
            *all ^= lines[stream * part + line][0].to_bits();
        }
    }
    std::hint::black_box(all);
}
