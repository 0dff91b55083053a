//! What must hold between the settings of scaling and the rest.

use super::{MAX_POLICIES, SpecError, check_name};
use crate::experiment::Spec;

pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    let scaling = &spec.scaling;
    let on = "needs scaling.on=on";
    if !scaling.on {
        let refused = |field: &str, found: String| Err(SpecError::new(field, found, on));
        return match &spec.events {
            _ if !scaling.controllers.is_empty() => {
                refused("scaling.controllers", format!("a list of {}", scaling.controllers.len()))
            }
            events if events.deploy => refused("events.deploy", "on".into()),
            events if events.crash > 0 => refused("events.crash", events.crash.to_string()),
            _ => Ok(()),
        };
    }
    if scaling.min > scaling.max {
        let accepted = format!("accepted is at least scaling.min, which is {}", scaling.min);
        return Err(SpecError::new("scaling.max", scaling.max, accepted));
    }
    if spec.replicas < scaling.min || spec.replicas > scaling.max {
        let accepted = format!("accepted are {} to {}, the bounds of scaling", scaling.min, scaling.max);
        return Err(SpecError::new("replicas", spec.replicas, accepted));
    }
    for (field, many) in [("events.join", spec.events.join), ("events.leave", spec.events.leave)] {
        if many > 0 {
            let accepted = "accepted is 0 with scaling.on=on: how many replicas there are is decided there";
            return Err(SpecError::new(field, many, accepted));
        }
    }
    for (index, controller) in scaling.controllers.iter().enumerate() {
        let field = format!("scaling.controllers.{index}");
        check_name(&format!("{field}.name"), &controller.name)?;
        for (param, value) in &controller.params {
            check_name(&format!("{field}.params"), param)?;
            if !value.is_finite() {
                return Err(SpecError::new(format!("{field}.params.{param}"), value, "accepted is a finite number"));
            }
        }
        if scaling.controllers[..index].contains(controller) {
            let accepted = "accepted is each controller once with the same parameters";
            return Err(SpecError::new(field, &controller.name, accepted));
        }
    }
    let runs = spec.contenders().len();
    if runs > MAX_POLICIES {
        let found = format!("{} with each of {} policies", scaling.controllers.len(), spec.policies.len());
        let accepted = format!("accepted are at most {MAX_POLICIES} runs in all");
        return Err(SpecError::new("scaling.controllers", found, accepted));
    }
    Ok(())
}
