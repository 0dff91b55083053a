//! The command that runs an experiment on a terminal.

use crate::experiment::{Spec, WorkloadSpec};
use crate::patch;

/// `servelab run …` for a spec, as a shell reads it: the address in quotes, and a place for the file of a recorded trace. `base` is the spec of the preset
/// that `spec.preset` names.
pub fn run(spec: &Spec, base: &Spec) -> String {
    let trace = if matches!(spec.workload, WorkloadSpec::Trace(_)) { " --trace FILE" } else { "" };
    format!("servelab run {}{trace}", quoted(&format!("#{}", patch::encode(spec, base))))
}

/// A word that any shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_what_differs_and_a_trace_its_file() {
        let base = Spec { preset: "p".into(), ..Spec::default() };
        let spec = Spec { replicas: 9, ..base.clone() };
        assert_eq!(run(&spec, &base), "servelab run '#v=1&preset=p&replicas=9'");
        let spec = Spec { workload: WorkloadSpec::Trace(Default::default()), ..base.clone() };
        assert!(run(&spec, &base).ends_with("' --trace FILE"), "{}", run(&spec, &base));
    }

    #[test]
    fn quotes_end_no_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's $HOME `x` \\"), r"'it'\''s $HOME `x` \'");
        // Nor does what somebody typed, which is escaped on its way into an address.
        let base = Spec { preset: "p".into(), ..Spec::default() };
        let spec = Spec { preset: "p'; rm -r $HOME; '".into(), ..base.clone() };
        let words = run(&spec, &spec);
        assert_eq!(words.matches('\'').count(), 2, "{words}");
        assert!(!words.contains([';', '$']), "{words}");
    }
}
