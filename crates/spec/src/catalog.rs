//! What can be chosen: policies, presets, cost models and settings, with the words that explain them. The
//! registries yield it; page, CLI, docs and tests read it.

use crate::experiment::{Coefficients, PolicySpec, Spec, StartupSpec};
use crate::validate::{self, SpecError};
use serde::{Deserialize, Serialize};

/// Everything that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Schema version.
    pub version: u32,
    /// Routing policies, in registry order.
    pub policies: Vec<PolicyInfo>,
    /// Autoscalers, in registry order.
    pub controllers: Vec<ControllerInfo>,
    /// Client policies, in registry order.
    #[serde(default)]
    pub clients: Vec<ClientInfo>,
    /// Ready-made experiments.
    pub presets: Vec<PresetInfo>,
    /// The guided path, in order.
    #[serde(default)]
    pub lessons: Vec<LessonInfo>,
    /// What interviewers ask, in order.
    #[serde(default)]
    pub interview: Vec<InterviewInfo>,
    /// Cost models by name.
    pub costs: Vec<CostInfo>,
    /// Cold starts by name.
    pub startups: Vec<StartupInfo>,
    /// Settings of a spec, by dotted key.
    pub settings: Vec<ParamInfo>,
    /// What the policy [`PolicySpec::SCRIPT`] can be written with.
    pub script: ScriptReference,
}

/// What a script of the user's own may read and call, and scripts to start from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptReference {
    /// Complete scripts, the default first.
    pub examples: Vec<ScriptExample>,
    /// Everything that can be read or called.
    pub values: Vec<ScriptValue>,
}

/// A complete script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptExample {
    /// Stable snake_case name.
    pub name: String,
    /// Title.
    pub title: String,
    /// The script.
    pub text: String,
    /// The tier it reads, by index of the parameter `tier`.
    pub tier: u32,
}

/// Something that a script may read or call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptValue {
    /// As it is written: `request.tenant`, `replica.waiting`, `random()`.
    pub name: String,
    /// What it is: integer, number, text, switch or map.
    pub kind: String,
    /// Unit, empty for a pure number.
    pub unit: String,
    /// How it reaches the router; empty for what every script has.
    pub tier: String,
    /// One sentence: what it means.
    pub help: String,
}

/// A routing policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// What it goes by.
    pub family: Family,
    /// The project whose router this is, faithful to its source; empty for textbook policies.
    pub project: String,
    /// It reads the prompt's content, so whoever runs it handles user data.
    pub reads_prompt: bool,
    /// One sentence: what it does.
    pub summary: String,
    /// What it reads, and how old that may be.
    pub reads: String,
    /// What its scores are and which wins ("tokens in flight, the fewest win"); empty when it compares nothing.
    pub compares: String,
    /// How it fails.
    pub fails: String,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
}

/// An autoscaler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControllerInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// The project whose autoscaler this is, faithful to its source; empty for textbook ones.
    pub project: String,
    /// One sentence: what it does.
    pub summary: String,
    /// Its rule, in words or as a formula.
    pub rule: String,
    /// What it reads, and over which time.
    pub reads: String,
    /// How it fails.
    pub fails: String,
    /// It knows what nobody can know: a bound, not a choice.
    pub bound: bool,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
}

/// What clients do: a policy by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// What it does, in a sentence.
    pub summary: String,
    /// Where its numbers are from.
    pub source: String,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
}

/// What a policy goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Turns, chance or load.
    Plain,
    /// A hash of the session or of how the prompt begins.
    Affinity,
    /// What it believes replicas to have cached.
    CacheAware,
    /// A sum of scores that the user puts together.
    Composed,
    /// The user's own script.
    Script,
}

impl Family {
    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Family::Plain => "Plain",
            Family::Affinity => "Affinity",
            Family::CacheAware => "Cache-aware",
            Family::Composed => "Composed",
            Family::Script => "Your own",
        }
    }
}

/// A number, switch or choice that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParamInfo {
    /// Name within its policy, or dotted key within the spec.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// Unit, empty for a pure number, switch or choice.
    pub unit: String,
    /// Default value; switches are 0 and 1, choices the index of the option.
    pub default: f64,
    /// Smallest accepted value.
    pub min: f64,
    /// Largest accepted value.
    pub max: f64,
    /// Granularity of the control; 1 for whole numbers.
    pub step: f64,
    /// How it is set.
    pub kind: ParamKind,
    /// One sentence: what it changes.
    pub help: String,
}

/// How a parameter is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamKind {
    /// Any value between min and max.
    Number,
    /// Whole values between min and max.
    Integer,
    /// Off (0) or on (1).
    Switch,
    /// One of these, by index.
    Choice(Vec<String>),
}

/// A ready-made experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PresetInfo {
    /// Stable name, used in addresses and on the command line.
    pub name: String,
    /// Title.
    pub title: String,
    /// The one question it answers.
    pub question: String,
    /// What to guess before it is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Guess>,
    /// The experiment.
    pub spec: Spec,
}

/// A guess to make before a run. Which option was right is for the run to say: its report carries a
/// [`crate::report::Verdict`], worked out by the lab from what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Guess {
    /// What is asked.
    pub ask: String,
    /// What can be guessed, in the order in which they are offered.
    pub options: Vec<String>,
}

/// A lesson of the guided path: a preset with its guess and its run, and what to do with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonInfo {
    /// Title.
    pub title: String,
    /// The preset it is about.
    pub preset: String,
    /// Where to look when it has run; words between asterisks are names on the page.
    pub look: String,
    /// One thing to try, as a question.
    pub attempt: String,
    /// The settings of that: dotted key and text.
    pub set: Vec<(String, String)>,
    /// Presets to go on with.
    pub next: Vec<String>,
}

/// A question that interviewers ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterviewInfo {
    /// The question.
    pub question: String,
    /// The presets that answer it, the first one first.
    pub presets: Vec<String>,
}

/// A cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// Where the numbers come from.
    pub source: String,
    /// Share of the datasheet's figures assumed reached; 1 for measured ones.
    pub efficiency: f64,
    /// KV bytes of one token of its model.
    pub kv_bytes: u32,
    /// The coefficients.
    pub coefficients: Coefficients,
}

/// A cold start that somebody measured, or that follows from stated numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartupInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// Where the numbers come from.
    pub source: String,
    /// The settings.
    pub startup: StartupSpec,
}

impl Catalog {
    /// Checks a spec wholly, as the lab will before it runs it: its limits, and that its policies, their parameters and its cost model exist.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        spec.validate()?;
        for policy in &spec.policies {
            self.check_policy(policy)?;
        }
        self.check_cost(spec)
    }

    /// The spec with what does not exist here left out or set back to `base`, and a sentence for each: an address made elsewhere still opens.
    pub fn repair(&self, mut spec: Spec, base: &Spec) -> (Spec, Vec<String>) {
        let mut said = Vec::new();
        spec.policies.retain_mut(|policy| {
            while let Err(error) = self.check_policy(policy) {
                said.push(format!("Left out: {error}."));
                let parameter = error.field.rsplit('.').next().unwrap_or_default();
                if parameter == "script" && policy.script.take().is_some() {
                    continue;
                }
                if policy.params.remove(parameter).is_none() {
                    return false;
                }
            }
            true
        });
        if spec.policies.is_empty() {
            spec.policies.clone_from(&base.policies);
        }
        if let Err(error) = self.check_cost(&spec) {
            said.push(format!("Left out: {error}."));
            spec.execution.cost.clone_from(&base.execution.cost);
            spec.execution.coefficients = base.execution.coefficients;
        }
        (spec, said)
    }

    fn check_policy(&self, policy: &PolicySpec) -> Result<(), SpecError> {
        let Some(info) = self.policies.iter().find(|info| info.name == policy.name) else {
            let known: Vec<&str> = self.policies.iter().map(|info| info.name.as_str()).collect();
            return Err(SpecError::new("policies", &policy.name, format!("accepted are {}", known.join(", "))));
        };
        validate::check_script(&format!("policies.{}.script", policy.name), policy)?;
        for (name, &value) in &policy.params {
            let field = format!("policies.{}.{name}", policy.name);
            match info.params.iter().find(|param| param.name == *name) {
                Some(param) => param.check(&field, value)?,
                None => {
                    let known: Vec<&str> = info.params.iter().map(|param| param.name.as_str()).collect();
                    let accepted = if known.is_empty() {
                        "it has none".into()
                    } else {
                        format!("accepted are {}", known.join(", "))
                    };
                    return Err(SpecError::new(field, "a parameter of this name", accepted));
                }
            }
        }
        Ok(())
    }

    fn check_cost(&self, spec: &Spec) -> Result<(), SpecError> {
        let name = &spec.execution.cost;
        if name == "custom" || self.costs.iter().any(|cost| cost.name == *name) {
            return Ok(());
        }
        let known: Vec<&str> = self.costs.iter().map(|cost| cost.name.as_str()).collect();
        Err(SpecError::new("execution.cost", name, format!("accepted are {}, custom", known.join(", "))))
    }
}

impl ParamInfo {
    /// Checks a value of it, which `field` names in the message.
    ///
    /// # Errors
    /// When it is out of range, or not whole where it has to be.
    pub fn check(&self, field: &str, value: f64) -> Result<(), SpecError> {
        let whole = !matches!(self.kind, ParamKind::Number);
        if value >= self.min && value <= self.max && (!whole || value.fract() == 0.0) {
            return Ok(());
        }
        // A number of three hundred digits says no more than this one.
        let found = if value.abs() < 1e15 { value.to_string() } else { format!("{value:e}") };
        let (what, unit) = (if whole { "whole numbers" } else { "numbers" }, &self.unit);
        let accepted = format!("accepted are {what} from {} to {} {unit}", self.min, self.max);
        Err(SpecError::new(field, found, accepted.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(kind: ParamKind, min: f64, max: f64) -> ParamInfo {
        let (name, label, help) = ("ratio".into(), "Ratio".into(), String::new());
        ParamInfo { name, label, unit: "× mean".into(), default: min, min, max, step: 1.0, kind, help }
    }

    fn catalog() -> Catalog {
        let policy = |name: &str, params| PolicyInfo {
            name: name.into(),
            label: name.into(),
            family: Family::Plain,
            project: String::new(),
            reads_prompt: false,
            summary: String::new(),
            reads: String::new(),
            compares: String::new(),
            fails: String::new(),
            params,
        };
        let policies =
            vec![policy("round_robin", vec![]), policy("guarded", vec![param(ParamKind::Number, 1.0, 1000.0)])];
        let cost = CostInfo {
            name: Spec::default().execution.cost,
            label: String::new(),
            source: String::new(),
            efficiency: 1.0,
            kv_bytes: 3072,
            coefficients: Coefficients::default(),
        };
        Catalog {
            version: 1,
            policies,
            controllers: vec![],
            clients: vec![],
            presets: vec![],
            lessons: vec![],
            interview: vec![],
            costs: vec![cost],
            startups: vec![],
            settings: vec![],
            script: ScriptReference::default(),
        }
    }

    #[test]
    fn what_is_out_of_range_or_unknown_is_named() {
        let check = |policy| {
            let spec = Spec { policies: vec![policy], ..Spec::default() };
            catalog().check(&spec).map_err(|error| error.field)
        };
        assert_eq!(check(PolicySpec::named("guarded").with("ratio", 2.5)), Ok(()));
        assert_eq!(check(PolicySpec::named("psychic")), Err("policies".into()));
        for value in [0.5, -5.0, 1e9, 1e300] {
            let refused = check(PolicySpec::named("guarded").with("ratio", value));
            assert_eq!(refused, Err("policies.guarded.ratio".into()), "{value}");
        }
        assert_eq!(check(PolicySpec::named("round_robin").with("x", 1.0)), Err("policies.round_robin.x".into()));
        let whole = param(ParamKind::Integer, 1.0, 9.0);
        assert!(whole.check("n", 3.0).is_ok() && whole.check("n", 3.5).is_err());
        assert!(whole.check("n", 1e300).is_err_and(|error| error.to_string().len() < 100));
    }

    #[test]
    fn a_foreign_spec_still_opens() {
        let policies = vec![
            PolicySpec::named("psychic"),
            PolicySpec::named("guarded").with("ratio", 0.0).with("mood", 1.0),
            PolicySpec { script: Some("fn route".into()), ..PolicySpec::named("round_robin") },
        ];
        let mut spec = Spec { policies, ..Spec::default() };
        spec.execution.cost = "abacus".into();
        let (repaired, said) = catalog().repair(spec, &Spec::default());
        assert_eq!(repaired.policies, [PolicySpec::named("guarded"), PolicySpec::named("round_robin")]);
        assert_eq!(said.len(), 5, "{said:?}");
        assert!(catalog().check(&repaired).is_ok());
    }
}
