//! Any CSV with a row of names: columns by a map, or by names that people use.

use super::super::clock::wall_clock;
use super::super::collector::{Collector, Entry};
use super::super::problem::{Cause, TraceError};
use super::instant;
use super::table::{Layout, count, needed, number, place};
use servelab_spec::traffic::ColumnMap;

/// Names by which columns are recognised, most telling first; those of times with their unit.
const ARRIVAL: [(&str, &str); 14] = [
    ("arrival_time_ns", "ns"),
    ("timestamp_ns", "ns"),
    ("timestamp_us", "us"),
    ("arrival_time_ms", "ms"),
    ("timestamp_ms", "ms"),
    ("arrival_ms", "ms"),
    ("arrival_s", "s"),
    ("arrived_at", "s"),
    ("arrival_time", "s"),
    ("arrival", "s"),
    ("timestamp", "s"),
    ("start_time", "s"),
    ("ts", "s"),
    ("time", "s"),
];
const PROMPT: [&str; 11] = [
    "prompt_tokens",
    "input_tokens",
    "num_prefill_tokens",
    "context_tokens",
    "contexttokens",
    "request_tokens",
    "input_length",
    "prompt_len",
    "input_len",
    "input_toks",
    "prompt",
];
const OUTPUT: [&str; 11] = [
    "output_tokens",
    "completion_tokens",
    "num_decode_tokens",
    "generated_tokens",
    "generatedtokens",
    "response_tokens",
    "output_length",
    "output_len",
    "output_toks",
    "output",
    "response",
];
const SESSION: [&str; 5] = ["session_id", "conversation_id", "session", "conversation", "chat_id"];
const TENANT: [&str; 6] = ["tenant", "tenant_id", "user", "user_id", "model", "adapter"];
const PREFIX: [&str; 4] = ["prefix", "prefix_id", "system_prompt_id", "template"];
const PREFIX_TOKENS: [&str; 2] = ["prefix_tokens", "prefix_length"];

pub(super) struct Columns {
    asked: Option<ColumnMap>,
    map: ColumnMap,
    unit_ns: f64,
    /// Arrival, prompt, output.
    needed: [usize; 3],
    /// Session, tenant, prefix, its length.
    others: [Option<usize>; 4],
}

impl Columns {
    /// Columns as asked for; by their names when nobody asks.
    pub(super) fn new(asked: Option<ColumnMap>) -> Self {
        Columns { asked, map: ColumnMap::default(), unit_ns: 1e9, needed: [0; 3], others: [None; 4] }
    }
}

/// What the names say by themselves.
fn guess(names: &[String]) -> ColumnMap {
    // Blanks and hyphens are as good as underscores.
    let plain: Vec<String> = names.iter().map(|name| name.to_lowercase().replace([' ', '-'], "_")).collect();
    let find = |known: &[&str]| {
        let at = known.iter().find_map(|known| plain.iter().position(|name| name == known));
        at.map(|at| names[at].clone()).unwrap_or_default()
    };
    let arrival = ARRIVAL.iter().find_map(|(known, unit)| Some((plain.iter().position(|name| name == known)?, *unit)));
    ColumnMap {
        arrival: arrival.map(|(at, _)| names[at].clone()).unwrap_or_default(),
        unit: arrival.map(|(_, unit)| unit.to_owned()).unwrap_or_default(),
        prompt: find(&PROMPT),
        output: find(&OUTPUT),
        session: find(&SESSION),
        tenant: find(&TENANT),
        prefix: find(&PREFIX),
        prefix_tokens: find(&PREFIX_TOKENS),
    }
}

impl Layout for Columns {
    fn names(&mut self, line: u64, names: &[String]) -> Result<(), TraceError> {
        let mut map = guess(names);
        if let Some(asked) = &self.asked {
            // What was named counts; what was not is still guessed where a request can not do without it.
            let (unit, others) =
                (asked.unit.clone(), [&asked.session, &asked.tenant, &asked.prefix, &asked.prefix_tokens]);
            let or = |asked: &String, guessed: String| if asked.is_empty() { guessed } else { asked.clone() };
            let keeps = asked.arrival.is_empty() || asked.arrival == map.arrival;
            map.unit = if unit.is_empty() && keeps { map.unit } else { unit };
            map.arrival = or(&asked.arrival, map.arrival);
            map.prompt = or(&asked.prompt, map.prompt);
            map.output = or(&asked.output, map.output);
            let [session, tenant, prefix, prefix_tokens] = others.map(String::clone);
            map = ColumnMap { session, tenant, prefix, prefix_tokens, ..map };
        }
        self.unit_ns = match map.unit.as_str() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" | "" => 1e9,
            _ => {
                let (found, expected) = (format!("the unit {:?}", map.unit), "a unit of times: s, ms, us or ns");
                return Err(TraceError::Document { line, found, expected });
            }
        };
        for (place, (part, column)) in
            self.needed.iter_mut().zip([("arrival", &map.arrival), ("prompt", &map.prompt), ("output", &map.output)])
        {
            if column.is_empty() {
                return Err(TraceError::Columns { line, columns: names.to_vec(), missing: part });
            }
            *place = needed(line, names, column)?;
        }
        for (slot, column) in self.others.iter_mut().zip([&map.session, &map.tenant, &map.prefix, &map.prefix_tokens]) {
            *slot = if column.is_empty() { None } else { Some(needed(line, names, column)?) };
        }
        // The case of letters may differ from what was asked for.
        for column in [&mut map.arrival, &mut map.prompt, &mut map.output] {
            if let Some(at) = place(names, column) {
                column.clone_from(&names[at]);
            }
        }
        self.map = map;
        Ok(())
    }

    fn record(&mut self, line: u64, fields: &[&str], out: &mut Collector) -> Result<(), Cause> {
        let [at, prompt, output] = self.needed.map(|place| fields[place]);
        let at = match at.parse::<f64>() {
            Ok(value) => instant("arrival", value, self.unit_ns)?,
            Err(_) if at.is_empty() => return Err(Cause::Missing("arrival")),
            Err(_) => wall_clock(at).ok_or(Cause::NotATime("arrival"))?,
        };
        let (prompt, output) = (count("prompt", prompt)?, count("output", output)?);
        let [session, tenant, prefix, prefix_tokens] =
            self.others.map(|place| place.map(|place| fields[place]).filter(|text| !text.is_empty()));
        let tokens = match prefix_tokens {
            Some(text) => Some(super::tokens("prefix_tokens", number("prefix_tokens", text)?)?),
            None => None,
        };
        let session = session.map(|name| out.session(name));
        let group = tenant.unwrap_or_default();
        out.row(
            line,
            Entry { at, prompt, output, session, group, prefix: prefix.map(|name| (name, tokens)), ..Entry::default() },
        );
        Ok(())
    }

    fn map(&self) -> Option<ColumnMap> {
        Some(self.map.clone())
    }
}
