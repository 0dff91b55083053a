//! BurstGPT: `Timestamp[,Session ID,Elapsed time],Model,Request tokens,Response tokens,Total tokens,Log Type`, seconds. Six columns or eight, told
//! by their names. A response of 0 tokens is a request that failed.

use super::super::collector::{Collector, Entry};
use super::super::problem::{Cause, TraceError};
use super::instant;
use super::table::{Layout, count, needed, number, place};

#[derive(Default)]
pub(super) struct BurstGpt {
    places: [usize; 3],
    session: Option<usize>,
    model: Option<usize>,
    log: Option<usize>,
}

impl Layout for BurstGpt {
    fn names(&mut self, line: u64, names: &[String]) -> Result<(), TraceError> {
        for (place, wanted) in self.places.iter_mut().zip(["Timestamp", "Request tokens", "Response tokens"]) {
            *place = needed(line, names, wanted)?;
        }
        (self.session, self.model) = (place(names, "Session ID"), place(names, "Model"));
        self.log = place(names, "Log Type");
        Ok(())
    }

    fn record(&mut self, line: u64, fields: &[&str], out: &mut Collector) -> Result<(), Cause> {
        let [at, prompt, output] = self.places.map(|place| fields[place]);
        let at = instant("Timestamp", number("Timestamp", at)?, 1e9)?;
        let (prompt, output) = (count("Request tokens", prompt)?, count("Response tokens", output)?);
        let of = |place: Option<usize>| place.map(|place| fields[place]).filter(|text| !text.is_empty());
        let session = of(self.session).map(|name| out.session(name));
        let group = [of(self.model), of(self.log)].into_iter().flatten().collect::<Vec<_>>().join(", ");
        out.row(line, Entry { at, prompt, output, session, group: &group, ..Entry::default() });
        Ok(())
    }
}
