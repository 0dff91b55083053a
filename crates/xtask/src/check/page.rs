//! The page is built as it is delivered, and weighed.

use anyhow::Result;

use super::Session;
use super::tally::{Tally, check_without_warnings};
use crate::bundle::{self, Page};
use crate::sizes::{FIRST_LOAD_BUDGET, Group, Sizes};
use crate::{sizes, table};

pub(super) fn run(session: &Session<'_>) -> Result<Tally> {
    let context = session.context;
    if !bundle::exists(context) {
        return Ok(Tally::missing("bundle", "no index.html"));
    }
    let built = check_without_warnings(bundle::trunk(context, session.prepared, "build", Page::quick(session.quick))?)?;
    if built.failed > 0 {
        return Ok(built);
    }
    bundle::finish(context, session.prepared)?;
    let weighed = sizes::measure(context)?;
    println!("{}", weighed.table());
    let wrapped = sizes::wrapped_exports(context)?;
    let wrapped = wrapped.into_iter().map(|name| {
        format!("{name} wraps its exports by constructor calls: its root must call __wasm_call_ctors once at start")
    });
    Ok(built.plus(&budget(&weighed)).plus(&Tally::of(wrapped.collect())))
}

fn budget(sizes: &Sizes) -> Tally {
    let first = sizes.brotli(Group::FirstLoad);
    if first <= FIRST_LOAD_BUDGET {
        return Tally::pass();
    }
    let (first, budget) = (table::bytes(first), table::bytes(FIRST_LOAD_BUDGET));
    Tally::failure(format!("the first load is {first} compressed, its budget {budget}"))
}
