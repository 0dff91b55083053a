//! The glossary: every term of the page and its one definition. Table heads, prose and the list of all read it here.

/// A term.
pub(crate) struct Term {
    /// Names it in attributes.
    pub id: &'static str,
    /// As it stands in the list.
    pub name: &'static str,
    /// What it is.
    pub words: &'static str,
    /// How prose says it, in small letters; a plural's *s* is understood. Words that everybody uses otherwise, too, are left out.
    pub said: &'static [&'static str],
}

macro_rules! terms {
    ($($id:literal $name:literal $words:literal [$($said:literal),*];)*) => {
        /// All terms, by topic.
        pub(crate) const TERMS: &[Term] = &[$(Term { id: $id, name: $name, words: $words, said: &[$($said),*] }),*];
    };
}

terms! {
    "request" "Request" "One prompt somebody sends, and the answer to it." [];
    "tenant" "Tenant" "Somebody whose requests share a prompt's beginning, such as a customer with a system prompt; a colour and a letter on the stage." ["tenant"];
    "session" "Session" "A conversation: each turn repeats what was said so far." ["conversation"];
    "prefix" "Prefix" "The beginning that several prompts share; its work can be done once and reused." ["prefix", "shared prompt"];
    "router" "Router" "What sends each request to a replica." ["router"];
    "policy" "Policy" "The rule by which a router chooses." ["policies"];
    "replica" "Replica" "One engine with the whole model, its own queue, blocks and cache." ["replica"];
    "gateway" "Gateway" "What stands in front of the routers: it admits, holds or turns away." ["gateway"];
    "fleet" "Fleet" "All replicas of a model, with the routers and the gateway before them." ["fleet"];
    "live" "Live run" "A run whose steps a real small model computes on this device; a priced run takes each step's time from a cost model instead." ["priced"];
    "sequence" "Sequence" "A request inside an engine: its prompt and what was generated so far." ["sequence"];
    "step" "Step" "One pass of the model over everything in the batch: prompt tokens of some sequences, one new token of others." [];
    "prefill" "Prefill" "Computing a prompt's tokens; it ends with the first token of the answer." ["prefill"];
    "decode" "Decode" "Computing an answer token by token, one a step." ["decode"];
    "slot" "Slot" "A place in an engine's batch; a sequence that runs holds one." [];
    "block" "KV block" "A piece of a replica's memory that holds keys and values of so many tokens, 16 unless it is set otherwise." ["kv block", "block", "kv-cache", "kv cache"];
    "block_table" "Block table" "The list of the blocks that hold a sequence's tokens, in order." ["block table"];
    "cache" "Prefix cache" "Blocks kept after use: a prompt that begins alike finds them and computes only the rest." ["prefix cache", "cache", "cached"];
    "reuse" "Reuse" "Prompt tokens served from cache ÷ prompt tokens." ["reuse", "reused", "hit rate"];
    "ceiling" "Most that could be reused" "What one cache of unlimited size would reuse, seeing all requests in order." [];
    "fetched" "Fetched" "With a shared store: prompt tokens fetched from it because the replica's own cache had not got them ÷ prompt tokens." ["shared store"];
    "kv_peak" "KV peak" "Highest share of a replica's KV blocks held by sequences, blocks kept for reuse left out." [];
    "preemption" "Preemption" "A running sequence loses its blocks to others and is computed again later." ["preemption", "preempted"];
    "imbalance" "Imbalance" "Largest replica ÷ mean replica, of requests assigned and of prompt tokens that had to be computed; 1 is even." ["imbalance"];
    "guard" "Guard" "What keeps affinity from sending everything to one replica: past so much load another is taken." ["guard"];
    "ttft" "TTFT" "Time to first token: first token − arrival." ["ttft", "time to first token", "first token"];
    "itl" "ITL" "Inter-token latency: mean gap after the first token, per request." ["itl"];
    "e2e" "E2E" "End to end: last token − arrival." ["e2e"];
    "wait" "Wait" "Arrival until the request first enters a batch." [];
    "percentile" "p50, p95, p99" "Percentiles: half, 95 % or 99 % of requests were at or below this value. p50 is the median." ["p50", "p95", "p99", "median", "percentile"];
    "slo" "SLO" "The limits of what counts as good: on TTFT and on ITL." ["slo"];
    "goodput" "Goodput" "Requests that met every limit ÷ time." ["goodput"];
    "output" "Output" "Output tokens ÷ duration of the run." [];
    "seed" "Seed" "The number that all random draws follow from: the same seed, the same arrivals." ["seed"];
    "noise" "Within noise" "A difference that could as well be chance: zero lies in its 95 % interval." ["within noise", "noise"];
    "knee" "Knee" "The highest offered rate at which the limits are still kept." ["knee"];
    "capacity" "Capacity" "Requests per second that ready replicas can serve; under more, a queue grows without end." ["capacity"];
    "signal" "Signal" "A number an autoscaler or a router decides by. It is known at once, as of the last scrape, or as of the last event that arrived." ["signal"];
    "autoscaler" "Autoscaler" "A controller that starts and stops replicas by a signal." ["autoscaler", "controller"];
    "cold_start" "Cold start" "Everything between the decision for a new replica and its first answer: node, image, weights, warm-up, probes." ["cold start"];
    "probe" "Probe" "A question that Kubernetes asks a replica again and again: started, ready, alive?" ["probe"];
    "drain" "Drain" "A replica that is to go takes nothing new and finishes what it has, until its grace period ends." ["drain", "draining"];
    "spare" "Spare" "A replica that is started and takes no requests until it is needed." ["spare"];
    "late" "Users late" "Time in which some request that arrived missed the TTFT limit, was refused or was lost." [];
    "replica_hours" "Replica hours" "Time that replicas were there, all together." [];
    "node_hours" "Node hours" "Node hours paid for: a node outlives its replica." [];
    "given_up_starts" "Given up / started" "Replicas that went before they were ready, of those that were started." [];
    "cache_lost" "Cache lost" "Cached tokens thrown away with replicas that went." [];
    "attempt" "Attempt" "One try of a request; a client that gives up waiting may try again." ["attempt"];
    "amplification" "Amplification" "Attempts ÷ requests." ["amplification"];
    "retry" "Retry" "A further attempt after one that failed or took too long." ["retry", "retries"];
    "backoff" "Backoff" "How long a client waits before it tries again; with jitter, a random part of that." ["backoff", "jitter"];
    "budget" "Retry budget" "A limit on repeats as a share of requests." ["budget"];
    "hedge" "Hedge" "A second attempt sent while the first is still under way; whichever answers first counts." ["hedge"];
    "metastable" "Metastable" "Overloaded by its own repeats: the cause is over and the overload stays." ["metastable"];
    "peak_load" "Peak load" "Most attempts in a second, as a multiple of what the fleet can serve." [];
    "served" "All served" "When the last request was answered." [];
    "waiting" "Still waiting" "Requests whose clients still wait where the run ends." [];
    "useful" "Useful" "Share of capacity that went into answers somebody waited for." [];
    "wasted" "Wasted" "Share of capacity that went into attempts nobody waited for, or that were lost." [];
    "refusing" "Refusing" "Share of capacity that went into turning attempts away." [];
    "down" "Down" "Share of capacity lost while replicas were down or stood still." [];
    "timed_out" "Timed out" "Attempts that took too long for their clients." [];
    "held" "Held" "Time at the gateway, all attempts of a request together." [];
    "turned_away" "Turned away" "Attempts that were refused; a request that was tried again counts each time." ["turned away"];
    "429" "429 and 503" "429: the caller is over its quota. 503: there is no capacity for it now." ["429", "503"];
}

texts! {
    GLOSSARY = "Glossary";
    GLOSSARY_NOTE = "Every term of this page. Where one is underlined with dots, it explains itself: point at it, tab to it, or tap it.";
}

/// The term with this id.
pub(crate) fn term(id: &str) -> Option<&'static Term> {
    TERMS.iter().find(|term| term.id == id)
}

/// Its definition; empty for a term that there is not.
pub(crate) fn definition(id: &str) -> &'static str {
    term(id).map_or("", |term| term.words)
}

/// A piece of prose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// As it is.
    Plain(&'a str),
    /// A term's id, and how the prose says it.
    Term(&'static str, &'a str),
}

/// Finds terms in prose, each only where it is said first.
#[derive(Default)]
pub(crate) struct Marker {
    seen: Vec<&'static str>,
}

impl Marker {
    /// The pieces of `text`.
    pub(crate) fn pieces<'a>(&mut self, text: &'a str) -> Vec<Piece<'a>> {
        let (mut pieces, mut from) = (Vec::new(), 0);
        let mut inside = false;
        for (at, c) in text.char_indices() {
            let begins = c.is_alphanumeric() && !inside;
            // Marks within a number do not end it: what follows one is no word of its own.
            inside = c.is_alphanumeric() || inside && (c == '-' || goes_on(&text[at..]) && ends_in_digit(&text[..at]));
            if !begins || at < from {
                continue;
            }
            if let Some((id, length)) = self.found(&text[at..]) {
                if from < at {
                    pieces.push(Piece::Plain(&text[from..at]));
                }
                pieces.push(Piece::Term(id, &text[at..at + length]));
                from = at + length;
            }
        }
        if from < text.len() {
            pieces.push(Piece::Plain(&text[from..]));
        }
        pieces
    }

    /// The longest term that `text` begins with and that was not said yet.
    fn found(&mut self, text: &str) -> Option<(&'static str, usize)> {
        let all = TERMS.iter().flat_map(|term| term.said.iter().map(move |said| (term.id, *said)));
        let here = all.filter_map(|(id, said)| Some((id, begins_with(text, said)?)));
        let (id, length) = here.max_by_key(|(_, length)| *length)?;
        if self.seen.contains(&id) {
            return None;
        }
        self.seen.push(id);
        Some((id, length))
    }
}

/// After a digit, whether `text` goes on with the same number: a mark and a digit.
fn goes_on(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|mark| matches!(mark, '.' | ',' | '’' | '\u{a0}' | '\u{202f}'))
        && chars.next().is_some_and(|digit| digit.is_ascii_digit())
}

fn ends_in_digit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit())
}

/// How much of `text` is the word `said`, or its plural, when it begins with it.
fn begins_with(text: &str, said: &str) -> Option<usize> {
    let head = text.get(..said.len())?;
    if !head.eq_ignore_ascii_case(said) {
        return None;
    }
    let ends = |at: usize| {
        let rest = &text[at..];
        let longer = rest.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
        !(longer || goes_on(rest) && ends_in_digit(&text[..at]))
    };
    if ends(said.len()) {
        return Some(said.len());
    }
    (text[said.len()..].starts_with('s') && ends(said.len() + 1)).then_some(said.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::Piece::{Plain, Term};
    use super::*;

    #[test]
    fn ids_are_unique_and_every_definition_is_a_sentence() {
        for (at, term) in TERMS.iter().enumerate() {
            assert!(TERMS[..at].iter().all(|before| before.id != term.id && before.name != term.name), "{}", term.id);
            assert!(term.words.ends_with('.') || term.words.ends_with('?'), "{}: {}", term.id, term.words);
            assert!(term.said.iter().all(|said| said.to_lowercase() == *said), "{}", term.id);
        }
    }

    /// DESIGN's list of words.
    #[test]
    fn what_the_project_calls_things_is_there() {
        for id in [
            "request",
            "sequence",
            "block",
            "slot",
            "block_table",
            "prefill",
            "decode",
            "step",
            "replica",
            "router",
            "policy",
            "gateway",
            "tenant",
            "session",
            "ttft",
            "itl",
            "e2e",
            "goodput",
            "reuse",
            "imbalance",
            "preemption",
            "cold_start",
            "drain",
            "attempt",
            "amplification",
        ] {
            assert!(term(id).is_some(), "{id}");
        }
    }

    #[test]
    fn terms_are_found_as_whole_words_once_and_the_longest_first() {
        let mut marker = Marker::default();
        assert_eq!(
            marker.pieces("A cold start, then TTFTs: no cacheline, two replicas and a replica."),
            [
                Plain("A "),
                Term("cold_start", "cold start"),
                Plain(", then "),
                Term("ttft", "TTFTs"),
                Plain(": no cacheline, two "),
                Term("replica", "replicas"),
                Plain(" and a replica."),
            ]
        );
        assert_eq!(marker.pieces("Its TTFT"), [Plain("Its TTFT")], "said before");
        assert_eq!(Marker::default().pieces("KV-cache usage"), [Term("block", "KV-cache"), Plain(" usage")]);
        assert_eq!(Marker::default().pieces("×, größer, p95"), [Plain("×, größer, "), Term("percentile", "p95")]);
        assert!(Marker::default().pieces("").is_empty());
        for number in ["8,022,503", "8\u{202f}022\u{202f}429", "503.2", "429,1"] {
            assert_eq!(Marker::default().pieces(number), [Plain(number)]);
        }
        let (refused, after) = (Term("429", "429"), Plain(", 7 of them."));
        assert_eq!(Marker::default().pieces("Each got 429, 7 of them."), [Plain("Each got "), refused, after]);
    }

    #[test]
    fn nothing_of_a_text_is_lost() {
        let text = "4 replicas, shared 2000-token system prompts, caches that cannot hold them all, high TTFT: why?";
        let joined: String = Marker::default()
            .pieces(text)
            .iter()
            .map(|piece| match piece {
                Plain(words) | Term(_, words) => *words,
            })
            .collect();
        assert_eq!(joined, text);
    }
}
