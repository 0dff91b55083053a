//! Azure's LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`, wall-clock times with seven decimals, no keys, no conversations.

use super::super::clock::wall_clock;
use super::super::collector::{Collector, Entry};
use super::super::problem::{Cause, TraceError};
use super::table::{Layout, count, needed};

/// Columns, once the names are read.
#[derive(Default)]
pub(super) struct Azure {
    places: [usize; 3],
}

impl Layout for Azure {
    fn names(&mut self, line: u64, names: &[String]) -> Result<(), TraceError> {
        for (place, wanted) in self.places.iter_mut().zip(["TIMESTAMP", "ContextTokens", "GeneratedTokens"]) {
            *place = needed(line, names, wanted)?;
        }
        Ok(())
    }

    fn record(&mut self, line: u64, fields: &[&str], out: &mut Collector) -> Result<(), Cause> {
        let [at, prompt, output] = self.places.map(|place| fields[place]);
        let at = wall_clock(at).ok_or(Cause::NotATime("TIMESTAMP"))?;
        let (prompt, output) = (count("ContextTokens", prompt)?, count("GeneratedTokens", output)?);
        out.row(line, Entry { at, prompt, output, ..Entry::default() });
        Ok(())
    }
}
