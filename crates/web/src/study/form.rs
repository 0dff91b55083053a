//! What can be an axis of a sweep, and the values that it takes as they stand in the form.

use crate::settings::{self, round_digits};
use servelab_spec::catalog::{Catalog, ParamInfo, ParamKind};
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::sweep::{Axis, AxisRange, AxisValues, Scale, SweepSpec, check_key};
use servelab_spec::validate::SpecError;
use servelab_spec::{Spec, patch};

/// How many values an axis has unless it is said: enough for a bend to show, few enough for a short wait.
const STEPS: u32 = 7;

/// Values of an axis in whole numbers that are listed one by one.
const LISTED: u32 = 5;

/// Settings that sweeps take but that change nothing in them, or change what another one means.
const LEFT_OUT: [&str; 4] = ["execution.model", "execution.device", "execution.charge", "workload.rate_unit"];

/// Points that are checked before a sweep starts; of a larger one, each axis by itself.
const MOST_CHECKED: u32 = 200;

/// Something that can be swept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Dotted key.
    pub key: String,
    /// The policy whose parameter it is; none for a setting.
    pub policy: Option<usize>,
    /// The client policy whose parameter it is.
    pub client: Option<usize>,
    pub info: ParamInfo,
    /// Its present value.
    pub value: f64,
}

/// How the values of an axis are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// Equal differences.
    Linear,
    /// Equal ratios.
    Log,
    /// One by one.
    List,
}

impl Spacing {
    pub(crate) const ALL: [Spacing; 3] = [Spacing::Linear, Spacing::Log, Spacing::List];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Spacing::Linear => "linear",
            Spacing::Log => "log",
            Spacing::List => "list",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Spacing> {
        Spacing::ALL.into_iter().find(|spacing| spacing.name() == name)
    }
}

/// An axis as it stands in the form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisForm {
    pub key: String,
    pub spacing: Spacing,
    pub from: f64,
    pub to: f64,
    pub steps: u32,
    /// The values one by one, with commas.
    pub list: String,
}

/// Everything of a spec that a sweep takes, settings first.
pub(crate) fn choices(catalog: &Catalog, spec: &Spec) -> Vec<Choice> {
    let of_capacity = patch::entries(spec).into_iter().find(|(key, _)| key == "workload.rate_unit");
    let rate_unit = of_capacity.map(|(_, unit)| if unit == "of_capacity" { "× capacity" } else { "requests/s" });
    let setting = |info: &ParamInfo| {
        let key = info.name.as_str();
        let swept = check_key(key).is_ok() && !LEFT_OUT.contains(&key) && !key.starts_with("tick.");
        let value = settings::get(spec, info).filter(|_| swept && settings::matters(spec, key))?;
        let mut info = info.clone();
        // One setting whose unit is another setting.
        if let Some(unit) = rate_unit.filter(|_| key == "workload.rate") {
            info.unit = unit.to_owned();
        }
        Some(Choice { key: key.to_owned(), policy: None, client: None, info, value })
    };
    let mut out: Vec<Choice> = catalog.settings.iter().filter_map(setting).collect();
    for (at, policy) in spec.policies.iter().enumerate() {
        let known = catalog.policies.iter().find(|info| info.name == policy.name);
        for info in known.map(|known| known.params.as_slice()).unwrap_or_default() {
            let value = policy.params.get(&info.name).copied().unwrap_or(info.default);
            let key = format!("policies.{at}.params.{}", info.name);
            out.push(Choice { key, policy: Some(at), client: None, info: info.clone(), value });
        }
    }
    let clients = if spec.clients.on { spec.clients.policies.as_slice() } else { &[] };
    for (at, client) in clients.iter().enumerate() {
        let known = catalog.clients.iter().find(|info| info.name == client.name);
        for info in known.map(|known| known.params.as_slice()).unwrap_or_default() {
            let value = client.params.get(&info.name).copied().unwrap_or(info.default);
            let key = format!("clients.policies.{at}.params.{}", info.name);
            out.push(Choice { key, policy: None, client: Some(at), info: info.clone(), value });
        }
    }
    out
}

/// The axis that a sweep starts with: the load, where the workload has one to set.
pub(crate) fn first(choices: &[Choice]) -> Option<&Choice> {
    let of = |key: &str| choices.iter().find(|choice| choice.key == key);
    of("workload.rate").or_else(|| of("replicas")).or(choices.first())
}

impl AxisForm {
    /// Around the present value: half of it to double, or all that there is to choose from.
    pub(crate) fn usual(choice: &Choice) -> AxisForm {
        let info = &choice.info;
        let key = choice.key.clone();
        let of_policy = choice.policy.is_some() || choice.client.is_some();
        let listed = match &info.kind {
            // Parameters of policies are numbers whatever they mean.
            ParamKind::Switch => Some(if of_policy { "0, 1" } else { "off, on" }.to_owned()),
            ParamKind::Choice(options) if of_policy => {
                Some((0..options.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", "))
            }
            ParamKind::Choice(options) => Some(options.join(", ")),
            ParamKind::Number | ParamKind::Integer => None,
        };
        if let Some(list) = listed {
            return AxisForm { key, spacing: Spacing::List, from: 0.0, to: 1.0, steps: STEPS, list };
        }
        let whole = info.kind == ParamKind::Integer;
        let fit = |value: f64| {
            let value = if whole { value.round() } else { round_digits(value, 3) };
            value.clamp(info.min, info.max)
        };
        let (mut from, mut to) = (fit(choice.value / 2.0), fit(choice.value * 2.0));
        if from >= to {
            let step = if info.step > 0.0 { info.step } else { 1.0 };
            (from, to) = (info.min, fit((info.min + 10.0 * step).max(info.default * 2.0)));
        }
        let mut list: Vec<f64> =
            (0..LISTED).map(|at| fit(from + (to - from) * f64::from(at) / f64::from(LISTED - 1))).collect();
        list.dedup();
        let list = list.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        // Ranges of a policy's parameter are not rounded to whole numbers, lists are as they are.
        let spacing = if whole && of_policy { Spacing::List } else { Spacing::Linear };
        AxisForm { key, spacing, from, to, steps: STEPS, list }
    }

    /// The axis, not checked.
    ///
    /// # Errors
    /// An empty list.
    pub(crate) fn axis(&self) -> Result<Axis, SpecError> {
        let scale = match self.spacing {
            Spacing::List => return Axis::parse(&format!("{}={}", self.key, self.list)),
            Spacing::Linear => Scale::Linear,
            Spacing::Log => Scale::Log,
        };
        let range = AxisRange { from: self.from, to: self.to, steps: self.steps };
        Ok(Axis { key: self.key.clone(), values: AxisValues::Range(range), scale })
    }
}

/// The draft as sweeps and knees run it: with priced steps. True when it was to compute its steps.
pub(crate) fn priced(draft: &Spec) -> (Spec, bool) {
    let mut spec = draft.clone();
    let live = spec.execution.mode == ExecutionMode::Tinygpt;
    if live {
        spec.execution.mode = ExecutionMode::Priced;
    }
    (spec, live)
}

/// The number of runs of a sweep, after checking what can be checked without running it.
///
/// # Errors
/// The first field at fault.
pub(crate) fn check(catalog: &Catalog, sweep: &SweepSpec) -> Result<u32, SpecError> {
    let grid = sweep.grid()?;
    let points: Vec<u32> = if grid.points <= MOST_CHECKED {
        (0..grid.points).collect()
    } else {
        // The first column and the first row: every value of each axis once.
        let fast = grid.values.last().map_or(1, |values| values.len() as u32).max(1);
        (0..grid.points).filter(|point| point % fast == 0 || *point < fast).collect()
    };
    for point in points {
        catalog.check(&sweep.point(&grid, point)?)?;
    }
    Ok(grid.cells())
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_spec::SCHEMA_VERSION;
    use servelab_spec::catalog::{ClientInfo, ScriptReference};
    use servelab_spec::experiment::{ClientSpec, PolicySpec, WorkloadSpec};

    fn info(name: &str, (min, max, step): (f64, f64, f64), default: f64, kind: ParamKind) -> ParamInfo {
        let label = name.to_owned();
        ParamInfo { name: name.into(), label, unit: String::new(), default, min, max, step, kind, help: String::new() }
    }

    fn choice(key: &str, value: f64, info: ParamInfo, policy: Option<usize>) -> Choice {
        Choice { key: key.into(), policy, client: None, info, value }
    }

    #[test]
    fn an_axis_starts_around_the_present_value() {
        let rate = info("workload.rate", (0.001, 100_000.0, 0.05), 1.0, ParamKind::Number);
        let form = AxisForm::usual(&choice("workload.rate", 0.7, rate, None));
        assert_eq!((form.from, form.to, form.steps, form.spacing), (0.35, 1.4, 7, Spacing::Linear));
        let replicas = info("replicas", (1.0, 64.0, 1.0), 4.0, ParamKind::Integer);
        let form = AxisForm::usual(&choice("replicas", 1.0, replicas.clone(), None));
        assert_eq!((form.from, form.to), (1.0, 2.0), "0.5 rounds to 1, and nothing lies below");
        let form = AxisForm::usual(&choice("replicas", 64.0, replicas, None));
        assert_eq!((form.from, form.to), (32.0, 64.0));
        let off = info("skew", (0.0, 5.0, 0.1), 0.0, ParamKind::Number);
        let form = AxisForm::usual(&choice("workload.skew", 0.0, off, None));
        assert_eq!((form.from, form.to), (0.0, 1.0));
    }

    #[test]
    fn what_is_no_number_is_listed_as_the_spec_takes_it() {
        let cache = info("engine.prefix_cache", (0.0, 1.0, 1.0), 1.0, ParamKind::Switch);
        assert_eq!(AxisForm::usual(&choice("engine.prefix_cache", 1.0, cache.clone(), None)).list, "off, on");
        assert_eq!(AxisForm::usual(&choice("policies.0.params.guard", 1.0, cache, Some(0))).list, "0, 1");
        let blocks = info("blocks", (1.0, 64.0, 1.0), 8.0, ParamKind::Integer);
        let form = AxisForm::usual(&choice("policies.1.params.blocks", 8.0, blocks, Some(1)));
        assert_eq!((form.spacing, form.list.as_str()), (Spacing::List, "4, 7, 10, 13, 16"));
        assert!(form.axis().is_ok_and(|axis| axis.expanded().is_ok_and(|values| values.len() == 5)));
    }

    fn catalog() -> Catalog {
        let settings = vec![
            info("seed", (0.0, 1e15, 1.0), 7.0, ParamKind::Integer),
            info("replicas", (1.0, 64.0, 1.0), 4.0, ParamKind::Integer),
            info("workload.rate", (0.001, 1e5, 0.05), 1.0, ParamKind::Number),
            info("workload.kind", (0.0, 1.0, 1.0), 0.0, ParamKind::Choice(vec!["book".into(), "multi_tenant".into()])),
            info("events.join_at_s", (0.0, 1e5, 1.0), 0.0, ParamKind::Number),
        ];
        Catalog {
            version: SCHEMA_VERSION,
            policies: vec![],
            controllers: vec![],
            clients: vec![],
            startups: vec![],
            presets: vec![],
            lessons: vec![],
            interview: vec![],
            costs: vec![],
            settings,
            script: ScriptReference::default(),
        }
    }

    #[test]
    fn only_what_a_sweep_takes_is_offered() {
        let mut spec = Spec { policies: vec![PolicySpec::named("round_robin")], ..Spec::default() };
        spec.workload = WorkloadSpec::of_kind("multi_tenant").expect("a kind");
        let keys = |spec: &Spec| choices(&catalog(), spec).into_iter().map(|choice| choice.key).collect::<Vec<_>>();
        // No seed and no kind, and nobody joins.
        assert_eq!(keys(&spec), ["replicas", "workload.rate"]);
        assert_eq!(first(&choices(&catalog(), &spec)).map(|choice| choice.key.as_str()), Some("workload.rate"));
        let unit = |spec: &Spec| first(&choices(&catalog(), spec)).map(|choice| choice.info.unit.clone());
        assert_eq!(unit(&spec).as_deref(), Some("× capacity"));
        let per_second = patch::set(&spec, "workload.rate_unit", "per_second").expect("a unit");
        assert_eq!(unit(&per_second).as_deref(), Some("requests/s"));
        spec.events.join = 1;
        assert_eq!(keys(&spec).len(), 3);
    }

    #[test]
    fn parameters_of_clients_are_axes_while_clients_are_on() {
        let attempts = info("attempts", (1.0, 1000.0, 1.0), 3.0, ParamKind::Integer);
        let (label, summary, source) = (String::new(), String::new(), String::new());
        let sdk = ClientInfo { name: "openai_sdk".into(), label, summary, source, params: vec![attempts] };
        let catalog = Catalog { clients: vec![sdk], ..catalog() };
        let mut spec = Spec::default();
        spec.clients.policies = vec![ClientSpec::named("openai_sdk").with("attempts", 5.0)];
        let found = |spec: &Spec| choices(&catalog, spec).into_iter().find(|choice| choice.client == Some(0));
        assert_eq!(found(&spec), None);
        spec.clients.on = true;
        let choice = found(&spec).expect("an axis");
        assert_eq!((choice.key.as_str(), choice.value), ("clients.policies.0.params.attempts", 5.0));
        assert!(AxisForm::usual(&choice).axis().is_ok_and(|axis| check_key(&axis.key).is_ok()));
    }

    #[test]
    fn a_live_draft_is_swept_priced() {
        let mut draft = Spec::default();
        draft.execution.mode = ExecutionMode::Tinygpt;
        let (spec, live) = priced(&draft);
        assert!(live && spec.execution.mode == ExecutionMode::Priced);
        assert_eq!(priced(&spec), (spec.clone(), false));
    }
}
