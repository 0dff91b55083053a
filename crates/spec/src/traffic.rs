//! Recorded traffic: in which formats it comes, how a plain table is read, and what reading it found.

use crate::protocol::Chart;
use crate::validate::SpecError;
use serde::{Deserialize, Serialize};

/// What a file of requests looks like inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// Mooncake: JSON lines, milliseconds, keys of 512 tokens.
    Mooncake,
    /// Qwen-Bailian: JSON lines, seconds, keys of 16 tokens, conversations.
    Qwen,
    /// Azure's LLM inference traces: CSV with wall-clock times.
    Azure,
    /// BurstGPT: CSV, seconds, six or eight columns.
    BurstGpt,
    /// The result file of vLLM's serving benchmark with details.
    VllmBench,
    /// Spans of the OpenTelemetry conventions for generative AI, JSON lines.
    Otel,
    /// Any other CSV with a row of names, read by a [`ColumnMap`].
    Columns,
}

impl TraceFormat {
    /// Every format.
    pub const ALL: [TraceFormat; 7] = [
        TraceFormat::Mooncake,
        TraceFormat::Qwen,
        TraceFormat::Azure,
        TraceFormat::BurstGpt,
        TraceFormat::VllmBench,
        TraceFormat::Otel,
        TraceFormat::Columns,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            TraceFormat::Mooncake => "mooncake",
            TraceFormat::Qwen => "qwen",
            TraceFormat::Azure => "azure",
            TraceFormat::BurstGpt => "burst_gpt",
            TraceFormat::VllmBench => "vllm_bench",
            TraceFormat::Otel => "otel",
            TraceFormat::Columns => "columns",
        }
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            TraceFormat::Mooncake => "Mooncake JSON lines",
            TraceFormat::Qwen => "Qwen-Bailian JSON lines",
            TraceFormat::Azure => "Azure LLM inference CSV",
            TraceFormat::BurstGpt => "BurstGPT CSV",
            TraceFormat::VllmBench => "vLLM serving benchmark result",
            TraceFormat::Otel => "OpenTelemetry GenAI spans",
            TraceFormat::Columns => "CSV with named columns",
        }
    }

    /// The format of that name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn named(name: &str) -> Result<Self, SpecError> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let found: String = name.chars().take(40).collect();
            let names = Self::ALL.map(TraceFormat::name).join(", ");
            SpecError::new("format", format!("{found:?}"), format!("accepted are {names}"))
        })
    }
}

/// Which column of a table is what. Empty: there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColumnMap {
    /// Arrival: a number, or a wall-clock time.
    pub arrival: String,
    /// Unit of arrivals that are numbers: `s`, `ms`, `us` or `ns`; seconds when empty.
    pub unit: String,
    /// Prompt length, tokens.
    pub prompt: String,
    /// Output length, tokens.
    pub output: String,
    /// The conversation.
    pub session: String,
    /// Whose request it is.
    pub tenant: String,
    /// A name for the beginning of the prompt that requests share.
    pub prefix: String,
    /// Length of that beginning, tokens; as long as the shortest prompt of that name when there is no column.
    pub prefix_tokens: String,
}

impl ColumnMap {
    /// Names of the parts, with the column of each: what a form shows.
    pub fn parts(&self) -> [(&'static str, &str); 8] {
        [
            ("arrival", &self.arrival),
            ("unit", &self.unit),
            ("prompt", &self.prompt),
            ("output", &self.output),
            ("session", &self.session),
            ("tenant", &self.tenant),
            ("prefix", &self.prefix),
            ("prefix_tokens", &self.prefix_tokens),
        ]
    }

    /// Sets a part by its name; nothing happens when there is no such part.
    pub fn set(&mut self, part: &str, column: &str) {
        let slot = match part {
            "arrival" => &mut self.arrival,
            "unit" => &mut self.unit,
            "prompt" => &mut self.prompt,
            "output" => &mut self.output,
            "session" => &mut self.session,
            "tenant" => &mut self.tenant,
            "prefix" => &mut self.prefix,
            "prefix_tokens" => &mut self.prefix_tokens,
            _ => return,
        };
        *slot = column.to_owned();
    }

    /// Reads `arrival=ts,prompt=in,output=out`.
    ///
    /// # Errors
    /// Anything else, saying what the form is.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut map = ColumnMap::default();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let known = pair.split_once('=').map(|(part, column)| (part.trim(), column.trim()));
            match known.filter(|(part, _)| map.parts().iter().any(|(name, _)| name == part)) {
                Some((part, column)) => map.set(part, column),
                None => {
                    let names = map.parts().map(|(name, _)| name).join(", ");
                    let found: String = pair.chars().take(40).collect();
                    let accepted = format!("accepted is PART=COLUMN,… with parts {names}");
                    return Err(SpecError::new("columns", format!("{found:?}"), accepted));
                }
            }
        }
        Ok(map)
    }
}

/// How a file of recorded requests is read, and in which size it is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceQuery {
    /// Its length, bytes, for the progress bar.
    pub bytes: f64,
    /// Its format; recognised when absent.
    pub format: Option<TraceFormat>,
    /// What its columns mean; by their names when absent.
    pub columns: Option<ColumnMap>,
    /// Tokens of a block that a key stands for; by the format when absent.
    pub key_tokens: Option<u32>,
    /// Width of pictures, CSS pixels.
    pub width: u32,
    /// Height of pictures, CSS pixels.
    pub height: u32,
    /// Dark scheme.
    pub dark: bool,
}

/// Something that reading met more or less often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// These rows were left out; without it they were read in spite of it.
    pub skipped: bool,
    /// How often.
    pub count: u64,
    /// Line of the first one, from 1.
    pub line: u64,
    /// What it was.
    pub what: String,
    /// What was expected, and what to do.
    pub advice: String,
    /// What stood there the first time, shortened.
    pub found: String,
}

/// What the page shows of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceView {
    /// Its name in specs.
    pub trace: String,
    /// Its format for people.
    pub format: String,
    /// Figures: what, and how much.
    pub facts: Vec<(String, String)>,
    /// What will matter, in sentences.
    pub findings: Vec<String>,
    /// What reading met.
    pub remarks: Vec<Remark>,
    /// Pictures.
    pub charts: Vec<Chart>,
    /// Names of the columns, of a table.
    pub columns: Vec<String>,
    /// What they were taken for, of a table that is none of the known ones.
    pub map: Option<ColumnMap>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_of_formats_come_back() {
        for format in TraceFormat::ALL {
            assert_eq!(TraceFormat::named(format.name()).unwrap(), format);
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
        let error = TraceFormat::named("parquet").unwrap_err();
        assert!(error.accepted.contains("burst_gpt"), "{error}");
    }

    #[test]
    fn a_map_is_read_as_typed() {
        let map = ColumnMap::parse("arrival=ts, unit=ms,prompt=in tokens,output=out").unwrap();
        assert_eq!((map.arrival.as_str(), map.unit.as_str(), map.prompt.as_str()), ("ts", "ms", "in tokens"));
        assert_eq!(map.parts().iter().filter(|(_, column)| column.is_empty()).count(), 4);
        assert!(ColumnMap::parse("time=ts").unwrap_err().accepted.contains("arrival"));
        assert!(ColumnMap::parse("arrival").is_err());
    }
}
