//! `OpenAI(max_retries=, timeout=)` and `Anthropic(max_retries=, timeout=)`: one generator made both, so their rules are the same.

use super::{Export, seconds};
use servelab_fleet::clients::{ClientPolicy, Obey, presets};

pub(super) fn openai(policy: &ClientPolicy) -> Export {
    client(policy, Export::new("OpenAI SDK", "openai_client.py", "#"), ("openai", "OpenAI"))
}

pub(super) fn anthropic(policy: &ClientPolicy) -> Export {
    client(policy, Export::new("Anthropic SDK", "anthropic_client.py", "#"), ("anthropic", "Anthropic"))
}

fn client(policy: &ClientPolicy, mut export: Export, (module, class): (&str, &str)) -> Export {
    // What it does by itself, whatever is set.
    let Some(own) = presets::find("openai_sdk").map(|preset| (preset.policy)()) else { return export };
    let retries = policy.attempts > 1;
    if retries && policy.backoff != own.backoff {
        export.lacks("Waits are the SDK's own: half a second, doubled up to 8 s, less up to a quarter by chance.");
    }
    if retries && policy.retry_on != own.retry_on {
        export.lacks("The SDK tries again after time-outs, 408, 409, 429 and 5xx.");
    }
    if retries && (policy.retry_after.obey != Obey::Exactly || policy.retry_after.longest != own.retry_after.longest) {
        export.lacks("The SDK comes back exactly when Retry-After says, up to a minute.");
    }
    export.lacks_what_none_has(policy, &[]);
    let timeout = policy.timeout.map_or("None".into(), seconds);
    export.body = format!(
        "from {module} import {class}\n\nclient = {class}(\n    max_retries={},\n    timeout={timeout},\n)\n",
        policy.attempts - 1
    );
    export
}
