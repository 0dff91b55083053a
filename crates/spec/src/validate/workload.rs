//! What must hold between the settings of a workload.

use super::SpecError;
use crate::experiment::{ExecutionMode, Spec, WorkloadSpec};

/// Most distinct tokens of system prompts, or of documents: they are held in memory once.
const MAX_INTERNED_TOKENS: u64 = 50_000_000;

/// Most agents of one task: a request is found again by walking its task.
const MAX_AGENTS: u64 = 10_000;

pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    for (part, low, high) in ranges(&spec.workload) {
        if low > high {
            let accepted = format!("accepted is at most workload.{part}_max, which is {high}");
            return Err(SpecError::new(format!("workload.{part}_min"), low, accepted));
        }
    }
    let (what, many, each) = interned(&spec.workload);
    if u64::from(many) * u64::from(each) > MAX_INTERNED_TOKENS {
        let found = format!("{many} {what} with up to {each} tokens each");
        let accepted = format!("accepted are {MAX_INTERNED_TOKENS} tokens in all");
        return Err(SpecError::new(format!("workload.{what}"), found, accepted));
    }
    match &spec.workload {
        WorkloadSpec::Demand(w) => w.check(),
        WorkloadSpec::Trace(_) if spec.execution.mode == ExecutionMode::Tinygpt => {
            let accepted = "a trace has lengths and block keys and no text, which the real model would have to read; a trace needs execution.mode=priced";
            Err(SpecError::new("workload.kind", "trace", accepted))
        }
        WorkloadSpec::Trace(w) => w.check(),
        WorkloadSpec::Generated(w) => w.check(),
        WorkloadSpec::AgentTree(w) if w.agents() > MAX_AGENTS => {
            let found = format!("{} on each of {} levels", w.branches, w.depth);
            let accepted = format!("accepted are at most {MAX_AGENTS} agents a task");
            Err(SpecError::new("workload.branches", found, accepted))
        }
        // A turn's prompt holds the answers before it, which are drawn ahead; a real model would have given others, and what it
        // cached would not be what is asked for.
        WorkloadSpec::Sessions(_) if spec.execution.mode == ExecutionMode::Tinygpt => {
            let accepted = "with the real model accepted are workloads whose prompts hold no earlier answer (book_trace, multi_tenant, agent_tree, long_short); sessions need execution.mode=priced";
            Err(SpecError::new("workload.kind", "sessions", accepted))
        }
        _ => Ok(()),
    }
}

fn ranges(workload: &WorkloadSpec) -> Vec<(&'static str, u32, u32)> {
    match workload {
        WorkloadSpec::BookTrace | WorkloadSpec::Trace(_) => vec![],
        WorkloadSpec::Generated(w) => vec![("system", w.system_min, w.system_max)],
        WorkloadSpec::MultiTenant(w) => vec![
            ("system", w.system_min, w.system_max),
            ("user", w.user_min, w.user_max),
            ("output", w.output_min, w.output_max),
        ],
        WorkloadSpec::Sessions(w) => vec![
            ("turns", w.turns_min, w.turns_max),
            ("system", w.system_min, w.system_max),
            ("user", w.user_min, w.user_max),
            ("output", w.output_min, w.output_max),
        ],
        WorkloadSpec::AgentTree(w) => vec![
            ("system", w.system_min, w.system_max),
            ("task", w.task_min, w.task_max),
            ("user", w.user_min, w.user_max),
            ("output", w.output_min, w.output_max),
        ],
        WorkloadSpec::LongShort(w) => vec![
            ("document", w.document_min, w.document_max),
            ("user", w.user_min, w.user_max),
            ("output", w.output_min, w.output_max),
        ],
        WorkloadSpec::Demand(w) => vec![
            ("system", w.system_min, w.system_max),
            ("user", w.user_min, w.user_max),
            ("output", w.output_min, w.output_max),
        ],
    }
}

/// What is held in memory once: which setting counts it, how many there are, and the longest.
fn interned(workload: &WorkloadSpec) -> (&'static str, u32, u32) {
    match workload {
        WorkloadSpec::BookTrace | WorkloadSpec::Trace(_) => ("tenants", 0, 0),
        WorkloadSpec::Generated(w) => ("tenants", w.tenants, w.system_max),
        WorkloadSpec::MultiTenant(w) => ("tenants", w.tenants, w.system_max),
        WorkloadSpec::Sessions(w) => ("tenants", w.tenants, w.system_max),
        WorkloadSpec::AgentTree(w) => ("tenants", w.tenants, w.system_max),
        WorkloadSpec::LongShort(w) => ("documents", w.documents, w.document_max),
        WorkloadSpec::Demand(w) => ("tenants", w.tenants, w.system_max),
    }
}
