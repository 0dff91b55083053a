//! Facts of a workload that no policy changes, the reuse ceiling among them.
//!
//! The ceiling is what one cache of unlimited size would reuse if it served all requests one after the other in order of arrival: leading
//! full blocks already seen, capped so that at least one token is computed. Blocks that decoding fills count where requests belong to
//! sessions, whose later prompts contain earlier outputs; elsewhere nobody asks for them.

use crate::request::Request;
use crate::source::{Source, Workload};
use servelab_engine::hash::KeySet;
use servelab_engine::{BlockKey, Nanos, continuation_keys};

/// Totals of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// True output tokens.
    pub output_tokens: u64,
    /// Arrival of the first request.
    pub first_arrival: Nanos,
    /// Arrival of the last request.
    pub last_arrival: Nanos,
    /// Prompt tokens that one unlimited cache would reuse.
    pub ceiling_hit_tokens: u64,
}

/// Reads a source from where it stands to its end.
pub fn survey(source: &Source) -> Survey {
    survey_telling(source, &mut |_, _| {})
}

/// The same; `tell` hears after each request how many have been read, and when this one arrives.
pub fn survey_telling(source: &Source, tell: &mut dyn FnMut(u64, Nanos)) -> Survey {
    let mut source = source.clone();
    let block_tokens = source.block_tokens();
    let shared = source.shares_only_beginnings();
    let mut seen = KeySet::default();
    let mut survey = Survey::default();
    while let Some(request) = source.next_outline() {
        if survey.requests == 0 {
            survey.first_arrival = request.arrival;
        }
        survey.requests += 1;
        survey.prompt_tokens += u64::from(request.prompt.len);
        survey.output_tokens += u64::from(request.output_tokens);
        survey.last_arrival = request.arrival;
        // What is never sent twice need not be remembered: a day has millions of requests.
        let limit = if shared { request.user_at / block_tokens } else { u32::MAX };
        survey.ceiling_hit_tokens += u64::from(see(&mut seen, &request, block_tokens, limit));
        tell(survey.requests, request.arrival);
    }
    survey
}

/// Tokens of `request` that are found, all its blocks then remembered. A key names everything before its block, so the keys found are
/// always the leading ones and a binary search finds where they end. Only the first `limit` blocks are looked at.
fn see(seen: &mut KeySet<BlockKey>, request: &Request, block_tokens: u32, limit: u32) -> u32 {
    let prompt = &request.prompt;
    let blocks = prompt.full_blocks().min(limit);
    let (mut found, mut end) = (0, blocks);
    while found < end {
        let middle = found + (end - found) / 2;
        if prompt.key(middle).is_some_and(|key| seen.contains(&key)) { found = middle + 1 } else { end = middle }
    }
    seen.extend((found..blocks).filter_map(|index| prompt.key(index)));
    if request.session.is_some() {
        // The last token of an output is never read, so it completes no block.
        seen.extend(continuation_keys(prompt, request.output_seed, request.output_tokens - 1, block_tokens));
    }
    found.min((prompt.len - 1) / block_tokens) * block_tokens
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::experiment::{DemandSpec, MultiTenantSpec, WorkloadSpec};

    #[test]
    fn the_fixed_trace_has_its_published_ceiling() {
        let survey = survey(&Source::new(&WorkloadSpec::BookTrace, 0, 16, 1.0).unwrap());
        assert_eq!((survey.ceiling_hit_tokens, survey.prompt_tokens), (7424, 10_476));
        assert_eq!((survey.requests, survey.output_tokens), (24, 610));
    }

    /// Σ over tenants of (requests − 1) × whole blocks of the system prompt, where user parts can not lengthen a match: system prompts
    /// of whole blocks, user parts shorter than one.
    #[test]
    fn the_ceiling_is_the_closed_form_where_there_is_one() {
        let sizes = MultiTenantSpec {
            requests: 300,
            tenants: 7,
            skew: 0.8,
            system_min: 96,
            system_max: 96,
            user_min: 4,
            user_max: 12,
            ..Default::default()
        };
        let source = Source::new(&WorkloadSpec::MultiTenant(sizes), 3, 16, 5.0).unwrap();
        let mut counts = [0u64; 7];
        let mut copy = source.clone();
        while let Some(request) = copy.next_request() {
            counts[request.tenant as usize] += 1;
        }
        let expected: u64 = counts.iter().map(|&count| count.saturating_sub(1) * 96).sum();
        assert_eq!(survey(&source).ceiling_hit_tokens, expected);
    }

    /// Read once as outlines and once whole, all blocks of it remembered.
    #[test]
    fn outlines_of_a_day_tell_as_much_as_its_prompts() {
        let sizes = DemandSpec { curve: "0:1,0.05:3".into(), rate: 4.0, ..DemandSpec::default() };
        // System prompts of whole blocks: a block that two texts share could come twice by chance, which an outline does not see.
        let sizes = DemandSpec { system_min: 96, system_max: 96, ..sizes };
        let source = Source::new(&WorkloadSpec::Demand(sizes), 3, 16, 4.0).unwrap();
        let (mut whole, mut seen, mut copy) = (Survey::default(), KeySet::default(), source.clone());
        while let Some(request) = copy.next_request() {
            whole.requests += 1;
            whole.prompt_tokens += u64::from(request.prompt.len);
            whole.output_tokens += u64::from(request.output_tokens);
            whole.ceiling_hit_tokens += u64::from(see(&mut seen, &request, 16, u32::MAX));
            whole.last_arrival = request.arrival;
        }
        let short = survey(&source);
        whole.first_arrival = short.first_arrival;
        assert!(whole.ceiling_hit_tokens > 10_000);
        assert_eq!(short, whole);
    }

    #[test]
    fn at_least_one_token_is_computed() {
        let request = |tokens: &[u32]| {
            let mut again = Source::new(&WorkloadSpec::BookTrace, 0, 4, 1.0).unwrap().request_again(0).unwrap();
            again.prompt = servelab_engine::Prompt::from_tokens(tokens, 4, 0);
            again
        };
        let mut seen = KeySet::default();
        let whole = request(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(see(&mut seen, &whole, 4, u32::MAX), 0);
        assert_eq!(
            see(&mut seen, &whole, 4, u32::MAX),
            4,
            "a fully cached, block-aligned prompt computes its last block"
        );
        assert_eq!(see(&mut seen, &request(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 4, u32::MAX), 8);
    }
}
