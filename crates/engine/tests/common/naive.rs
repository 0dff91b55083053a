//! A second engine, written to be obvious: plain vectors, scans, and no keys at all. A block's content is the token
//! sequence up to its end. It follows the rules in the crate's documentation, not its code.

use servelab_engine::{EngineConfig, EngineEvent, FinishReason, Nanos, SequenceRequest};

#[derive(Clone, Debug)]
struct Seq {
    request: SequenceRequest,
    tokens: Vec<u32>,
    outputs: u32,
    computed: usize,
    table: Vec<usize>,
    arrived: u64,
    admitted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: u64,
    pub start: usize,
    pub tokens: Vec<u32>,
    pub table: Vec<usize>,
    pub sample: bool,
    pub decode: bool,
}

#[derive(Clone, Debug)]
pub struct Naive {
    config: EngineConfig,
    /// All tokens up to the block's end, and when it was said to hold them.
    content: Vec<Option<(Vec<u32>, u64)>>,
    free: Vec<usize>,
    waiting: Vec<Seq>,
    running: Vec<Seq>,
    clock: u64,
    pub flight: Option<Vec<Item>>,
    /// (id, was it the first time, hits) of those admitted by the step in flight.
    admitted: Vec<(u64, bool, usize)>,
    published: Vec<usize>,
    cancelled: Vec<u64>,
    pending: Vec<EngineEvent>,
    pub hits: usize,
    pub evictions: u32,
    pub preemptions: u32,
}

impl Naive {
    pub fn new(config: &EngineConfig) -> Self {
        Naive {
            config: config.clone(),
            content: vec![None; config.blocks as usize],
            free: (0..config.blocks as usize).collect(),
            waiting: Vec::new(),
            running: Vec::new(),
            clock: 0,
            flight: None,
            admitted: Vec::new(),
            published: Vec::new(),
            cancelled: Vec::new(),
            pending: Vec::new(),
            hits: 0,
            evictions: 0,
            preemptions: 0,
        }
    }

    /// Who holds each block, by counting.
    pub fn refs(&self) -> Vec<u32> {
        let count = |block| self.running.iter().flat_map(|seq| &seq.table).filter(|&&other| other == block).count();
        (0..self.content.len()).map(|block| count(block) as u32).collect()
    }

    pub fn cached(&self) -> Vec<bool> {
        self.content.iter().map(Option::is_some).collect()
    }

    pub fn ids(&self) -> (Vec<u64>, Vec<u64>) {
        let ids = |seqs: &[Seq]| seqs.iter().map(|seq| seq.request.id.0).collect();
        (ids(&self.waiting), ids(&self.running))
    }

    pub fn submit(&mut self, now: u64, request: SequenceRequest) -> bool {
        let most = (request.prompt.len + request.max_tokens - 1) as usize;
        let pool = (self.config.blocks * self.config.block_tokens) as usize;
        if most > pool || most + 1 > self.config.max_context as usize {
            return false;
        }
        let tokens = request.prompt.tokens.as_ref().unwrap().to_vec();
        let seq = Seq { request, tokens, outputs: 0, computed: 0, table: vec![], arrived: now, admitted: false };
        self.waiting.push(seq);
        true
    }

    pub fn cancel(&mut self, id: u64) -> bool {
        let is = |seq: &Seq| seq.request.id.0 == id;
        if let Some(at) = self.waiting.iter().position(is) {
            self.waiting.remove(at);
            return true;
        }
        let Some(at) = self.running.iter().position(is) else { return false };
        let mut seq = self.running.remove(at);
        self.give_back(&mut seq.table, 0);
        self.admitted.retain(|admitted| admitted.0 != id);
        self.cancelled.push(id);
        true
    }

    /// Blocks beyond `keep` go to the end of the queue, the last first, unless somebody else holds them.
    fn give_back(&mut self, table: &mut Vec<usize>, keep: usize) {
        // Whoever gave the table is not on the running list at the moment, or its table is empty there.
        while table.len() > keep {
            let block = table.pop().unwrap();
            if self.refs()[block] == 0 && !table.contains(&block) {
                self.free.push(block);
            }
        }
    }

    fn take(&mut self) -> usize {
        let block = self.free.remove(0);
        if self.content[block].take().is_some() {
            self.evictions += 1;
        }
        block
    }

    fn find(&self, content: &[u32]) -> Option<usize> {
        let matching = |block: &usize| matches!(&self.content[*block], Some((held, _)) if held == content);
        let since = |block: &usize| self.content[*block].as_ref().map(|held| held.1);
        (0..self.content.len()).filter(matching).min_by_key(since)
    }

    fn publish(&mut self, seq: &Seq, end: usize) {
        if !self.config.prefix_cache {
            return;
        }
        let size = self.config.block_tokens as usize;
        for index in seq.computed / size..end / size {
            self.clock += 1;
            let block = seq.table[index];
            assert_eq!(self.content[block], None);
            self.content[block] = Some((seq.tokens[..(index + 1) * size].to_vec(), self.clock));
            self.published.push(block);
        }
    }

    fn item(seq: &Seq, len: usize) -> Item {
        let end = seq.computed + len;
        Item {
            id: seq.request.id.0,
            start: seq.computed,
            tokens: seq.tokens[seq.computed..end].to_vec(),
            table: seq.table.clone(),
            sample: end == seq.tokens.len(),
            decode: len == 1 && end == seq.tokens.len() && seq.outputs > 0,
        }
    }

    pub fn plan(&mut self, now: u64) -> Option<Vec<Item>> {
        if self.flight.is_some() || (self.waiting.is_empty() && self.running.is_empty()) {
            return None;
        }
        let size = self.config.block_tokens as usize;
        let mut items = Vec::new();
        let mut budget = self.config.token_budget as usize;
        let evictions = self.evictions;
        let mut preempted = false;
        let mut at = 0;
        'batch: while at < self.running.len() && budget > 0 {
            let len = (self.running[at].tokens.len() - self.running[at].computed).min(budget);
            let blocks = (self.running[at].computed + len).div_ceil(size);
            while self.running[at].table.len() + self.free.len() < blocks {
                preempted = true;
                self.preemptions += 1;
                let mut victim = self.running.pop().unwrap();
                let mut table = std::mem::take(&mut victim.table);
                self.give_back(&mut table, 0);
                victim.computed = 0;
                self.pending.push(EngineEvent::Preempted { id: victim.request.id });
                self.waiting.insert(0, victim);
                if at >= self.running.len() {
                    break 'batch;
                }
            }
            while self.running[at].table.len() < blocks {
                let block = self.take();
                self.running[at].table.push(block);
            }
            let seq = self.running[at].clone();
            self.publish(&seq, seq.computed + len);
            items.push(Self::item(&seq, len));
            budget -= len;
            at += 1;
        }
        while !preempted
            && budget > 0
            && !self.waiting.is_empty()
            && self.running.len() < self.config.max_batch as usize
        {
            let prefilling = items.iter().any(|item| !item.decode);
            if self.config.one_prefill && prefilling {
                break;
            }
            let mut seq = self.waiting[0].clone();
            let mut hits = Vec::new();
            while self.config.prefix_cache && (hits.len() + 1) * size < seq.tokens.len() {
                match self.find(&seq.tokens[..(hits.len() + 1) * size]) {
                    Some(block) => hits.push(block),
                    None => break,
                }
            }
            let cached = hits.len() * size;
            let mut len = seq.tokens.len() - cached;
            if self.config.chunked_prefill {
                len = len.min(budget);
            } else if len > budget && prefilling {
                break;
            }
            let blocks = (cached + len).div_ceil(size);
            let left = self.free.iter().filter(|block| !hits.contains(block)).count();
            let margin = if self.running.is_empty() { 0 } else { self.config.watermark_blocks as usize };
            if blocks - hits.len() + margin > left {
                break;
            }
            self.waiting.remove(0);
            self.free.retain(|block| !hits.contains(block));
            seq.table = hits;
            seq.computed = cached;
            while seq.table.len() < blocks {
                let block = self.take();
                seq.table.push(block);
            }
            self.pending.push(EngineEvent::Admitted {
                id: seq.request.id,
                at: Nanos(now),
                cached_tokens: (cached as u32).min(seq.request.prompt.len),
                fetched_tokens: 0,
                queued: Nanos(now - seq.arrived),
                first: !seq.admitted,
            });
            self.admitted.push((seq.request.id.0, !seq.admitted, cached));
            if !seq.admitted {
                self.hits += cached;
            }
            seq.admitted = true;
            self.publish(&seq, cached + len);
            items.push(Self::item(&seq, len));
            budget = budget.saturating_sub(len);
            self.running.push(seq);
        }
        if self.evictions > evictions {
            self.pending.push(EngineEvent::Evicted { blocks: self.evictions - evictions });
        }
        self.flight = Some(items.clone());
        Some(items)
    }

    /// `tokens`: one for each sampling item, in order.
    pub fn commit(&mut self, tokens: &[u32]) -> Vec<EngineEvent> {
        let mut events = std::mem::take(&mut self.pending);
        let mut tokens = tokens.iter();
        for item in self.flight.take().unwrap() {
            let token = if item.sample { tokens.next() } else { None };
            if self.cancelled.contains(&item.id) {
                continue;
            }
            let at = self.running.iter().position(|seq| seq.request.id.0 == item.id).unwrap();
            let seq = &mut self.running[at];
            seq.computed += item.tokens.len();
            let Some(&token) = token else { continue };
            let id = seq.request.id;
            if seq.outputs == 0 {
                events.push(EngineEvent::FirstToken { id });
            }
            events.push(EngineEvent::Tokens { id, count: 1 });
            seq.tokens.push(token);
            seq.outputs += 1;
            let ended = token == 257 && !seq.request.ignore_eos;
            if ended || seq.outputs == seq.request.output_tokens {
                let full = !ended && seq.outputs == seq.request.max_tokens;
                let reason = if full { FinishReason::Length } else { FinishReason::EndOfText };
                events.push(EngineEvent::Finished { id, output_tokens: seq.outputs, reason });
                let mut seq = self.running.remove(at);
                self.give_back(&mut seq.table, 0);
            }
        }
        self.land();
        events
    }

    pub fn abort(&mut self) {
        let Some(items) = self.flight.take() else { return };
        for block in std::mem::take(&mut self.published) {
            self.content[block] = None;
        }
        for (id, first, hits) in std::mem::take(&mut self.admitted).into_iter().rev() {
            let at = self.running.iter().position(|seq| seq.request.id.0 == id).unwrap();
            let mut seq = self.running.remove(at);
            let mut table = std::mem::take(&mut seq.table);
            self.give_back(&mut table, 0);
            seq.computed = 0;
            if first {
                seq.admitted = false;
                self.hits -= hits;
            }
            let admission =
                |event: &EngineEvent| matches!(event, EngineEvent::Admitted { id: other, .. } if other.0 == id);
            let at = self.pending.iter().rposition(admission).unwrap();
            self.pending.remove(at);
            self.waiting.insert(0, seq);
        }
        for item in items.iter().rev() {
            if let Some(at) = self.running.iter().position(|seq| seq.request.id.0 == item.id) {
                let keep = self.running[at].computed.div_ceil(self.config.block_tokens as usize);
                let mut table = std::mem::take(&mut self.running[at].table);
                self.give_back(&mut table, keep);
                self.running[at].table = table;
            }
        }
        self.land();
    }

    pub fn forget_kv(&mut self) {
        self.abort();
        while let Some(mut seq) = self.running.pop() {
            self.preemptions += 1;
            let mut table = std::mem::take(&mut seq.table);
            self.give_back(&mut table, 0);
            seq.computed = 0;
            self.pending.push(EngineEvent::Preempted { id: seq.request.id });
            self.waiting.insert(0, seq);
        }
        self.content.fill(None);
    }

    fn land(&mut self) {
        self.flight = None;
        self.admitted.clear();
        self.published.clear();
        self.cancelled.clear();
    }
}
