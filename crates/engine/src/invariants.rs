//! What holds of an engine after every call.
//!
//! | | invariant |
//! |---|---|
//! | E1 | used + free = total blocks; the free queue is a proper list of exactly the blocks that nobody holds |
//! | E2 | a block's reference count is the number of block tables that hold it |
//! | E3 | every cached block is found by its key or listed behind one that is |
//! | E4 | a waiting sequence holds no blocks and has nothing computed |
//! | E5 | every sequence either waits or runs, once, and is found by its name |
//! | E6 | at most `max_batch` sequences run |
//! | E7 | a running sequence's table has exactly the blocks of its computed tokens and of those in flight |
//! | E8 | a running sequence's full blocks carry its keys (prefix cache on), and none of its others carries any |
//! | E9 | nothing is computed beyond the tokens there are, and no sequence outlives its length |
//! | E10 | the step in flight is not empty, of sequences that run, and within the budget (but for one whole prompt) |
//! | E11 | statistics agree with the state |
//! | E12 | no more adapters are held than there are slots, each once, and those of running sequences are among them |
//! | E13 | a fetch brings full blocks of its prompt and leaves a token to compute; every fetch that a waiting sequence waits for is listed |
//!
//! That work is done whenever there is some, that nothing is lost and that time does not run back are properties of
//! calls, not states; the tests check those.

use crate::engine::Engine;
use crate::pool::NONE;
use crate::sequence::Sequence;
use thiserror::Error;

/// An invariant that does not hold: a defect of the engine, or a damaged saved state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invariant {invariant}: {what}")]
pub struct InvariantViolation {
    /// Its name in the table of [`crate::invariants`].
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
}

fn ensure(holds: bool, invariant: &'static str, what: impl FnOnce() -> String) -> Result<(), InvariantViolation> {
    if holds { Ok(()) } else { Err(InvariantViolation { invariant, what: what() }) }
}

/// Checks all of them. Never panics, whatever the saved state said.
pub(crate) fn check(engine: &Engine) -> Result<(), InvariantViolation> {
    let total = engine.config.blocks;
    ensure(engine.kv.len() == total, "E1", || format!("{} blocks instead of {total}", engine.kv.len()))?;
    engine.kv.check().map_err(|what| InvariantViolation { invariant: "E1/E3", what })?;
    engine.sequences.check().map_err(|what| InvariantViolation { invariant: "E5", what })?;
    check_queues(engine)?;
    check_adapters(engine)?;
    check_fetches(engine)?;
    check_flight(engine)?;
    check_tables(engine)?;
    check_stats(engine)
}

fn check_adapters(engine: &Engine) -> Result<(), InvariantViolation> {
    let slots = engine.config.adapter_slots;
    engine.adapters.check(slots).map_err(|what| InvariantViolation { invariant: "E12", what })?;
    let running = engine.running.iter().filter_map(|&place| engine.sequences.get(place)?.request.adapter);
    let missing = running.filter(|adapter| !engine.adapters().contains(adapter)).min();
    ensure(slots == 0 || missing.is_none(), "E12", || format!("adapter {missing:?} runs and is not held"))
}

fn check_fetches(engine: &Engine) -> Result<(), InvariantViolation> {
    let mut under_way = 0;
    for (waits, &place) in
        engine.waiting.iter().map(|place| (true, place)).chain(engine.running.iter().map(|place| (false, place)))
    {
        let Some(sequence) = engine.sequences.get(place) else { continue };
        let Some(fetch) = sequence.fetch else { continue };
        let id = sequence.request.id.0;
        let block_tokens = engine.config.block_tokens;
        let whole = fetch.from.is_multiple_of(block_tokens) && fetch.to.is_multiple_of(block_tokens);
        ensure(whole && fetch.from < fetch.to && fetch.to < sequence.request.prompt.len, "E13", || {
            format!("sequence {id} fetches tokens {} to {}", fetch.from, fetch.to)
        })?;
        ensure(waits || !sequence.awaits_fetch(engine.now), "E13", || {
            format!("sequence {id} runs ahead of its fetch")
        })?;
        under_way += u32::from(waits && sequence.awaits_fetch(engine.now));
    }
    let listed = engine.scratch.fetches.iter().filter(|&&until| until > engine.now).count();
    ensure(listed == under_way as usize, "E13", || format!("{under_way} fetches are under way, {listed} are listed"))
}

fn check_queues(engine: &Engine) -> Result<(), InvariantViolation> {
    let mut seen = std::collections::BTreeSet::new();
    for &place in engine.waiting.iter().chain(&engine.running) {
        let there = engine.sequences.is_there(place);
        ensure(there && seen.insert(place), "E5", || format!("place {place} is queued twice or vacant"))?;
    }
    let (queued, known) = (seen.len(), engine.sequences.len());
    ensure(queued == known, "E5", || format!("{queued} sequences are queued, {known} known"))?;
    let (running, most) = (engine.running.len(), engine.config.max_batch);
    ensure(running <= most as usize, "E6", || format!("{running} sequences run, {most} may"))?;
    for sequence in engine.waiting.iter().filter_map(|&place| engine.sequences.get(place)) {
        let id = sequence.request.id.0;
        ensure(sequence.table.is_empty() && sequence.computed == 0, "E4", || format!("sequence {id} has blocks"))?;
    }
    for &place in engine.waiting.iter().chain(&engine.running) {
        let Some(sequence) = engine.sequences.get(place) else { continue };
        let Sequence { request, computed, outputs, output, .. } = sequence;
        let id = request.id.0;
        let fits = engine.config.can_serve(request);
        ensure(fits.is_ok(), "E9", || format!("sequence {id} should have been refused: {fits:?}"))?;
        ensure(*outputs < request.output_tokens, "E9", || format!("sequence {id} outlives its length"))?;
        ensure(*computed < sequence.total(), "E9", || format!("sequence {id} has {computed} tokens computed"))?;
        ensure(output.len() <= *outputs as usize, "E9", || format!("sequence {id} has too many token ids"))?;
    }
    Ok(())
}

fn check_flight(engine: &Engine) -> Result<(), InvariantViolation> {
    let flight = &engine.flight;
    let items = &flight.plan.items;
    ensure(items.len() == flight.places.len(), "E10", || "items and places differ".into())?;
    ensure(flight.flying != items.is_empty(), "E10", || "an empty step is in flight".into())?;
    let landed = flight.admitted.is_empty() && flight.published.is_empty();
    ensure(flight.flying || landed, "E10", || "a step left something in flight".into())?;
    ensure(flight.admitted.len() == flight.readmitted.len(), "E10", || "admissions differ".into())?;
    ensure(flight.plan.repeat <= 1 || items.iter().all(|item| item.decode), "E10", || "a run of prefills".into())?;
    for &place in &flight.admitted {
        ensure(flight.places.contains(&place), "E10", || format!("place {place} was admitted but does not run"))?;
    }
    for &block in &flight.published {
        ensure(block < engine.kv.len(), "E10", || format!("block {block} was published"))?;
    }
    let mut tokens = 0u64;
    let mut prefills = 0;
    for (item, &place) in items.iter().zip(&flight.places) {
        tokens += u64::from(item.len);
        prefills += u32::from(!item.decode);
        if place == NONE {
            continue;
        }
        let sequence = engine.sequences.get(place).filter(|_| engine.running.contains(&place));
        let fits = sequence.is_some_and(|sequence| {
            sequence.request.id == item.sequence
                && item.start == sequence.computed
                && item.len > 0
                && u64::from(item.start) + u64::from(item.len) <= u64::from(sequence.total())
        });
        ensure(fits, "E10", || format!("the item of sequence {} does not fit it", item.sequence.0))?;
    }
    let budget = u64::from(engine.config.token_budget);
    let whole = !engine.config.chunked_prefill && prefills == 1;
    ensure(tokens <= budget || whole, "E10", || format!("{tokens} tokens in a step, the budget is {budget}"))?;
    ensure(!engine.config.one_prefill || prefills <= 1, "E10", || format!("{prefills} prefills in a step"))
}

fn check_tables(engine: &Engine) -> Result<(), InvariantViolation> {
    let block_tokens = engine.config.block_tokens;
    let mut refs = vec![0u32; engine.kv.len() as usize];
    for &place in &engine.running {
        let Some(sequence) = engine.sequences.get(place) else { continue };
        let id = sequence.request.id.0;
        let flying = engine.flight.places.iter().position(|&other| other == place);
        let len = flying.and_then(|at| engine.flight.plan.items.get(at)).map_or(0, |item| item.len);
        let end = sequence.computed + len;
        let (held, needed) = (sequence.table.len(), engine.config.blocks_for(end));
        ensure(held == needed as usize, "E7", || format!("sequence {id} holds {held} blocks instead of {needed}"))?;
        for (index, &block) in sequence.table.iter().enumerate() {
            match refs.get_mut(block as usize) {
                Some(refs) => *refs += 1,
                None => return ensure(false, "E2", || format!("sequence {id} holds block {block}")),
            }
            let index = index as u32;
            let full = engine.config.prefix_cache && index < end / block_tokens;
            let prompt = &sequence.request.prompt;
            let generated = index.checked_sub(prompt.full_blocks());
            let key = prompt.key(index).or_else(|| sequence.output_keys.get(generated? as usize).copied());
            let expected = if full { key } else { None };
            let found = engine.kv.key(block);
            ensure(found == expected && full == found.is_some(), "E8", || {
                format!("block {block}, number {index} of sequence {id}, carries {found:?} instead of {expected:?}")
            })?;
        }
    }
    for (block, &refs) in refs.iter().enumerate() {
        let counted = engine.kv.refs(block as u32);
        ensure(refs == counted, "E2", || format!("{refs} tables hold block {block}, {counted} are counted"))?;
    }
    Ok(())
}

fn check_stats(engine: &Engine) -> Result<(), InvariantViolation> {
    let stats = &engine.stats;
    let gone = stats.finished.saturating_add(stats.cancelled).saturating_add(stats.expired);
    let here = engine.sequences.len() as u64;
    ensure(stats.submitted == gone.saturating_add(here), "E11", || {
        format!("{} submitted, {gone} gone and {here} here", stats.submitted)
    })?;
    let queued = engine.waiting.iter().chain(&engine.running).filter_map(|&place| engine.sequences.get(place));
    let unanswered =
        queued.filter(|sequence| sequence.outputs == 0).map(|sequence| u64::from(sequence.request.prompt.len));
    let backlog: u64 = unanswered.sum();
    ensure(stats.prefill_backlog == backlog, "E11", || {
        format!("the prefill backlog shows {} instead of {backlog}", stats.prefill_backlog)
    })?;
    let found = stats.hit_tokens.saturating_add(stats.fetched_tokens);
    ensure(found <= stats.prompt_tokens, "E11", || "more found and fetched than prompt tokens".into())?;
    let gauges = [
        ("waiting", stats.waiting, engine.waiting.len() as u32),
        ("running", stats.running, engine.running.len() as u32),
        ("used_blocks", stats.used_blocks, engine.kv.used()),
        ("reusable_blocks", stats.reusable_blocks, engine.kv.reusable()),
    ];
    for (gauge, shown, is) in gauges {
        ensure(shown == is, "E11", || format!("{gauge} shows {shown} instead of {is}"))?;
    }
    Ok(())
}
