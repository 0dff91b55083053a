//! Words of scaling: who decides, how replicas come and go, and what happens to them on the way.

use super::Words;

pub(super) const NUMBERS: &[(Words, f64)] = &[
    (("scaling.min", "Fewest replicas", "The controller never asks for fewer; 0 lets the fleet sleep."), 1.0),
    (("scaling.max", "Most replicas", "The controller never asks for more."), 1.0),
    (("scaling.scrape_s", "Scrape of scaling", "Time between two scrapes of the signals that controllers read."), 1.0),
    (
        (
            "scaling.grace_s",
            "Grace",
            "How long a replica may drain before it is killed; what it is then still writing is lost.",
        ),
        5.0,
    ),
    (
        (
            "scaling.node_linger_s",
            "Idle node kept",
            "How long a node without a replica is kept and paid for; a replica that comes meanwhile finds it there.",
        ),
        30.0,
    ),
    (
        (
            "scaling.host_cores",
            "Host cores",
            "Cores beside a replica's accelerator: what CPU utilisation is a share of.",
        ),
        1.0,
    ),
    (("scaling.host_request_us", "Core time of a request", "What a request costs the host's cores."), 100.0),
    (("scaling.host_step_us", "Core time of a step", "What a step costs the host's cores."), 100.0),
    (
        (
            "scaling.patience_s",
            "Run on",
            "How long after the last arrival the run goes on; what is still in flight then is pending.",
        ),
        60.0,
    ),
    (
        (
            "events.crash",
            "Crashing replicas",
            "So many replicas in rotation crash, and their nodes with them; 0 for none.",
        ),
        1.0,
    ),
    (
        (
            "scaling.overflow.load",
            "Full at",
            "Requests in flight for each ready replica from which on one more goes to the managed API.",
        ),
        1.0,
    ),
    (
        (
            "scaling.overflow.from_h",
            "Everything out from",
            "Hour of the day at which every request begins to go to the managed API, so that the fleet may sleep.",
        ),
        0.5,
    ),
    (("scaling.overflow.until_h", "Until", "Hour at which that ends; the same hour: never by the clock."), 0.5),
    (("scaling.overflow.ttft_s", "First token of the API", "Its time to first token, however much goes there."), 0.05),
    (("scaling.overflow.token_s", "Token of the API", "Its time for each further token."), 0.005),
    (("scaling.overflow.prompt_usd", "Price in", "What a million prompt tokens cost there; a round figure."), 0.1),
    (("scaling.overflow.output_usd", "Price out", "What a million output tokens cost there; a round figure."), 0.1),
    (("scaling.overflow.node_usd", "Price of a node", "What an hour of one of the fleet's own nodes costs."), 0.1),
    (("events.crash_at_s", "They crash at", "When they crash."), 1.0),
    (("events.deploy_at_s", "Deploy at", "When every replica begins to be replaced, one after the other."), 1.0),
    (("workload.hour_s", "Hour", "Length of an hour of the demand curve."), 60.0),
];

pub(super) const SWITCHES: &[Words] = &[
    (
        "scaling.on",
        "Scaling",
        "Replicas come and go by themselves: a controller decides, or those that are lost are replaced.",
    ),
    (
        "scaling.hold",
        "Hold requests",
        "A request that finds no ready replica waits for one. Off: it is refused with 503.",
    ),
    ("scaling.retry_lost", "Send lost requests again", "A request whose replica goes is sent again, once."),
    (
        "scaling.overflow.on",
        "Overflow",
        "What the fleet can not serve in time goes to a managed API, at its own speed and price.",
    ),
    ("events.deploy", "Deploy", "Every replica is replaced on the way."),
];

pub(super) const CHOICES: &[(Words, &[&str])] = &[(
    ("scaling.victim", "Who goes", "Which replica goes when there are too many; whoever is not ready goes first."),
    &["newest", "idlest", "coldest"],
)];
