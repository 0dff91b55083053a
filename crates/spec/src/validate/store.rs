//! What a store behind the replicas needs of the rest.

use super::SpecError;
use crate::experiment::{ExecutionMode, Spec};

pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    let store = &spec.store;
    if store.blocks == 0 {
        return Ok(());
    }
    let without = |why: &str| Err(SpecError::new("store.blocks", store.blocks, format!("accepted is 0 {why}")));
    match spec.execution.mode {
        ExecutionMode::Tick => return without("in a run in ticks: its replicas have no KV blocks"),
        ExecutionMode::Server => return without("in a run of servers: they have no KV blocks"),
        ExecutionMode::Tinygpt => {
            return without(
                "with the real model, whose K and V are not copied between replicas; a store needs execution.mode=priced",
            );
        }
        ExecutionMode::Priced => {}
    }
    if !spec.engine.prefix_cache {
        return without("while engine.prefix_cache is off: what is fetched goes into that cache");
    }
    if spec.execution.cost == "custom" && store.token_bytes == 0 {
        let accepted = "accepted is at least 1 (bytes) with execution.cost=custom: coefficients alone name no model";
        return Err(SpecError::new("store.token_bytes", 0, accepted));
    }
    Ok(())
}
