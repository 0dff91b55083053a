//! What a script may read and call. One static table of each kind builds the values and the reference, so neither can go stale.
//!
//! Quantities are numbers with decimals, so that `/` divides; identities (a replica's id, a tenant) are integers; a session's name is text,
//! which is what maps are looked up by.

use super::super::prefix::prefix_key;
use crate::telemetry::LocalSignals;
use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map};
use servelab_engine::Prompt;
use servelab_engine::random::{Stream, mix};
use servelab_spec::catalog::ScriptValue;
use std::sync::{Arc, Mutex};

/// What a script that goes wrong says.
pub(super) type Wrong = Box<EvalAltResult>;

/// How a signal reaches the router; each tier has what is before it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    Local,
    Polled,
    Events,
}

impl Tier {
    /// In the order of the parameter's options.
    pub(super) const ALL: [Tier; 3] = [Tier::Local, Tier::Polled, Tier::Events];
    /// The parameter's options.
    pub(super) const OPTIONS: [&'static str; 3] = ["local", "local + polled", "local + polled + events"];

    fn label(self) -> &'static str {
        match self {
            Tier::Local => "router-local",
            Tier::Polled => "polled",
            Tier::Events => "event-fed",
        }
    }
}

/// The request as a script sees it.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) tenant: u32,
    pub(super) session: Option<u64>,
    pub(super) adapter: Option<u32>,
    pub(super) prompt_tokens: u32,
    pub(super) system_tokens: u32,
    pub(super) max_tokens: u32,
    pub(super) attempt: u32,
    /// The prompt and the tokens of a block; only for a script that names prefixes.
    pub(super) prompt: Option<Arc<(Prompt, u32)>>,
}

/// A replica as a script sees it.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) id: u32,
    pub(super) local: LocalSignals,
    pub(super) waiting: u32,
    pub(super) running: u32,
    pub(super) kv_usage: f64,
    pub(super) age_s: f64,
    pub(super) holds_adapter: bool,
    pub(super) cached_tokens: u32,
}

struct Value<T> {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    tier: Tier,
    help: &'static str,
    get: fn(&T) -> Dynamic,
}

const fn value<T>(
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    get: fn(&T) -> Dynamic,
) -> Value<T> {
    Value { name, kind, unit, tier: Tier::Local, help, get }
}

impl<T> Value<T> {
    const fn of(self, tier: Tier) -> Self {
        Value { tier, ..self }
    }
}

fn integer(value: impl Into<i64>) -> Dynamic {
    Dynamic::from_int(value.into())
}

fn number(value: impl Into<f64>) -> Dynamic {
    Dynamic::from_float(value.into())
}

static REQUEST: &[Value<Request>] = &[
    value("tenant", "integer", "", "Whose it is.", |of| integer(of.tenant)),
    value("session", "text or ()", "", "The conversation it continues, () for none.", |of| {
        of.session.map_or(Dynamic::UNIT, |session| session.to_string().into())
    }),
    value("adapter", "integer or ()", "", "The adapter it wants, () for none.", |of| {
        of.adapter.map_or(Dynamic::UNIT, integer)
    }),
    value("prompt_tokens", "number", "tokens", "Length of the prompt.", |of| number(of.prompt_tokens)),
    value("system_tokens", "number", "tokens", "Of these, what stands before the first user message.", |of| {
        number(of.system_tokens)
    }),
    value("max_tokens", "number", "tokens", "Output budget. The true length nobody knows.", |of| number(of.max_tokens)),
    value("attempt", "integer", "", "Which try this is, from 1.", |of| integer(of.attempt)),
];

static REPLICA: &[Value<Replica>] = &[
    value::<Replica>("id", "integer", "", "Its index in the fleet.", |of| integer(of.id)),
    value::<Replica>("requests", "number", "requests", "Requests that this router has in flight there.", |of| {
        number(of.local.requests)
    }),
    value::<Replica>("tokens", "number", "tokens", "Their prompts and output budgets, less tokens produced.", |of| {
        number(of.local.tokens as f64)
    }),
    value::<Replica>("prompt_tokens", "number", "tokens", "Their prompts.", |of| number(of.local.prompt_tokens as f64)),
    value::<Replica>(
        "prefill_tokens",
        "number",
        "tokens",
        "Prompts whose first token has not come, less tokens expected in the cache.",
        |of| number(of.local.prefill_tokens as f64),
    ),
    value::<Replica>("waiting", "number", "requests", "Requests waiting there for admission, of all routers.", |of| {
        number(of.waiting)
    })
    .of(Tier::Polled),
    value::<Replica>("running", "number", "requests", "Requests being served there, of all routers.", |of| {
        number(of.running)
    })
    .of(Tier::Polled),
    value::<Replica>(
        "kv_usage",
        "number",
        "share",
        "Share of its KV blocks that running requests hold, 0 to 1.",
        |of| number(of.kv_usage),
    )
    .of(Tier::Polled),
    value::<Replica>(
        "age_s",
        "number",
        "s",
        "Age of the polled values; the time since the start where none was read yet.",
        |of| number(of.age_s),
    )
    .of(Tier::Polled),
    value::<Replica>(
        "holds_adapter",
        "switch",
        "",
        "It holds the adapter that the request wants; true when it wants none.",
        |of| of.holds_adapter.into(),
    )
    .of(Tier::Polled),
    value::<Replica>(
        "cached_tokens",
        "number",
        "tokens",
        "Prompt tokens that it has cached, as its KV events told.",
        |of| number(of.cached_tokens),
    )
    .of(Tier::Events),
];

/// Where `random()` draws from; empty while no decision is made.
pub(super) type Draws = Arc<Mutex<Option<Stream>>>;

struct Function {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    register: fn(&mut Engine, &Draws),
}

/// Variables that a script's own functions `route` and `ended` see.
static VARIABLES: &[(&str, &str, &str, &str)] = &[
    ("now_s", "number", "s", "The instant, from the start of the run."),
    ("state", "map", "", "The script's own: what is put into it stays until the routers restart."),
];

static FUNCTIONS: &[Function] = &[
    Function {
        name: "request.prefix(n)",
        kind: "integer",
        help: "Names the first n tokens of the prompt: equal for prompts that begin alike. Inside a block whose tokens are not known, the whole block.",
        register: |engine, _| {
            engine.register_fn("prefix", |of: &mut Request, tokens: Dynamic| -> Result<i64, Wrong> {
                let tokens = real(&tokens)?.clamp(0.0, u32::MAX.into()) as u32;
                let Some(asked) = &of.prompt else { return Ok(0) };
                Ok(positive(prefix_key(&asked.0, tokens, asked.1).0))
            });
        },
    },
    Function {
        name: "random()",
        kind: "number",
        help: "From 0 to below 1, drawn for this decision alone.",
        register: |engine, draws| {
            let draws = draws.clone();
            engine.register_fn("random", move || -> Result<f64, Wrong> {
                let mut stream = draws.lock().map_err(|_| Wrong::from("random() is out of order"))?;
                match stream.as_mut() {
                    Some(stream) => Ok(stream.unit()),
                    None => Err("random() is for decisions: there is none to draw for here".into()),
                }
            });
        },
    },
    Function {
        name: "hash(x)",
        kind: "integer",
        help: "A hash of an integer or a text, from 0 up.",
        register: |engine, _| {
            engine.register_fn("hash", |x: Dynamic| Ok::<i64, Wrong>(positive(word(&x)?)));
        },
    },
    Function {
        name: "hash(x, y)",
        kind: "integer",
        help: "A hash of two integers or texts: of a prefix and a replica's id it ranks replicas for rendezvous hashing.",
        register: |engine, _| {
            engine.register_fn("hash", |x: Dynamic, y: Dynamic| Ok::<i64, Wrong>(positive(mix(word(&x)?, word(&y)?))));
        },
    },
    unary("floor(x)", "The next whole number below.", |engine, _| real_fn(engine, "floor", libm::floor)),
    unary("ceil(x)", "The next whole number above.", |engine, _| real_fn(engine, "ceil", libm::ceil)),
    unary("round(x)", "The nearest whole number.", |engine, _| real_fn(engine, "round", libm::round)),
    unary("sqrt(x)", "Square root.", |engine, _| real_fn(engine, "sqrt", libm::sqrt)),
    unary("exp(x)", "e to the power x.", |engine, _| real_fn(engine, "exp", libm::exp)),
    unary("ln(x)", "Natural logarithm.", |engine, _| real_fn(engine, "ln", libm::log)),
    unary("pow(x, y)", "x to the power y.", |engine, _| {
        engine.register_fn("pow", |x: Dynamic, y: Dynamic| Ok::<f64, Wrong>(libm::pow(real(&x)?, real(&y)?)));
    }),
    unary("to_float(x)", "An integer as a number with decimals.", |engine, _| real_fn(engine, "to_float", |x| x)),
    Function {
        name: "to_int(x)",
        kind: "integer",
        help: "A number without its decimals.",
        register: |engine, _| {
            engine.register_fn("to_int", |x: Dynamic| -> Result<i64, Wrong> {
                match real(&x)? {
                    // 2⁶³ is a float; the largest integer is not.
                    whole if (-9.2e18..=9.2e18).contains(&whole) => Ok(whole as i64),
                    other => Err(format!("{other} does not fit an integer").into()),
                }
            });
        },
    },
    unary("abs(x), max(x, y), min(x, y)", "Of integers and numbers.", |_, _| {}),
    Function {
        name: "array.push(x), array.pop(), array.len(), array.clear()",
        kind: "",
        help: "Arrays: [1, 2], array[0], for x in array.",
        register: |engine, _| {
            engine.register_fn("push", |array: &mut Array, x: Dynamic| array.push(x));
            engine.register_fn("pop", |array: &mut Array| array.pop().unwrap_or(Dynamic::UNIT));
            engine.register_fn("len", |array: &mut Array| array.len() as i64);
            engine.register_fn("clear", |array: &mut Array| array.clear());
        },
    },
    Function {
        name: "map.contains(key), map.remove(key), map.keys(), map.len(), map.clear()",
        kind: "",
        help: "Maps: #{a: 1}, map.a, map[text], which is () where there is nothing.",
        register: |engine, _| {
            engine.register_fn("contains", |map: &mut Map, key: &str| map.contains_key(key));
            engine.register_fn("remove", |map: &mut Map, key: &str| map.remove(key).unwrap_or(Dynamic::UNIT));
            engine
                .register_fn("keys", |map: &mut Map| -> Array { map.keys().map(|key| key.as_str().into()).collect() });
            engine.register_fn("len", |map: &mut Map| map.len() as i64);
            engine.register_fn("clear", |map: &mut Map| map.clear());
        },
    },
];

const fn unary(name: &'static str, help: &'static str, register: fn(&mut Engine, &Draws)) -> Function {
    Function { name, kind: "number", help, register }
}

fn real_fn(engine: &mut Engine, name: &str, of: fn(f64) -> f64) {
    engine.register_fn(name, move |x: Dynamic| Ok::<f64, Wrong>(of(real(&x)?)));
}

/// An integer or number.
pub(super) fn real(value: &Dynamic) -> Result<f64, Wrong> {
    match (value.as_float(), value.as_int()) {
        (Ok(float), _) => Ok(float),
        (_, Ok(whole)) => Ok(whole as f64),
        _ => Err(format!("a number is expected, {} was given", kind_of(value)).into()),
    }
}

/// An integer or text as 64 bits.
fn word(value: &Dynamic) -> Result<u64, Wrong> {
    if let Ok(whole) = value.as_int() {
        return Ok(whole as u64);
    }
    match value.read_lock::<ImmutableString>() {
        Some(text) => Ok(text.bytes().fold(mix(0, text.len() as u64), |state, byte| mix(state, byte.into()))),
        None => Err(format!("an integer or a text is hashed, {} was given", kind_of(value)).into()),
    }
}

/// 63 bits of a hash: an integer that is not negative.
fn positive(hash: u64) -> i64 {
    (hash >> 1) as i64
}

/// What a value is, in the reference's words.
pub(super) fn kind_of(value: &Dynamic) -> &'static str {
    match value {
        _ if value.is_unit() => "nothing, (),",
        _ if value.is_int() => "an integer",
        _ if value.is_float() => "a number with decimals",
        _ if value.is_bool() => "a switch",
        _ if value.is_string() => "a text",
        _ if value.is_array() => "an array",
        _ if value.is_map() => "a map",
        _ if value.is::<Replica>() => "a replica",
        _ if value.is::<Request>() => "a request",
        _ => "something else",
    }
}

/// Makes an engine know all of this, up to `tier`.
pub(super) fn register(engine: &mut Engine, tier: Tier, draws: &Draws) {
    register_type(engine, "request", REQUEST, tier);
    register_type(engine, "replica", REPLICA, tier);
    for function in FUNCTIONS {
        (function.register)(engine, draws);
    }
    // Text of what may be text; anything else would be written out at any depth.
    engine.register_fn("to_string", |x: i64| x.to_string());
    engine.register_fn("to_string", |x: f64| x.to_string());
    engine.register_fn("to_string", |x: bool| x.to_string());
}

fn register_type<T: Clone + Send + Sync + 'static>(
    engine: &mut Engine,
    name: &'static str,
    values: &'static [Value<T>],
    tier: Tier,
) {
    engine.register_type_with_name::<T>(name);
    for value in values.iter().filter(|value| value.tier <= tier) {
        let get = value.get;
        engine.register_get(value.name, move |of: &mut T| get(of));
    }
    // Asked when nothing of that name is known.
    engine.register_indexer_get(move |_: &mut T, asked: &str| -> Result<Dynamic, Wrong> {
        let known: Vec<&str> = values.iter().filter(|value| value.tier <= tier).map(|value| value.name).collect();
        let why = match values.iter().find(|value| value.name == asked) {
            Some(value) => format!(
                "a {name}'s {asked} is {}, and this script declares {}; its parameter tier would have to be {}",
                value.tier.label(),
                Tier::OPTIONS[tier as usize],
                value.tier as u32
            ),
            None => format!("a {name} has no {asked}"),
        };
        Err(format!("{why}; it has {}", known.join(", ")).into())
    });
}

/// The reference.
pub(super) fn reference() -> Vec<ScriptValue> {
    let entry = |name: String, kind: &str, unit: &str, tier: &str, help: &str| ScriptValue {
        name,
        kind: kind.into(),
        unit: unit.into(),
        tier: tier.into(),
        help: help.into(),
    };
    let mut out = Vec::new();
    out.extend(REQUEST.iter().map(|of| entry(format!("request.{}", of.name), of.kind, of.unit, "", of.help)));
    out.extend(
        REPLICA.iter().map(|of| entry(format!("replica.{}", of.name), of.kind, of.unit, of.tier.label(), of.help)),
    );
    out.extend(VARIABLES.iter().map(|&(name, kind, unit, help)| entry(name.into(), kind, unit, "", help)));
    out.extend(FUNCTIONS.iter().map(|of| entry(of.name.into(), of.kind, "", "", of.help)));
    out
}
