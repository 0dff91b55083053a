//! A script, read and ready to be called.

use super::values::{self, Draws, Tier};
use super::{PolicyFault, limits, memory};
use rhai::packages::{ArithmeticPackage, BasicIteratorPackage, LogicPackage, Package};
use rhai::{AST, CallFnOptions, Dynamic, Engine, EvalAltResult, FuncArgs, Scope};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;

/// Characters of a message: it stands beside a button.
const LONGEST_MESSAGE: usize = 300;

/// A function that a script defines for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// `fn route(request, replicas)`: every script has it.
    Route,
    /// `fn ended(request, replica)`.
    Ended,
}

impl Hook {
    const fn name(self) -> &'static str {
        match self {
            Hook::Route => "route",
            Hook::Ended => "ended",
        }
    }
}

/// A script with what it remembers.
pub(super) struct Machine {
    engine: Engine,
    ast: AST,
    /// `state` and the script's constants, in front of what a call adds.
    scope: Scope<'static>,
    draws: Draws,
    /// It remembers something, so its state is looked at after every call.
    remembers: bool,
    /// Where `fn route` stands: what has no line of its own is blamed on it.
    route: u32,
    /// The same of `fn ended`, if it is there.
    ended: Option<u32>,
    text: Box<str>,
}

fn engine(tier: Tier, draws: &Draws) -> Engine {
    let mut engine = Engine::new_raw();
    for package in [
        ArithmeticPackage::new().as_shared_module(),
        LogicPackage::new().as_shared_module(),
        BasicIteratorPackage::new().as_shared_module(),
    ] {
        engine.register_global_module(package);
    }
    for symbol in ["eval", "**", "**="] {
        engine.disable_symbol(symbol);
    }
    values::register(&mut engine, tier, draws);
    limits::set(&mut engine);
    engine
}

/// `text` with the head of a function made a block that is always run, every line where it was; and the names of its parameters.
fn unwrapped(text: &str, hook: Hook) -> Option<(String, Vec<String>)> {
    let start = text.find(&format!("fn {}", hook.name()))?;
    let open = start + text[start..].find('(')?;
    let close = open + text[open..].find(')')?;
    let params = text[open + 1..close].split(',').map(|name| name.trim().to_owned()).collect();
    let lines = "\n".repeat(text[start..close].matches('\n').count());
    Some((format!("{}{lines}if true{}", &text[..start], &text[close + 1..]), params))
}

/// The first line of `text` with `what` in it, from 1.
fn line_of(text: &str, what: &str) -> Option<u32> {
    (1u32..).zip(text.lines()).find(|(_, line)| line.contains(what)).map(|(at, _)| at)
}

impl Machine {
    /// Reads a script and runs what stands outside of its functions.
    pub(super) fn new(text: &str, tier: Tier) -> Result<Self, PolicyFault> {
        let draws = Draws::default();
        let engine = engine(tier, &draws);
        let mut ast = engine.compile(text).map_err(|error| {
            let line = error.position().line().map(|line| line as u32);
            PolicyFault { line, message: error.err_type().to_string() }
        })?;
        let defined = |hook: Hook| {
            let there = ast.iter_functions().any(|known| known.name == hook.name() && known.params.len() == 2);
            there.then(|| line_of(text, &format!("fn {}", hook.name())).unwrap_or(1))
        };
        let Some(route) = defined(Hook::Route) else {
            let message = "a script without fn route(request, replicas)".into();
            return Err(PolicyFault { line: None, message });
        };
        let ended = defined(Hook::Ended);
        let mut scope = Scope::new();
        scope.push("state", Dynamic::from_map(Default::default()));
        engine.run_ast_with_scope(&mut scope, &ast).map_err(|error| fault_of(error, &engine))?;
        ast.clear_statements();
        // A variable beside `state` would last from call to call and never be saved.
        for (name, constant, _) in scope.iter().skip(1) {
            if !constant || name == "state" {
                let message = format!(
                    "{name} would not last; outside of functions there are only constants, and entries of state"
                );
                return Err(PolicyFault { line: line_of(text, &format!("let {name}")), message });
            }
        }
        let machine =
            Machine { engine, ast, scope, draws, remembers: text.contains("state"), route, ended, text: text.into() };
        machine.check_state().map_err(|message| PolicyFault { line: None, message })?;
        Ok(machine)
    }

    /// It defines `hook`.
    pub(super) fn has(&self, hook: Hook) -> bool {
        hook == Hook::Route || self.ended.is_some()
    }

    /// Where `hook` stands.
    pub(super) fn line(&self, hook: Hook) -> Option<u32> {
        match hook {
            Hook::Route => Some(self.route),
            Hook::Ended => self.ended,
        }
    }

    /// So many replicas may be chosen from now on.
    pub(super) fn replicas(&mut self, replicas: u64) {
        limits::for_replicas(&mut self.engine, replicas);
    }

    /// What it remembers.
    pub(super) fn state(&self) -> Dynamic {
        self.scope.get("state").cloned().unwrap_or_default()
    }

    /// Makes it remember this.
    pub(super) fn set_state(&mut self, state: Dynamic) {
        self.scope.set_value("state", state);
    }

    fn check_state(&self) -> Result<(), String> {
        match self.scope.get("state") {
            Some(state) if self.remembers => memory::check(state),
            _ => Ok(()),
        }
    }

    /// Puts a stream where `random()` draws from, and takes the one that was there.
    pub(super) fn lend(&self, stream: Option<Stream>) -> Option<Stream> {
        self.draws.lock().map(|mut place| std::mem::replace(&mut *place, stream)).unwrap_or_default()
    }

    /// Calls `hook`. Where that fails at an unknown place it is run again to learn the line: the interpreter's quick way with operators does
    /// not tell where a division by zero stands, its slow way does; and of a limit that is met in a function it only tells where that was called,
    /// which is nowhere in the script, so the function's body is run outside of one. `args` are made anew for each call.
    pub(super) fn call<A: FuncArgs>(
        &mut self,
        hook: Hook,
        now: Nanos,
        args: &mut dyn FnMut(&Self) -> A,
    ) -> Result<Dynamic, PolicyFault> {
        let given = args(self);
        let fault = match self.call_once(hook, now, given) {
            Err(fault) if fault.line.is_none() => fault,
            told => return told,
        };
        self.engine.set_fast_operators(false);
        let given = args(self);
        let again = self.call_once(hook, now, given);
        self.engine.set_fast_operators(true);
        // `state` has moved on meanwhile: only the same fault counts.
        let fault = again.err().filter(|again| again.message == fault.message).unwrap_or(fault);
        if fault.line.is_none() {
            let given = args(self);
            let line = self.line_in_body(hook, now, given, &fault.message);
            return Err(PolicyFault { line: line.or(self.line(hook)), ..fault });
        }
        Err(fault)
    }

    /// Where the body of `hook` fails with this message, run by itself.
    fn line_in_body(&self, hook: Hook, now: Nanos, args: impl FuncArgs, message: &str) -> Option<u32> {
        let (text, params) = unwrapped(&self.text, hook)?;
        let ast = self.engine.compile(text).ok()?;
        let mut scope = self.scope.clone();
        scope.push_constant("now_s", now.as_secs());
        let mut values: Vec<Dynamic> = vec![];
        args.parse(&mut values);
        params.into_iter().zip(values).for_each(|(name, value)| {
            scope.push_dynamic(name, value);
        });
        let error = self.engine.run_ast_with_scope(&mut scope, &ast).err()?;
        let fault = fault_of(error, &self.engine);
        fault.line.filter(|_| fault.message == message)
    }

    fn call_once(&mut self, hook: Hook, now: Nanos, args: impl FuncArgs) -> Result<Dynamic, PolicyFault> {
        let base = self.scope.len();
        self.scope.push_constant("now_s", now.as_secs());
        let options = CallFnOptions::new().eval_ast(false).rewind_scope(true);
        let (scope, name) = (&mut self.scope, hook.name());
        let result = self.engine.call_fn_with_options::<Dynamic>(options, scope, &self.ast, name, args);
        self.scope.rewind(base);
        let value = result.map_err(|error| fault_of(error, &self.engine))?;
        self.check_state().map_err(|message| PolicyFault { line: None, message })?;
        Ok(value)
    }
}

/// An error of the interpreter in words, with the line that it comes from.
fn fault_of(error: Box<EvalAltResult>, engine: &Engine) -> PolicyFault {
    let mut error = error;
    let mut line = error.position().line();
    while let EvalAltResult::ErrorInFunctionCall(_, _, inner, _) = *error {
        error = inner;
        line = error.position().line().or(line);
    }
    let message = match error.as_ref() {
        EvalAltResult::ErrorTooManyOperations(_) => {
            format!("more than {} operations in one call; does it loop for ever?", engine.max_operations())
        }
        EvalAltResult::ErrorStackOverflow(_) => format!("functions call each other more than {} deep", limits::CALLS),
        EvalAltResult::ErrorDataTooLarge(what, _) => format!("{} exceeds what a script may hold", what.to_lowercase()),
        EvalAltResult::ErrorVariableNotFound(name, _) => {
            format!(
                "there is no {name} here; only route and ended see constants, state and now_s, functions that they call see what they are given"
            )
        }
        EvalAltResult::ErrorRuntime(value, _) if value.is_string() => value.to_string(),
        _ => {
            error.clear_position();
            error.to_string()
        }
    };
    // A script may throw whatever it has built.
    let mut short: String = message.chars().take(LONGEST_MESSAGE).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    PolicyFault { line: line.map(|line| line as u32), message: short }
}
