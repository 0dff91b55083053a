//! A trace read once, in pieces as large as the caller likes.

use super::report::{Arrivals, CachePoint, Sessions, Sharing, TenantTraffic, Traffic};
use super::stack::Stack;
use crate::replay::TouchOrder;
use crate::stats::{quantiles, ratio};
use servelab_engine::random::Stream;
use servelab_workload::trace::{Chain, Row, Trace};
use std::sync::Arc;

/// Bins of the rate: as many as a picture has room for, each of a round length.
const BINS: f64 = 240.0;

/// Requests that a bin should have on average, so that its height is more than chance; with so few bins they may have less.
const FULL: f64 = 5.0;
const FEW: f64 = 12.0;

/// Round lengths of a bin, seconds; above them, whole days.
const BIN_S: [f64; 15] =
    [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0];

/// Below so many blocks every size counts from a single block on: from ten on, a small trace would have one point or two, and no curve.
const SMALL: usize = 100;

/// Cache sizes: 1, 2 and 5 times each power of ten.
fn sizes(blocks: usize) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut power = if blocks <= SMALL { 1u32 } else { 10 };
    while (power as usize) < blocks && power < 100_000_000 {
        sizes.extend([power, 2 * power, 5 * power]);
        power *= 10;
    }
    sizes.retain(|&size| (size as usize) < blocks);
    sizes.push(blocks as u32);
    sizes
}

/// A trace being looked at.
pub struct Analysis {
    trace: Arc<Trace>,
    stack: Stack,
    sizes: Vec<u32>,
    /// Tokens found by a cache of each size but not of the one before.
    found: Vec<u64>,
    /// How often each first block comes first.
    firsts: Vec<u32>,
    common: Option<Vec<u32>>,
    blocks: u64,
    next: usize,
    scratch: Vec<u32>,
}

impl Analysis {
    /// A trace of which nothing is known.
    pub fn new(trace: Arc<Trace>) -> Self {
        Analysis::ordered(trace, TouchOrder::LeafFirst, None)
    }

    /// The same with another order of touching, and caches of these sizes (ascending) as well.
    pub fn ordered(trace: Arc<Trace>, order: TouchOrder, extra: Option<&[u32]>) -> Self {
        let mut sizes = sizes(trace.blocks());
        sizes.extend(extra.unwrap_or_default());
        sizes.sort_unstable();
        sizes.dedup();
        Analysis {
            stack: Stack::new(trace.blocks(), order),
            found: vec![0; sizes.len()],
            sizes,
            firsts: vec![0; trace.blocks()],
            common: None,
            blocks: 0,
            next: 0,
            scratch: vec![],
            trace,
        }
    }

    /// Reads on by so many requests; how far it is, 0 to 1.
    pub fn advance(&mut self, requests: usize) -> f64 {
        let trace = Arc::clone(&self.trace);
        let end = self.next.saturating_add(requests).min(trace.rows().len());
        for row in &trace.rows()[self.next..end] {
            self.read(&trace, row);
        }
        self.next = end;
        ratio(end as f64, trace.rows().len() as f64)
    }

    fn read(&mut self, trace: &Trace, row: &Row) {
        let mut path = std::mem::take(&mut self.scratch);
        trace.blocks_of(row, &mut path);
        self.blocks += path.len() as u64;
        if let Some(&first) = path.first() {
            self.firsts[first as usize] += 1;
        }
        match &mut self.common {
            None => self.common = Some(path.clone()),
            Some(common) => {
                let same = common.iter().zip(&path).take_while(|(a, b)| a == b).count();
                common.truncate(same);
            }
        }
        let size = u64::from(trace.block_tokens());
        let (sizes, found) = (&self.sizes, &mut self.found);
        self.stack.serve(&path, |place, cache| {
            // The last block of a prompt is as long as what is left of it.
            let begin = place as u64 * size;
            let tokens = (begin + size).min(u64::from(row.prompt)).saturating_sub(begin);
            let at = sizes.partition_point(|&size| size < cache);
            if let Some(slot) = found.get_mut(at) {
                *slot += tokens;
            }
        });
        self.scratch = path;
    }

    /// What was found, once all has been read.
    pub fn report(&self) -> Traffic {
        let trace = &*self.trace;
        let rows = trace.rows();
        let span_s = trace.span().as_secs();
        let sum = |of: fn(&Row) -> u32| rows.iter().map(|row| u64::from(of(row))).sum::<u64>();
        let lengths = |of: fn(&Row) -> u32| quantiles(rows.iter().map(|row| f64::from(of(row))).collect());
        Traffic {
            trace: trace.name(),
            format: trace.format().name().into(),
            requests: rows.len() as u64,
            span_s,
            rate_per_s: ratio(rows.len() as f64, span_s),
            prompt_tokens: sum(|row| row.prompt),
            output_tokens: sum(|row| row.output),
            prompt: lengths(|row| row.prompt),
            output: lengths(|row| row.output),
            arrivals: arrivals(trace),
            sessions: sessions(trace),
            tenants: tenants(trace),
            sharing: self.sharing(),
        }
    }

    fn sharing(&self) -> Option<Sharing> {
        let trace = &*self.trace;
        let all = trace.rows().iter().map(|row| u64::from(row.prompt)).sum::<u64>() as f64;
        if trace.block_tokens() == 0 {
            return trace.knows_sharing().then(|| Sharing {
                inferred: true,
                unlimited: ratio(inferred(trace) as f64, all),
                ..Sharing::default()
            });
        }
        let mut sum = 0;
        let curve: Vec<CachePoint> = (self.sizes.iter().zip(&self.found))
            .map(|(&blocks, found)| {
                sum += found;
                let tokens = u64::from(blocks) * u64::from(trace.block_tokens());
                CachePoint { blocks, tokens, ratio: ratio(sum as f64, all) }
            })
            .collect();
        let most = self.firsts.iter().copied().max().unwrap_or(0);
        Some(Sharing {
            inferred: false,
            block_tokens: trace.block_tokens(),
            blocks: self.blocks,
            unique_blocks: trace.blocks() as u64,
            once_share: 1.0 - ratio(trace.shared_blocks() as f64, trace.blocks() as f64),
            first_blocks: self.firsts.iter().filter(|&&count| count > 0).count() as u64,
            first_block_share: ratio(f64::from(most), trace.rows().len() as f64),
            common_blocks: self.common.as_ref().map_or(0, |common| common.len() as u64),
            unlimited: curve.last().map_or(0.0, |point| point.ratio),
            curve,
        })
    }
}

/// Prompt tokens that conversations and named beginnings let a cache find.
fn inferred(trace: &Trace) -> u64 {
    let mut streams = vec![0u32; trace.streams() as usize];
    let mut seen = std::collections::BTreeSet::new();
    let mut found = 0;
    for row in trace.rows() {
        if let Chain::Stream(stream) = row.chain
            && let Some(before) = streams.get_mut(stream as usize)
        {
            found += u64::from(std::mem::replace(before, row.prompt).min(row.prompt));
        }
        if let Some((prefix, tokens)) = trace.prefix_of(row)
            && !seen.insert(prefix)
        {
            found += u64::from(tokens);
        }
    }
    found
}

fn arrivals(trace: &Trace) -> Arrivals {
    let rows = trace.rows();
    let span_s = trace.span().as_secs();
    let bin_s = BIN_S.into_iter().find(|bin| {
        let bins = span_s / bin;
        bins <= FEW || bins <= BINS && rows.len() as f64 >= FULL * bins
    });
    let bin_s = bin_s.unwrap_or_else(|| libm::ceil(span_s / BINS / 86_400.0) * 86_400.0);
    // The last bin is there if it is begun.
    let mut bins = vec![0u32; libm::floor(span_s / bin_s) as usize + 1];
    for row in rows {
        let bin = (row.at.as_secs() / bin_s) as usize;
        if let Some(count) = bins.get_mut(bin) {
            *count += 1;
        }
    }
    let most = bins.iter().copied().max().unwrap_or(0);
    let empty = bins.iter().filter(|&&count| count == 0).count();
    let mean = ratio(rows.len() as f64, bins.len() as f64);
    Arrivals {
        gap_cv: gap_cv(trace),
        step_s: trace.step().as_secs(),
        bin_s,
        peak_over_mean: ratio(f64::from(most), mean),
        empty_share: ratio(empty as f64, bins.len() as f64),
        bins,
    }
}

fn gap_cv(trace: &Trace) -> f64 {
    let draws = Stream::new(0, b"spread");
    let step = trace.step().0;
    let spread = |(index, row): (u64, &Row)| row.at.0 + if step > 0 { draws.split(index).below(step) } else { 0 };
    let mut times: Vec<u64> = (0u64..).zip(trace.rows()).map(spread).collect();
    times.sort_unstable();
    let gaps = || times.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
    let n = gaps().count() as f64;
    let mean = ratio(gaps().sum(), n);
    let variance = ratio(gaps().map(|gap| (gap - mean) * (gap - mean)).sum(), n);
    ratio(libm::sqrt(variance), mean)
}

fn sessions(trace: &Trace) -> Option<Sessions> {
    let mut last: Vec<Option<u64>> = vec![None; trace.sessions() as usize];
    let (mut turns, mut gaps, mut requests) = (vec![0.0; last.len()], vec![], 0);
    for row in trace.rows() {
        let Some(session) = row.session.map(|session| session as usize).filter(|&session| session < last.len()) else {
            continue;
        };
        requests += 1;
        turns[session] += 1.0;
        if let Some(before) = last[session].replace(row.at.0) {
            gaps.push((row.at.0 - before) as f64 / 1e9);
        }
    }
    // Those of rows that were left out have no turn.
    turns.retain(|&turns| turns > 0.0);
    (requests > 0).then(|| Sessions {
        count: turns.len() as u64,
        requests,
        turns: quantiles(turns),
        gap_s: quantiles(gaps),
    })
}

fn tenants(trace: &Trace) -> Vec<TenantTraffic> {
    let mut sums = vec![(0u64, 0u64, 0u64); trace.groups().len()];
    for row in trace.rows() {
        if let Some((many, prompts, outputs)) = sums.get_mut(row.group as usize) {
            *many += 1;
            *prompts += u64::from(row.prompt);
            *outputs += u64::from(row.output);
        }
    }
    let of = |(name, &(many, prompts, outputs)): (&String, &(u64, u64, u64))| TenantTraffic {
        name: name.clone(),
        requests: many,
        prompt_mean: ratio(prompts as f64, many as f64),
        output_mean: ratio(outputs as f64, many as f64),
    };
    let mut tenants: Vec<TenantTraffic> = trace.groups().iter().zip(&sums).map(of).collect();
    tenants.sort_by_key(|tenant| std::cmp::Reverse(tenant.requests));
    tenants
}
