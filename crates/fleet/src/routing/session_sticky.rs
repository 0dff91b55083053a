//! Session-sticky: a conversation stays with one replica.
//!
//! vLLM production-stack's `session`: a consistent hash ring on the session's id. A request without one goes to the replica with the fewest
//! arrivals per second.

use super::params::Params;
use super::qps::QpsWindow;
use super::registry::Entry;
use super::ring::Ring;
use super::{Choice, Policy, RequestView, RouteContext};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::{Stream, mix};
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "session_sticky";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Sets apart sessions from whatever else is hashed.
pub(super) const SESSION: u64 = 0x7365_7373;

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Session-sticky".into(),
        family: Family::Affinity,
        project: "vLLM production-stack".into(),
        reads_prompt: false,
        summary: "Keeps each session on the replica that its id hashes to on a ring; requests without a session go to the replica with the fewest arrivals per second.".into(),
        reads: "The session's id, from a header or a field of the request: not the prompt. For requests without one, its own log of what it sent where.".into(),
        compares: "Without a session: arrivals per second, the fewest win. With one, nothing.".into(),
        fails: "No load is looked at: a replica that drew long sessions stays hot, and a newcomer gets about its share of sessions however busy the others are. What sessions have in common is computed on every replica.".into(),
        // 160: uhashring, which production-stack uses, places 40 nodes of 4 points each, as ketama does.
        params: vec![Ring::param(160), QpsWindow::param()],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(SessionSticky { ring: Ring::new(params.integer(Ring::NAME)), window: QpsWindow::of(params) })
}

struct SessionSticky {
    ring: Ring,
    window: QpsWindow,
}

impl Policy for SessionSticky {
    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        let owner = ctx.request.session.and_then(|session| self.ring.first(mix(SESSION, session), ctx.candidates));
        match owner {
            Some(at) => Choice::new(ctx.candidates[at], "its session's place on the ring"),
            None => {
                let at = self.window.lowest(ctx.now, ctx.candidates, scores);
                Choice::new(ctx.candidates[at], "no session: fewest arrivals per second")
            }
        }
    }

    fn dispatched(&mut self, now: Nanos, _request: &RequestView<'_>, replica: u32) {
        self.window.sent(now, replica);
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.ring.set(ready);
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.window).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.window = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    fn send(bench: &mut Bench, session: Option<u64>, tokens: &[u32]) -> u32 {
        let prompt = prompt(tokens);
        bench.send_request(RequestView { session, ..Bench::request(&prompt) })
    }

    #[test]
    fn a_session_stays_whatever_it_asks_and_however_busy_its_replica_is() {
        let mut bench = Bench::of(NAME, 4);
        let homes: Vec<u32> = (0..40).map(|session| send(&mut bench, Some(session), &[1])).collect();
        assert!((0..4).all(|replica| homes.contains(&replica)), "{homes:?}");
        for round in 2..6 {
            let again: Vec<u32> = (0..40).map(|session| send(&mut bench, Some(session), &[round; 30])).collect();
            assert_eq!(again, homes);
        }
    }

    #[test]
    fn only_sessions_of_a_leaver_move_and_a_fifth_of_all_to_a_fifth_replica() {
        let mut bench = Bench::of(NAME, 5);
        let mut homes = |ready: &[u32]| -> Vec<u32> {
            bench.replicas(ready);
            (0..1000).map(|session| send(&mut bench, Some(session), &[1])).collect()
        };
        let four = homes(&[0, 1, 2, 3]);
        let five = homes(&[0, 1, 2, 3, 4]);
        let three = homes(&[0, 1, 3]);
        let moved = four.iter().zip(&five).filter(|(four, five)| four != five).count();
        // 200 ± 5 standard deviations of the newcomer's share: 160 points give 8 %, 1000 sessions 6 %.
        assert!((100..300).contains(&moved), "{moved}");
        assert!(four.iter().zip(&five).all(|(four, five)| four == five || *five == 4));
        assert!(four.iter().zip(&three).all(|(four, three)| four == three || *four == 2));
    }

    #[test]
    fn without_a_session_the_fewest_arrivals_win_and_sessions_count_among_them() {
        let mut bench = Bench::of(NAME, 3);
        let home = send(&mut bench, Some(7), &[1]);
        let others: Vec<u32> = (0..3).filter(|&replica| replica != home).collect();
        assert_eq!([(); 2].map(|()| send(&mut bench, None, &[1])).to_vec(), others, "first those never sent to");
        send(&mut bench, Some(7), &[1]);
        bench.reload(PolicySpec::named(NAME));
        assert_eq!(send(&mut bench, None, &[1]), others[0]);
        assert_eq!(bench.scores.len(), 3);
        assert_eq!(send(&mut bench, Some(7), &[1]), home, "the ring is rebuilt");
        assert!(bench.policy.restore(&Value::Null).is_err());
    }
}
