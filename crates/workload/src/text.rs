//! Readable synthetic text: short plain sentences from small word lists.

use servelab_engine::random::Stream;

const ROLES: &[&str] = &[
    "answer letters",
    "plan journeys",
    "read invoices",
    "look after gardens",
    "write summaries",
    "check contracts",
    "help sailors",
    "sort photographs",
    "teach chess",
    "book rooms",
    "explain recipes",
    "translate notes",
];
const PLACES: &[&str] = &[
    "a small library",
    "a harbour office",
    "a bakery",
    "a railway museum",
    "a village school",
    "a repair shop",
    "a weather station",
    "a theatre",
    "an orchard",
    "a print house",
    "a river ferry",
    "a city clinic",
];
const VERBS: &[&str] =
    &["Name", "Check", "List", "Compare", "Explain", "Weigh", "Repeat", "Count", "Mark", "Sort", "Quote", "Skip"];
const THINGS: &[&str] = &[
    "every date",
    "the open questions",
    "all prices",
    "the main points",
    "each source",
    "the two best options",
    "any doubt",
    "the next steps",
    "missing numbers",
    "the shortest way",
    "old entries",
    "the reasons",
];
const ENDS: &[&str] = &[
    "in plain words",
    "before you answer",
    "when asked twice",
    "in one line",
    "without haste",
    "at the end",
    "for every guest",
    "by the hour",
    "from memory",
    "as a table",
    "with care",
    "in order",
];

fn pick<'a>(words: &[&'a str], stream: &mut Stream) -> &'a str {
    words[stream.below(words.len() as u64) as usize]
}

/// A system prompt of exactly `len` bytes that opens with `name`, so that tenants differ in their first bytes. Names
/// end in a full stop and none is the beginning of another with its stop, hence no two texts share a first block
/// that is longer than a name.
pub(crate) fn system_prompt(name: &str, len: u32, stream: &mut Stream) -> Vec<u8> {
    let mut text = format!("{name}. You {} for {}.", pick(ROLES, stream), pick(PLACES, stream));
    while text.len() < len as usize {
        text.push(' ');
        text.push_str(pick(VERBS, stream));
        text.push(' ');
        text.push_str(pick(THINGS, stream));
        text.push(' ');
        text.push_str(pick(ENDS, stream));
        text.push('.');
    }
    text.truncate(len as usize);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_ascii_of_the_length_asked_for_and_opens_with_the_name() {
        let stream = Stream::new(1, b"text");
        for len in [0, 1, 5, 64, 1000] {
            let text = system_prompt("AB", len, &mut stream.split(u64::from(len)));
            assert_eq!(text.len(), len as usize);
            assert!(text.is_ascii());
            assert!(text.starts_with(&b"AB. You "[..text.len().min(8)]));
        }
    }
}
