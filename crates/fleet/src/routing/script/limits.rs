//! What a script may use up. Each limit ends the run with an error that names it; together they bound the time and the memory of one decision, so a
//! script that came with somebody's link can waste a few seconds of a worker and nothing else.

use rhai::Engine;

/// Operations of one call, and as many more for each replica: an expression, a statement or a call is about one each. The examples use
/// some 15 for each replica. A loop for ever runs into this within milliseconds.
const OPERATIONS: u64 = 50_000;
const OPERATIONS_PER_REPLICA: u64 = 200;

/// Calls within calls. Policies need two or three; each takes kilobytes of a browser's stack of one megabyte.
pub(super) const CALLS: usize = 12;

/// Expressions within expressions, for the same reason; written by hand they stay below ten.
const EXPRESSIONS: usize = 40;

/// Bytes of all text in one value: names of sessions and phrases, not documents.
const TEXT: usize = 4096;

/// Items of an array and of a map, those of arrays and maps within it counted. Scores for the 1024 replicas that there can be, twice over. They also
/// bound how deep values can be nested, since each level takes stack when a value is copied.
const ITEMS: usize = 2100;

/// Variables in sight at once.
const VARIABLES: usize = 48;

/// Functions of a script.
const FUNCTIONS: usize = 48;

/// Sets everything that does not depend on the fleet.
pub(super) fn set(engine: &mut Engine) {
    engine
        .set_max_call_levels(CALLS)
        .set_max_expr_depths(EXPRESSIONS, EXPRESSIONS)
        .set_max_string_size(TEXT)
        .set_max_array_size(ITEMS)
        .set_max_map_size(ITEMS)
        .set_max_variables(VARIABLES)
        .set_max_functions(FUNCTIONS)
        .set_max_strings_interned(256);
    for_replicas(engine, 0);
}

/// Sets the operations of a call.
pub(super) fn for_replicas(engine: &mut Engine, replicas: u64) {
    engine.set_max_operations(OPERATIONS + OPERATIONS_PER_REPLICA * replicas);
}
