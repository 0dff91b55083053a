//! [`Source`]: the requests of a workload, lazily and in order of arrival.

mod agent_tree;
pub mod book;
mod check;
mod demand;
pub(crate) mod generated;
mod long_short;
pub mod multi_tenant;
pub(crate) mod replay;
mod schedule;
mod sessions;

use crate::request::Request;
use agent_tree::AgentTree;
use book::BookTrace;
use demand::Demand;
use generated::Generated;
use long_short::LongShort;
use multi_tenant::MultiTenant;
use replay::Replay;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::validate::SpecError;
use sessions::Sessions;

/// Something that yields requests in order of arrival.
pub trait Workload {
    /// The next request, or `None` at the end.
    fn next_request(&mut self) -> Option<Request>;
    /// The next request as far as a survey needs it: where only beginnings are shared, its prompt may hold their keys and its length and nothing else.
    fn next_outline(&mut self) -> Option<Request> {
        self.next_request()
    }
    /// Requests from first to last.
    fn total(&self) -> u32;
    /// Number of tenants.
    fn tenants(&self) -> u32;
    /// Request `index` again, its arrival left at zero where arrivals add up; `None` past the end. What a story shows.
    fn request_again(&self, index: u32) -> Option<Request>;
    /// Nobody will read what prompts to come say: they may leave their token ids out, and blocks that no other prompt shares may bear other keys, theirs
    /// alone. All else is the same, and what [`Workload::request_again`] says is whole.
    fn leave_words_out(&mut self) {}
    /// How far it has come: index of the next request and arrival of the last one.
    fn position(&self) -> (u32, Nanos);
    /// Most requests per second planned for any instant of a time. What only a bound may know; 0 where arrivals follow no plan.
    fn peak_rate(&self, _from: Nanos, _to: Nanos) -> f64 {
        0.0
    }
    /// Goes to a position that [`Workload::position`] gave.
    fn seek(&mut self, next: u32, clock: Nanos);
}

/// Where requests come from. Serialises as its spec and position; tables are rebuilt on the way back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "SourceState", try_from = "SourceState")]
pub struct Source {
    spec: WorkloadSpec,
    seed: u64,
    block_tokens: u32,
    rate_per_s: f64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Book(BookTrace),
    MultiTenant(MultiTenant),
    Sessions(Sessions),
    AgentTree(AgentTree),
    LongShort(LongShort),
    Demand(Demand),
    Replay(Replay),
    Generated(Generated),
}

impl Source {
    /// The source of `spec`. `rate_per_s` is the arrival rate with its unit already resolved; the fixed trace ignores it,
    /// and the seed as well; a recorded trace, which must be on the shelf ([`crate::trace::shelf`]), ignores the rate.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub fn new(spec: &WorkloadSpec, seed: u64, block_tokens: u32, rate_per_s: f64) -> Result<Self, SpecError> {
        if block_tokens == 0 {
            return Err(SpecError::new("engine.block_tokens", block_tokens, "use at least 1"));
        }
        let kind = match spec {
            WorkloadSpec::BookTrace => Kind::Book(BookTrace::new(block_tokens)),
            WorkloadSpec::MultiTenant(sizes) => {
                Kind::MultiTenant(MultiTenant::new(sizes, seed, block_tokens, rate_per_s)?)
            }
            WorkloadSpec::Sessions(sizes) => Kind::Sessions(Sessions::new(sizes, seed, block_tokens, rate_per_s)?),
            WorkloadSpec::AgentTree(sizes) => Kind::AgentTree(AgentTree::new(sizes, seed, block_tokens, rate_per_s)?),
            WorkloadSpec::LongShort(sizes) => Kind::LongShort(LongShort::new(sizes, seed, block_tokens, rate_per_s)?),
            WorkloadSpec::Demand(sizes) => Kind::Demand(Demand::new(sizes, seed, block_tokens, rate_per_s)?),
            WorkloadSpec::Trace(changes) => Kind::Replay(Replay::new(changes, seed, block_tokens)?),
            WorkloadSpec::Generated(sizes) => Kind::Generated(Generated::new(sizes, seed, block_tokens, rate_per_s)?),
        };
        Ok(Source { spec: spec.clone(), seed, block_tokens, rate_per_s, kind })
    }

    fn workload(&self) -> &dyn Workload {
        match &self.kind {
            Kind::Book(book) => book,
            Kind::MultiTenant(tenants) => tenants,
            Kind::Sessions(sessions) => sessions,
            Kind::AgentTree(tasks) => tasks,
            Kind::LongShort(questions) => questions,
            Kind::Demand(demand) => demand,
            Kind::Replay(trace) => trace,
            Kind::Generated(generated) => generated,
        }
    }

    fn workload_mut(&mut self) -> &mut dyn Workload {
        match &mut self.kind {
            Kind::Book(book) => book,
            Kind::MultiTenant(tenants) => tenants,
            Kind::Sessions(sessions) => sessions,
            Kind::AgentTree(tasks) => tasks,
            Kind::LongShort(questions) => questions,
            Kind::Demand(demand) => demand,
            Kind::Replay(trace) => trace,
            Kind::Generated(generated) => generated,
        }
    }

    /// Names of the tenants, by index.
    pub fn tenant_names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Replay(trace) => trace.tenant_names(),
            _ => (0..self.tenants()).map(crate::population::name).collect(),
        }
    }

    /// The prompt of request `index` as text, bytes that are no text shown as `\xNN`; `None` past the end or where there are no
    /// token ids.
    pub fn prompt_text(&self, index: u32) -> Option<String> {
        let request = self.request_again(index)?;
        let bytes: Option<Vec<u8>> = request.prompt.tokens?.iter().map(|&token| u8::try_from(token).ok()).collect();
        bytes.map(|bytes| bytes.escape_ascii().to_string())
    }

    /// Nothing behind a system prompt is ever sent twice, so only system prompts can be shared.
    pub(crate) fn shares_only_beginnings(&self) -> bool {
        matches!(self.kind, Kind::Demand(_))
    }

    /// Tokens of a block, as the keys were computed for.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }
}

impl Workload for Source {
    fn next_request(&mut self) -> Option<Request> {
        self.workload_mut().next_request()
    }

    fn next_outline(&mut self) -> Option<Request> {
        self.workload_mut().next_outline()
    }

    fn total(&self) -> u32 {
        self.workload().total()
    }

    fn tenants(&self) -> u32 {
        self.workload().tenants()
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        self.workload().request_again(index)
    }

    fn leave_words_out(&mut self) {
        self.workload_mut().leave_words_out();
    }

    fn position(&self) -> (u32, Nanos) {
        self.workload().position()
    }

    fn peak_rate(&self, from: Nanos, to: Nanos) -> f64 {
        match self.workload().peak_rate(from, to) {
            0.0 => self.rate_per_s,
            planned => planned,
        }
    }

    fn seek(&mut self, next: u32, clock: Nanos) {
        self.workload_mut().seek(next, clock);
    }
}

/// What a saved [`Source`] consists of.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SourceState {
    spec: WorkloadSpec,
    seed: u64,
    block_tokens: u32,
    rate_per_s: f64,
    next: u32,
    clock: Nanos,
}

impl From<Source> for SourceState {
    fn from(source: Source) -> Self {
        let (next, clock) = source.position();
        SourceState {
            spec: source.spec,
            seed: source.seed,
            block_tokens: source.block_tokens,
            rate_per_s: source.rate_per_s,
            next,
            clock,
        }
    }
}

impl TryFrom<SourceState> for Source {
    type Error = SpecError;

    fn try_from(state: SourceState) -> Result<Self, SpecError> {
        let mut source = Source::new(&state.spec, state.seed, state.block_tokens, state.rate_per_s)?;
        source.seek(state.next, state.clock);
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::experiment::DemandSpec;

    fn rest(source: &mut Source) -> Vec<Request> {
        std::iter::from_fn(|| source.next_request()).collect()
    }

    fn kinds() -> impl Iterator<Item = WorkloadSpec> {
        let few = |spec| match spec {
            WorkloadSpec::Demand(sizes) => WorkloadSpec::Demand(DemandSpec { curve: "0:1,0.1:2".into(), ..sizes }),
            other => other,
        };
        WorkloadSpec::KINDS.into_iter().filter_map(WorkloadSpec::of_kind).map(few)
    }

    #[test]
    fn a_restored_source_goes_on_as_if_it_had_never_stopped() {
        for spec in kinds() {
            let mut source = Source::new(&spec, 11, 16, 8.0).unwrap();
            for _ in 0..9 {
                source.next_request().unwrap();
            }
            let text = serde_json::to_string(&source).unwrap();
            let mut restored: Source = serde_json::from_str(&text).unwrap();
            let expected = rest(&mut source);
            assert_eq!(expected.len() as u32, source.total() - 9);
            assert_eq!(rest(&mut restored), expected);
        }
    }

    #[test]
    fn a_damaged_saved_source_is_an_error_not_a_panic() {
        let source = Source::new(&WorkloadSpec::BookTrace, 0, 16, 1.0).unwrap();
        let text = serde_json::to_string(&source).unwrap();
        assert!(serde_json::from_str::<Source>(&text.replace("\"block_tokens\":16", "\"block_tokens\":0")).is_err());
        let past_end = text.replace("\"next\":0", "\"next\":4000000000");
        assert!(serde_json::from_str::<Source>(&past_end).unwrap().next_request().is_none());
    }

    #[test]
    fn a_request_can_be_had_again() {
        for spec in kinds() {
            let mut source = Source::new(&spec, 3, 16, 8.0).unwrap();
            let again = source.request_again(7).unwrap();
            let seventh = rest(&mut source).swap_remove(7);
            assert_eq!(Request { arrival: seventh.arrival, ..again }, seventh);
            assert!(source.request_again(source.total()).is_none());
            let prompt = source.request_again(0).unwrap().prompt;
            // A trace has keys and no text.
            let text = source.prompt_text(0).map(|text| text.len());
            assert!(text.map_or(spec.kind() == "trace", |len| len >= prompt.len as usize));
            assert_eq!(source.tenants(), spec.tenants());
        }
    }
}
