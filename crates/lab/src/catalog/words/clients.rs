//! Words of clients, faults and servers: who sends, what goes wrong, what is done about it.

use super::Words;

pub(super) const NUMBERS: &[(Words, f64)] = &[
    (
        (
            "clients.processes",
            "Client processes",
            "Requests come from so many processes; each has a retry budget, a circuit breaker and a throttle of its own.",
        ),
        1.0,
    ),
    (("clients.users", "Users", "Users of a closed loop: each waits for an answer, thinks, and asks again."), 1.0),
    (("clients.think_s", "Thinking", "Mean time between an answer and the next request of a user or session."), 0.5),
    (
        (
            "clients.patience_s",
            "Run on",
            "How long after the last arrival the run goes on; who still waits then is counted as waiting.",
        ),
        60.0,
    ),
    (("faults.down", "Replicas down", "So many replicas are down for a while; 0 for none."), 1.0),
    (("faults.down_at_s", "Down at", "When they go down."), 1.0),
    (("faults.down_s", "Down for", "How long they are down."), 1.0),
    (
        (
            "faults.split",
            "Replicas cut off",
            "So many replicas are cut off from the routers for a while: what is sent there hangs; 0 for none.",
        ),
        1.0,
    ),
    (("faults.split_at_s", "Cut off at", "When they are cut off."), 1.0),
    (("faults.split_s", "Cut off for", "How long they are cut off."), 1.0),
    (("faults.stale_at_s", "Telemetry lost at", "When scrapes stop."), 1.0),
    (("faults.stale_s", "Telemetry lost for", "How long nobody scrapes."), 1.0),
    (("faults.errors", "Errors", "Share of attempts that replicas answer with an error (500) for a while."), 0.05),
    (("faults.errors_at_s", "Errors from", "When errors begin."), 1.0),
    (("faults.errors_s", "Errors for", "How long they go on."), 1.0),
    (
        ("faults.poison_request", "Poison request", "Which request crashes its replica: its number in the workload."),
        1.0,
    ),
    (
        (
            "faults.poison_restart_s",
            "Restart after a crash",
            "How long a replica is away that the poison request crashed.",
        ),
        1.0,
    ),
    (
        (
            "faults.reject_cost_s",
            "Cost of a rejection",
            "What turning an attempt away costs a replica of its time; capacity that retries take from everybody.",
        ),
        0.001,
    ),
    (("faults.remedy_at_s", "Remedy at", "When the remedy is applied."), 1.0),
    (("faults.remedy_share", "Load dropped", "Share of requests that the remedy of dropping load turns away."), 0.05),
    (("faults.remedy_for_s", "Dropped for", "How long that remedy turns them away; 0: to the end."), 1.0),
    (
        (
            "faults.remedy_times",
            "Limits raised",
            "How many times what they were the remedy makes limits and queue of the gateway, slots and queues of servers.",
        ),
        0.5,
    ),
    (("server.slots", "Slots", "Requests that a server works on at once."), 1.0),
    (("server.service_s", "Service time", "Mean time that a server takes for a request."), 0.01),
    (
        (
            "server.crowding_s",
            "Crowding",
            "What each request in service adds to the service time of one that starts: servers in each other's way.",
        ),
        0.001,
    ),
    (("server.queue", "Queue", "Requests that may wait at a server, more are turned away with 503; 0: no limit."), 1.0),
];

pub(super) const SWITCHES: &[Words] = &[
    (
        "clients.on",
        "Clients",
        "Clients have rules of their own: time-outs, retries, budgets. Off: each request is sent once.",
    ),
    (
        "clients.together",
        "All in one run",
        "The client policies listed act in one run, each on an equal share of requests. Off: a run for each.",
    ),
    (
        "clients.cancels",
        "Cancellation reaches the server",
        "The server learns when nobody waits any more, and stops. Off: it works on, for nobody.",
    ),
    (
        "faults.down_loses",
        "Work in flight is lost",
        "What a replica has when it goes down is lost. Off: it stands still, goes on where it was, and routers do not know.",
    ),
    ("faults.stale", "Telemetry lost", "Nobody scrapes for a while: routers and autoscalers go on with old numbers."),
    ("faults.poison", "Poison request", "One request crashes whatever replica serves it."),
];

pub(super) const CHOICES: &[(Words, &[&str])] = &[
    (
        (
            "clients.pace",
            "Pace",
            "Requests come when the workload says (open), when a user has thought (closed), or turn by turn (sessions).",
        ),
        &["open", "closed", "sessions"],
    ),
    (
        (
            "faults.remedy",
            "Remedy",
            "What is done in mid-run: abandoned work is cancelled, load is dropped at the door, every client gets a budget, or limits are raised.",
        ),
        &["none", "cancel", "drop_load", "budgets", "raise_limits"],
    ),
    (("server.draws", "Service times", "How a server's service times are drawn."), &["exponential", "fixed"]),
];
