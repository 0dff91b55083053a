//! Tasks that fan out: a first agent, its sub-agents, theirs, each prompt beginning with that of the agent above.
//!
//! An agent's prompt is the tenant's system prompt, the description of the task, and a part for every level down to it; it holds no answers.
//! The task is the first user message of all its agents; what is below adds further ones.
//! The agents of a task carry the task's number as their session, as a client would send that wants them kept together.
//!
//! The loop is open, as that of sessions is: sub-agents start `answer_s` after their parent was sent, each after a delay of its own with mean
//! `burst_s`. With a short delay siblings arrive before any of them, or an event about them, could tell a router where the shared part lies.
//!
//! Agents are numbered level by level: those below agent `i` are `i·b + 1` to `i·b + b`, and the one above it is `(i − 1) ÷ b`.

use super::schedule::{Schedule, Slot, nanos};
use super::{Workload, check};
use crate::population::{self, Growth, Popularity, Tenant, many_ids};
use crate::request::Request;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use servelab_spec::experiment::AgentTreeSpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;

/// Draws of tasks and of their agents.
#[derive(Debug)]
struct Draws {
    starts: Stream,
    whose: Stream,
    task_lengths: Stream,
    tasks: Stream,
    delays: Stream,
    user_lengths: Stream,
    users: Stream,
    outputs: Stream,
    samples: Stream,
}

#[derive(Debug)]
struct Tasks {
    sizes: AgentTreeSpec,
    block_tokens: u32,
    tenants: Box<[Tenant]>,
    popularity: Popularity,
    draws: Draws,
    schedule: Schedule,
}

/// The agent tree workload.
#[derive(Clone, Debug)]
pub(crate) struct AgentTree {
    all: Arc<Tasks>,
    next: u32,
}

/// The sub-stream of one agent.
fn of(stream: &Stream, task: u32, agent: u32) -> Stream {
    stream.split(task.into()).split(agent.into())
}

impl AgentTree {
    /// Draws who comes when, and builds the tenants' prompts.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub(crate) fn new(sizes: &AgentTreeSpec, seed: u64, block_tokens: u32, rate_per_s: f64) -> Result<Self, SpecError> {
        check::range("system", (sizes.system_min, sizes.system_max), 0)?;
        check::range("task", (sizes.task_min, sizes.task_max), 1)?;
        check::range("user", (sizes.user_min, sizes.user_max), 1)?;
        check::range("output", (sizes.output_min, sizes.output_max), 1)?;
        check::whole("branches", sizes.branches, 1, 64)?;
        check::whole("depth", sizes.depth, 0, 6)?;
        check::real("burst_s", sizes.burst_s, 1e6)?;
        check::real("answer_s", sizes.answer_s, 1e6)?;
        check::requests(sizes.requests)?;
        check::tenants(sizes.tenants, sizes.skew)?;
        check::rate(rate_per_s)?;
        let stream = |purpose: &[u8]| Stream::new(seed, purpose);
        let draws = Draws {
            starts: stream(b"task_start"),
            whose: stream(b"tenant"),
            task_lengths: stream(b"task_length"),
            tasks: stream(b"task"),
            delays: stream(b"sibling_delay"),
            user_lengths: stream(b"user_length"),
            users: stream(b"user"),
            outputs: stream(b"output_length"),
            samples: stream(b"sampling"),
        };
        let gap_ns = 1e9 * sizes.agents() as f64 / rate_per_s;
        // Agents past the last request are never drawn, however large a task is.
        let agents = sizes.agents().min(sizes.requests.into()) as u32;
        let schedule = Schedule::new(
            sizes.requests,
            |task| draws.starts.split(task.into()).exponential() * gap_ns,
            |task, start, members| {
                members.push(start);
                for agent in 1..agents {
                    let above = members[((agent - 1) / sizes.branches) as usize];
                    let delay = of(&draws.delays, task, agent).exponential() * sizes.burst_s;
                    members.push(above + nanos((sizes.answer_s + delay) * 1e9));
                }
            },
        );
        let lengths = (sizes.system_min, sizes.system_max);
        let all = Tasks {
            block_tokens,
            tenants: population::tenants(seed, sizes.tenants, lengths, block_tokens, |_| 0),
            popularity: Popularity::new(sizes.tenants, sizes.skew),
            draws,
            schedule,
            sizes: sizes.clone(),
        };
        Ok(AgentTree { all: Arc::new(all), next: 0 })
    }
}

impl Tasks {
    fn request(&self, index: u32, slot: Slot) -> Request {
        let Slot { at, group: task, member: agent } = slot;
        let (sizes, draws) = (&self.sizes, &self.draws);
        let tenant = self.popularity.draw(draws.whose.split(task.into()));
        let system = &self.tenants[tenant as usize];
        let length = draws.task_lengths.split(task.into()).between(sizes.task_min, sizes.task_max);
        let more = length as usize + sizes.depth as usize * sizes.user_max as usize;
        let mut growth = Growth::new(system, more, self.block_tokens);
        growth.read(many_ids(draws.tasks.split(task.into()), length));
        self.instruct(&mut growth, task, agent);
        let output_tokens = of(&draws.outputs, task, agent).between(sizes.output_min, sizes.output_max);
        let seed = of(&draws.samples, task, agent).next_u64() >> 11;
        Request {
            index,
            tenant,
            session: Some(task.into()),
            arrival: at,
            prompt: growth.into_prompt(),
            user_at: system.len(),
            user_tokens: length,
            max_tokens: sizes.output_max,
            output_tokens,
            ignore_eos: true,
            sampling: Sampling { seed, ..Sampling::default() },
            output_seed: index.into(),
            adapter: None,
        }
    }

    /// Adds the parts of the agents from below the first one down to `agent`.
    fn instruct(&self, growth: &mut Growth, task: u32, agent: u32) {
        let Some(before) = agent.checked_sub(1) else { return };
        self.instruct(growth, task, before / self.sizes.branches);
        let len = of(&self.draws.user_lengths, task, agent).between(self.sizes.user_min, self.sizes.user_max);
        growth.read(many_ids(of(&self.draws.users, task, agent), len));
    }
}

impl Workload for AgentTree {
    fn next_request(&mut self) -> Option<Request> {
        let request = self.request_again(self.next)?;
        self.next += 1;
        Some(request)
    }

    fn total(&self) -> u32 {
        self.all.schedule.len()
    }

    fn tenants(&self) -> u32 {
        self.all.sizes.tenants
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        self.all.schedule.get(index).map(|slot| self.all.request(index, slot))
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, Nanos::ZERO)
    }

    fn seek(&mut self, next: u32, _clock: Nanos) {
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Requests with the agent each is, by task and agent.
    fn agents(sizes: &AgentTreeSpec, seed: u64) -> BTreeMap<(u32, u32), Request> {
        let source = AgentTree::new(sizes, seed, 16, 4.0).unwrap();
        let all = (0..source.total()).map(|index| {
            let slot = source.all.schedule.get(index).unwrap();
            ((slot.group, slot.member), source.request_again(index).unwrap())
        });
        all.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// An agent's prompt is its parent's and a part of its own; it comes after its parent's answer.
        #[test]
        fn a_sub_agent_extends_its_parent(seed in 0u64..1 << 53, branches in 1u32..4, depth in 0u32..4) {
            let sizes = AgentTreeSpec { requests: 85, branches, depth, ..Default::default() };
            let many = sizes.agents() as u32;
            let all = agents(&sizes, seed);
            prop_assert_eq!(all.len(), 85);
            for (&(task, agent), request) in &all {
                prop_assert!(agent < many);
                prop_assert_eq!(request.session, Some(task.into()));
                let Some(before) = agent.checked_sub(1) else {
                    let task = request.prompt.len - request.user_at;
                    prop_assert!((sizes.task_min..=sizes.task_max).contains(&task));
                    continue;
                };
                let parent = &all[&(task, before / branches)];
                prop_assert_eq!(parent.tenant, request.tenant);
                let own = request.prompt.len - parent.prompt.len;
                prop_assert!((sizes.user_min..=sizes.user_max).contains(&own));
                let ids = |request: &Request| request.prompt.tokens.clone().unwrap();
                prop_assert!(ids(request).starts_with(&ids(parent)));
                for index in 0..parent.prompt.full_blocks() {
                    prop_assert_eq!(parent.prompt.key(index), request.prompt.key(index));
                }
                prop_assert!(request.arrival >= parent.arrival + Nanos::from_secs(sizes.answer_s));
            }
        }
    }

    /// By hand: three sub-agents each on two levels are 1 + 3 + 9; agents 1 to 3 hang below 0, 4 to 6 below 1.
    #[test]
    fn a_task_is_a_tree() {
        let sizes = AgentTreeSpec { requests: 26, depth: 2, branches: 3, ..Default::default() };
        assert_eq!(sizes.agents(), 13);
        let all = agents(&sizes, 3);
        let length = |agent: u32| all[&(0, agent)].prompt.len;
        assert!((1..=3).all(|agent| length(agent) > length(0)));
        assert!((4..=6).all(|agent| length(agent) > length(1)));
        assert!(all.keys().filter(|&&(task, _)| task == 1).count() == 13);
    }

    #[test]
    fn unusable_sizes_name_their_field() {
        let base = AgentTreeSpec::default();
        let cases = [
            (AgentTreeSpec { branches: 0, ..base.clone() }, 1.0, "workload.branches"),
            (AgentTreeSpec { depth: 7, ..base.clone() }, 1.0, "workload.depth"),
            (AgentTreeSpec { task_min: 0, ..base.clone() }, 1.0, "workload.task_min"),
            (AgentTreeSpec { burst_s: f64::INFINITY, ..base.clone() }, 1.0, "workload.burst_s"),
            (base, -1.0, "workload.rate"),
        ];
        for (sizes, rate, field) in cases {
            assert_eq!(AgentTree::new(&sizes, 0, 16, rate).unwrap_err().field, field);
        }
    }
}
