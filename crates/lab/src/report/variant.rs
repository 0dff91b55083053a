//! Variants of a run: the same experiment with some settings changed, run to its end by a judge that compares fixes. A variant is named by what
//! `--set` would take, so that whoever reads a verdict can run it; it starts from the spec as it was run, not from its preset.

use super::verdict::Case;
use crate::session::Session;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{ExecutionMode, PolicySpec, Spec};
use servelab_spec::patch;
use servelab_spec::report::{PolicyReport, Report};

/// A variant that has run.
pub(crate) struct Variant {
    preset: PresetInfo,
    session: Session,
    report: Report,
}

impl Case<'_> {
    /// The same experiment under `policies` with `changes`. Nothing unless steps are priced (a judge has no executor), and nothing when the changes do
    /// not fit the spec as it is.
    pub(crate) fn variant(&self, policies: &[PolicySpec], changes: &[(&str, &str)]) -> Option<Variant> {
        if !matches!(self.spec.execution.mode, ExecutionMode::Priced | ExecutionMode::Server) {
            return None;
        }
        let start = Spec { policies: policies.to_vec(), ..self.spec.clone() };
        let spec = changes.iter().try_fold(start, |spec, (key, value)| patch::set(&spec, key, value)).ok()?;
        let mut session = Session::unwatched(spec).ok()?;
        while !session.advance(u32::MAX).ok()?.done {}
        let report = session.report();
        Some(Variant { preset: self.preset.clone(), session, report })
    }
}

impl Variant {
    /// It, to be judged like the run itself.
    pub(crate) fn case(&self) -> Option<Case<'_>> {
        let stage = self.session.stage.as_ref()?;
        Some(Case { preset: self.preset.clone(), spec: &self.session.spec, report: &self.report, stage })
    }

    /// Its first policy.
    pub(crate) fn policy(&self) -> &PolicyReport {
        &self.report.policies[0]
    }
}
