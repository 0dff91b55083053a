//! Rows checked, interned and put in order.

use super::problem::{Cause, MAX_BLOCKS, MAX_ROWS, MAX_SPAN_NS, MAX_TOKENS, TraceError};
use super::tree::Growing;
use super::{Chain, Prefix, Row, Trace};
use servelab_engine::Nanos;
use servelab_engine::hash::KeyMap;
use servelab_engine::random::mix;
use servelab_spec::traffic::{Remark, TraceFormat};
use std::collections::BTreeMap;

/// Fewest requests for which a step of recorded times is believed.
const STEP_ROWS: usize = 20;

/// Shortest step that matters, nanoseconds: below it, arrivals at one instant are no longer many.
const STEP_NS: u64 = 100_000_000;

/// How far from its grid a time may lie, in steps.
const NEAR: f64 = 0.02;

/// A row as a format found it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry<'a> {
    /// Arrival, nanoseconds from anywhere.
    pub(super) at: i64,
    pub(super) prompt: u32,
    pub(super) output: u32,
    /// Keys of its blocks, if the format has any.
    pub(super) keys: &'a [u64],
    pub(super) session: Option<u32>,
    /// Whose it is; empty when nobody says.
    pub(super) group: &'a str,
    /// A beginning by name, and its length if it is told.
    pub(super) prefix: Option<(&'a str, Option<u32>)>,
}

/// What became of a cause.
struct Tally {
    count: u64,
    line: u64,
    found: String,
}

/// Requests as they come.
#[derive(Default)]
pub(super) struct Collector {
    format: Option<TraceFormat>,
    block_tokens: u32,
    /// The block size was said, not taken from the format.
    said: bool,
    /// Until all are there, an instant is the bits of a signed one, from anywhere.
    rows: Vec<Row>,
    tree: Growing,
    prefixes: Vec<(u64, Option<u32>)>,
    prefix_names: KeyMap<u64, u32>,
    groups: Vec<String>,
    sessions: u32,
    session_names: KeyMap<u64, u32>,
    tallies: BTreeMap<Cause, Tally>,
    seen: u64,
    last: Option<i64>,
    first: i64,
}

impl Collector {
    /// The format is known; `block_tokens` when somebody said it.
    pub(super) fn begin(&mut self, format: TraceFormat, block_tokens: Option<u32>) {
        self.format = Some(format);
        self.said = block_tokens.is_some();
        self.block_tokens = block_tokens.unwrap_or(match format {
            TraceFormat::Qwen => 16,
            _ => 512,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Something about a row: it is counted, and the first one kept as an example.
    pub(super) fn note(&mut self, line: u64, cause: Cause, found: &str) {
        if cause.skips() {
            self.seen += 1;
        }
        let first = || Tally { count: 0, line, found: found.chars().take(60).collect() };
        self.tallies.entry(cause).or_insert_with(first).count += 1;
    }

    /// The conversation of that name.
    pub(super) fn session(&mut self, name: &str) -> u32 {
        // Of rows that are not kept nothing is.
        if self.rows.len() >= MAX_ROWS {
            return 0;
        }
        let name = hash(name);
        let next = self.sessions;
        let session = *self.session_names.entry(name).or_insert(next);
        self.sessions = self.sessions.max(session + 1);
        session
    }

    /// A conversation nobody has named.
    pub(super) fn new_session(&mut self) -> u32 {
        self.sessions += 1;
        self.sessions - 1
    }

    /// A row that could be read.
    pub(super) fn row(&mut self, line: u64, entry: Entry<'_>) {
        if entry.prompt == 0 {
            return self.note(line, Cause::EmptyPrompt, "");
        }
        if entry.output == 0 {
            return self.note(line, Cause::NoOutput, "");
        }
        if entry.prompt > MAX_TOKENS || entry.output > MAX_TOKENS {
            return self.note(line, Cause::PromptTooLong, &entry.prompt.max(entry.output).to_string());
        }
        let first = *if self.rows.is_empty() {
            self.first = entry.at;
            &self.first
        } else {
            &self.first
        };
        if entry.at.checked_sub(first).is_none_or(|span| span.abs() > MAX_SPAN_NS) {
            return self.note(line, Cause::TooFar, "");
        }
        let keys = self.usable_keys(line, &entry);
        if self.rows.len() >= MAX_ROWS || self.tree.len() + keys.len() > MAX_BLOCKS {
            return self.note(line, Cause::Full, "");
        }
        // Spans are written when they end, so their order is another one.
        if self.format != Some(TraceFormat::Otel) && self.last.is_some_and(|last| entry.at < last) {
            self.note(line, Cause::Backwards, "");
        }
        self.last = Some(self.last.map_or(entry.at, |last| last.max(entry.at)));
        let chain = match (self.tree.intern(keys), entry.prefix) {
            (Some(node), _) => Chain::Keys(node),
            (None, Some((name, tokens))) => Chain::Prefix(self.prefix(name, tokens, entry.prompt)),
            (None, None) => Chain::Own,
        };
        let group = self.group(entry.group);
        let row = Row {
            at: Nanos(entry.at as u64),
            prompt: entry.prompt,
            output: entry.output,
            chain,
            session: entry.session,
            group,
        };
        self.seen += 1;
        self.rows.push(row);
    }

    /// The keys that a prompt has blocks for; settles the block size by the first row.
    fn usable_keys<'a>(&mut self, line: u64, entry: &Entry<'a>) -> &'a [u64] {
        let keys = entry.keys;
        if keys.is_empty() {
            return keys;
        }
        let suits = |block: u32| entry.prompt.div_ceil(block) as usize == keys.len();
        if !self.said && !suits(self.block_tokens) {
            let other = (3..=13).map(|power| 1 << power).find(|&block| suits(block));
            if let (Some(block), true) = (other, self.tree.len() == 0) {
                self.block_tokens = block;
                self.note(line, Cause::BlockSize, &format!("{block} tokens"));
            }
        }
        self.said = true;
        let blocks = entry.prompt.div_ceil(self.block_tokens.max(1)) as usize;
        match keys.len().cmp(&blocks) {
            std::cmp::Ordering::Less => self.note(line, Cause::FewKeys, &format!("{} of {blocks}", keys.len())),
            std::cmp::Ordering::Greater => self.note(line, Cause::ManyKeys, &format!("{} of {blocks}", keys.len())),
            std::cmp::Ordering::Equal => {}
        }
        &keys[..keys.len().min(blocks)]
    }

    fn prefix(&mut self, name: &str, tokens: Option<u32>, prompt: u32) -> u32 {
        let key = hash(name);
        let next = self.prefixes.len() as u32;
        let index = *self.prefix_names.entry(key).or_insert(next);
        // Nobody's beginning is longer than the shortest prompt that has it.
        let tokens = tokens.map_or(prompt, |tokens| tokens.min(prompt));
        match self.prefixes.get_mut(index as usize) {
            Some((_, shortest)) => *shortest = Some(shortest.map_or(tokens, |shortest| shortest.min(tokens))),
            None => self.prefixes.push((key, Some(tokens))),
        }
        index
    }

    fn group(&mut self, name: &str) -> u16 {
        /// Beyond so many, names are one group: nobody tells more colours apart, and a column of ids may have been taken for a tenant.
        const MOST: usize = 1000;
        let name: String = name.chars().take(60).collect();
        let at = self.groups.iter().position(|known| *known == name);
        let at = at.unwrap_or_else(|| {
            if self.groups.len() < MOST {
                self.groups.push(name);
            }
            self.groups.len() - 1
        });
        at as u16
    }

    /// The trace, the remarks in the order of lines, and how many rows there were.
    ///
    /// # Errors
    /// When there is not one request.
    pub(super) fn done(mut self) -> Result<(Trace, Vec<Remark>, u64), TraceError> {
        let remarks = self.remarks();
        let Some(format) = self.format.filter(|_| !self.rows.is_empty()) else {
            let first = remarks.into_iter().filter(|remark| remark.skipped).max_by_key(|remark| remark.count);
            return Err(TraceError::Nothing { rows: self.seen, first });
        };
        // Stable: rows of one instant stay in the order of the file.
        let instant = |row: &Row| row.at.0 as i64;
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(instant);
        let first = rows.first().map_or(0, instant);
        // The span was checked, so no difference overflows.
        rows.iter_mut().for_each(|row| row.at = Nanos(row.at.0.wrapping_sub(first as u64)));
        let streams = infer_streams(&mut rows);
        let has_keys = self.tree.len() > 0;
        let prefixes = self.prefixes.iter().map(|&(key, tokens)| Prefix { key, tokens: tokens.unwrap_or(0) }).collect();
        let mut trace = Trace {
            format,
            block_tokens: if has_keys { self.block_tokens } else { 0 },
            step: step(&rows),
            rows,
            tree: self.tree.done(),
            prefixes,
            groups: self.groups,
            sessions: self.sessions,
            streams,
            digest: 0,
        };
        trace.digest = trace.digest_of();
        Ok((trace, remarks, self.seen))
    }

    fn remarks(&self) -> Vec<Remark> {
        let of = |(&cause, tally): (&Cause, &Tally)| {
            let (what, advice) = cause.words();
            let (count, line, found) = (tally.count, tally.line, tally.found.clone());
            Remark { skipped: cause.skips(), count, line, what, advice, found }
        };
        let mut remarks: Vec<Remark> = self.tallies.iter().map(of).collect();
        remarks.sort_by_key(|remark| remark.line);
        remarks
    }
}

/// A name as a number. Among a million names two agree once in 10⁷ traces.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0x6e61_6d65, |state, byte| mix(state, byte.into()))
}

/// Where turns of a conversation have no keys: one whose prompt is at least as long as the prompt before and its answer is taken to contain them.
/// Returns how many such chains of turns there are.
fn infer_streams(rows: &mut [Row]) -> u32 {
    let mut open: KeyMap<u32, (usize, Option<u32>)> = KeyMap::default();
    let mut streams = 0;
    for at in 0..rows.len() {
        let row = rows[at];
        let Some(session) = row.session.filter(|_| row.chain == Chain::Own) else { continue };
        let mut stream = None;
        if let Some(&(before, known)) = open.get(&session)
            && row.prompt >= rows[before].prompt.saturating_add(rows[before].output)
        {
            let number = known.unwrap_or(streams);
            streams = streams.max(number + 1);
            rows[before].chain = Chain::Stream(number);
            rows[at].chain = Chain::Stream(number);
            stream = Some(number);
        }
        open.insert(session, (at, stream));
    }
    streams
}

/// The grid that times stand on, if it is coarse and requests share its points. Recorders round: Mooncake's times of a step of 3 s are off by a
/// millisecond here and there. So the smallest gap is followed from point to point, each of which must lie near a multiple and makes the step more exact.
fn step(rows: &[Row]) -> Nanos {
    let together = rows.windows(2).filter(|pair| pair[0].at == pair[1].at).count();
    if rows.len() < STEP_ROWS || together * 20 < rows.len() {
        return Nanos::ZERO;
    }
    let gaps = rows.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0).filter(|&gap| gap > 0);
    let Some(smallest) = gaps.min().filter(|&gap| gap >= STEP_NS) else { return Nanos::ZERO };
    let mut step = smallest as f64;
    for row in rows {
        let at = row.at.0 as f64;
        let points = libm::round(at / step);
        if (at - points * step).abs() > NEAR * step {
            return Nanos::ZERO;
        }
        if points > 0.0 {
            step = at / points;
        }
    }
    // To the millisecond: nobody's grid is finer, and the last time may be off as well.
    Nanos(libm::round(step / 1e6) as u64 * 1_000_000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn collected(entries: &[Entry<'_>]) -> (Trace, Vec<Remark>, u64) {
        let mut out = Collector::default();
        out.begin(TraceFormat::Mooncake, None);
        for (line, &entry) in (1..).zip(entries) {
            out.row(line, entry);
        }
        out.done().unwrap()
    }

    fn entry(at: i64, prompt: u32, output: u32) -> Entry<'static> {
        Entry { at, prompt, output, ..Entry::default() }
    }

    #[test]
    fn rows_are_put_in_order_and_bad_ones_counted() {
        let far = MAX_SPAN_NS + 1;
        let entries = [
            entry(5, 1, 1),
            entry(3, 2, 2),
            entry(9, 0, 1),
            entry(9, 1, 0),
            entry(9, MAX_TOKENS + 1, 1),
            entry(far + 5, 1, 1),
        ];
        let (trace, remarks, rows) = collected(&entries);
        let got: Vec<(u64, u32)> = trace.rows().iter().map(|row| (row.at.0, row.prompt)).collect();
        assert_eq!((got, rows), (vec![(0, 2), (2, 1)], 6));
        let lines: Vec<(u64, bool, u64)> =
            remarks.iter().map(|remark| (remark.line, remark.skipped, remark.count)).collect();
        assert_eq!(lines, [(2, false, 1), (3, true, 1), (4, true, 1), (5, true, 1), (6, true, 1)]);
        assert_eq!(trace.block_tokens(), 0, "no keys");
    }

    #[test]
    fn the_size_of_blocks_follows_the_first_keys() {
        let keys = [1, 2, 3];
        let (trace, remarks, _) =
            collected(&[Entry { keys: &keys, ..entry(0, 40, 1) }, Entry { keys: &keys[..2], ..entry(0, 90, 1) }]);
        assert_eq!((trace.block_tokens(), trace.blocks(), trace.shared_blocks()), (16, 3, 2));
        assert_eq!(remarks.iter().map(|remark| remark.line).collect::<Vec<_>>(), [1, 2]);
        let (usual, none, _) = collected(&[Entry { keys: &keys, ..entry(0, 1100, 1) }]);
        assert_eq!((usual.block_tokens(), none.len()), (512, 0));
    }

    /// By hand: 10 + 5 ≤ 15 goes on; 16 < 15 + 4 does not, and begins anew.
    #[test]
    fn a_conversation_that_grows_is_one_stream() {
        let turn = |at, prompt, output| Entry { session: Some(0), ..entry(at, prompt, output) };
        let (trace, ..) = collected(&[turn(0, 10, 5), turn(1, 15, 4), turn(2, 16, 1), turn(3, 17, 1), entry(4, 99, 1)]);
        let chains: Vec<Chain> = trace.rows().iter().map(|row| row.chain).collect();
        assert_eq!(chains, [Chain::Stream(0), Chain::Stream(0), Chain::Stream(1), Chain::Stream(1), Chain::Own]);
        assert_eq!(trace.streams(), 2);
    }

    #[test]
    fn a_coarse_clock_is_noticed() {
        let ticks: Vec<Entry<'_>> = (0..40).map(|i| entry(i / 2 * 3_000_000_000, 1, 1)).collect();
        assert_eq!(collected(&ticks).0.step(), Nanos(3_000_000_000));
        // Off by a millisecond, as recorders round.
        let rounded: Vec<Entry<'_>> =
            (0..400).map(|i| entry((i / 2 * 3000 - i / 2 % 3 / 2) * 1_000_000, 1, 1)).collect();
        assert_eq!(collected(&rounded).0.step(), Nanos(3_000_000_000));
        // Nobody shares an instant: the requests may really have come every three seconds.
        let even: Vec<Entry<'_>> = (0..40).map(|i| entry(i * 3_000_000_000, 1, 1)).collect();
        assert_eq!(collected(&even).0.step(), Nanos::ZERO);
        let fine: Vec<Entry<'_>> = (0..40).map(|i| entry(i / 2 * 1_000_003, 1, 1)).collect();
        assert_eq!(collected(&fine).0.step(), Nanos::ZERO);
    }

    #[test]
    fn names_of_traces_tell_contents_apart() {
        let one = collected(&[entry(0, 10, 5), entry(7, 3, 3)]).0.name();
        assert_eq!(one, collected(&[entry(100, 10, 5), entry(107, 3, 3)]).0.name(), "only differences of times count");
        assert_ne!(one, collected(&[entry(0, 10, 5), entry(7, 3, 4)]).0.name());
        assert_ne!(one, collected(&[entry(0, 10, 5), entry(8, 3, 3)]).0.name());
        assert!(one.len() == 16 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
