//! Every sentence of the page, in one place (what is fixed and the controls here, stage and results below): to keep them short and alike, and ready to be translated.

/// Declares the fixed texts.
macro_rules! texts {
    ($($name:ident = $text:expr;)*) => { $(pub(crate) const $name: &str = $text;)* };
}

mod clients;
mod cold;
mod embed;
mod exports;
mod gateway;
pub(crate) mod glossary;
mod learn;
mod results;
mod scaling;
mod stage;
mod study;
mod traffic;
mod write;

pub(crate) use clients::*;
pub(crate) use cold::*;
pub(crate) use embed::*;
pub(crate) use exports::*;
pub(crate) use gateway::*;
pub(crate) use glossary::{GLOSSARY, GLOSSARY_NOTE};
pub(crate) use learn::*;
pub(crate) use results::*;
pub(crate) use scaling::*;
pub(crate) use stage::*;
pub(crate) use study::*;
pub(crate) use traffic::*;
pub(crate) use write::*;

use crate::format::{duration, number};
use servelab_spec::catalog::{CostInfo, ParamInfo, ParamKind};

texts! {
    NAME = "ServeLab";
    TAGLINE = "An LLM serving fleet in this tab";
    SKIP = "Skip to the experiment";
    SCHEME_TITLE = "Colour scheme: follow the system, light, or dark";
    SCHEME_AUTO = "Auto";
    SCHEME_LIGHT = "Light";
    SCHEME_DARK = "Dark";
    COPY_TITLE = "Copy an address that runs this again: priced to the same numbers, live on the device that opens it";
    COPY_LINK = "Copy link";
    COPIED = "Copied";
    COPY_FAILED = "Select it and copy";
    NOT_COPIED = "Copy it from the address bar";
    FOOT = "Everything runs in this tab. Nothing is sent anywhere.";
    KEYS = "Keys: space plays and pauses, ← → step, Home and End jump, 1–6 choose a policy, Esc closes.";
    CLOSE = "Close";

    QUESTION_REGION = "Question";
    QUESTION_LOADING = "Loading the simulator…";
    EXPERIMENT = "Experiment";
    RESET = "Reset to preset";
    RUN = "Run again";
    RUN_CHANGED = "Run with changes";
    CANCEL = "Cancel";

    IDLE = "idle";
    LOADING = "loading";
    RUNNING = "running";
    DONE = "done";
    STOPPED = "stopped";
    FAILED = "failed";
    PROGRESS = "Share of the run that is done";
    PARTIAL_SHORT = "cancelled; what had finished is kept";
    CANCELLED_SHORT = "cancelled; nothing had finished yet";
    STALE_SHORT = "controls changed since";
    RUN_FAILED = "The run failed.";
    CRASHED = "The simulator stopped.";
    TRY_AGAIN = "Try again";
    TRY_FIELD = "The control at fault is marked; change it and run again.";
    TRY_LOAD = "It has never been ready here. A reload may help, or another try when memory or the network is there again.";
    TRY_CRASH = "The last results are kept. It has been started anew; run again, with fewer requests or replicas if it was memory.";
    TRY_PRICED = "Try priced steps, or the small model.";
    TRY_PRESET = "Try resetting to the preset.";

    STAGE_REGION = "The fleet";
    STAGE_LOADING = "The fleet appears here as soon as the simulator has loaded.";
    STAGE_FAILED = "There is no fleet to show: the run failed before it began.";
    FOCUS_LABEL = "Policy on the stage";
    SIDE_BY_SIDE = "Side by side";
    SHOW_SCORES = "scores on the cards";
    ARRIVALS = "Arrivals";
    GATEWAY = "Gateway";
    GATEWAY_OPEN = "lets everything through";
    ROUTER = "Router";
    NO_STEP = "idle";
    STATE_PLANNED = "not there yet";
    STATE_STARTING = "starting";
    STATE_READY = "ready";
    STATE_NOT_READY = "out of rotation";
    STATE_STANDBY = "spare";
    STATE_DRAINING = "draining";
    STATE_GONE = "gone";
    CELLS_LABEL = "All replicas: fill is KV use, the numbers are running + waiting. Choose one to see it as a card.";

    PLAYBAR = "Playback";
    PLAY = "Play";
    PAUSE = "Pause";
    PLAY_TITLE = "Play or pause (space)";
    STEP = "Step";
    STEP_TITLE = "To the next event (→)";
    BACK = "Back";
    BACK_TITLE = "Back to the last stop (←)";
    SCRUB = "Virtual time";
    SPEED = "Speed";

    LEGEND = "Legend";
    LEGEND_TENANTS = "Tenant (prefix)";
    LEGEND_REPEAT = "from the ninth on, colours repeat";
    LEGEND_PILL = "Request";
    LEGEND_CACHED = "prompt from cache";
    LEGEND_COMPUTED = "computed";
    LEGEND_TODO = "still to compute";
    LEGEND_OUTPUT = "output so far";
    LEGEND_BLOCKS = "KV block";
    LEGEND_HELD = "held by one";
    LEGEND_SHARED = "shared";
    LEGEND_KEPT = "kept for reuse";
    LEGEND_EMPTY = "empty";
    LEGEND_EVICTED = "just evicted";

    CONTROLS_REGION = "Controls";
    STALE = "Changed since the last run. The results below are of the old settings.";
    NOTHING_TO_SET = "Nothing to set here in this experiment.";
    GROUP_EXECUTION = "Execution";
    GROUP_FLEET = "Fleet";
    GROUP_WORKLOAD = "Workload";
    GROUP_ENGINE = "Engine of each replica";
    GROUP_SIGNALS = "Signals";
    SIGNALS_NOTE = "How fresh what routers know is. A policy that reads only its own router's counts minds the number of routers, not the periods.";
    GROUP_STORE = "Shared KV store";
    STORE_NOTE = "A store behind the replicas: what one of them computed, another fetches where that is sooner than computing it.";
    GROUP_EVENTS = "What happens on the way";
    EVENTS_NOTE = "Replicas that come, go or lag, and routers that forget. Times are on the run's own clock.";
    GROUP_SLO = "What counts as good";
    MODE = "Steps are";
    MODE_PRICED = "priced, no model";
    MODE_TICK = "ticks: a few prefixes a replica";
    MODE_SERVER = "servers: drawn service times";
    MODE_AUTO = "TinyGPT, fastest device";
    MODE_CPU = "TinyGPT on the CPU";
    MODE_GPU = "TinyGPT on WebGPU";
    COST = "Price list";
    COST_CUSTOM = "Your own numbers";
    COST_CUSTOM_HELP = "A step costs what you say below.";
    POLICIES = "Policies compared";
    ADD_POLICY = "Add a policy…";
    ADD_DONE = "Done";
    ONE_POLICY = "Add a second one to compare.";
    MOST_POLICIES = "Six is the most that one table holds. Remove one to add another.";
    PICKER_REGION = "Policies to add";
    PICKER_SEARCH = "Search by name, project or words";
    PICKER_NONE = "No policy has all these words.";
    PICKER_THERE = "in the list";
    PICKER_NO_VARIANT = "nothing to vary";
    PICKER_EXHAUSTED = "It is in the list and has no parameter left to vary.";
    READS_PROMPTS = "reads prompts";
    READS_PROMPTS_TITLE = "It looks at what users wrote, so whoever runs it handles user data";
    POLICY_READS = "Reads";
    POLICY_COMPARES = "Compares";
    POLICY_FAILS = "Fails";
    SCRIPT = "Script";
    SCRIPT_HELP = "In Rhai. It defines route(request, replicas) and returns a replica's id, or a score for each replica of which the highest wins. It is bounded in operations and memory; an error ends the run with its line. Ctrl+Enter runs it.";
    SCRIPT_EMPTY = "Nothing stands here, so the first of the examples is run.";
    SCRIPT_FROM = "Start from:";
    SCRIPT_READS = "What it may read and call";
    SCRIPT_NAME = "Name";
    SCRIPT_MEANS = "Meaning";
    MOVE_UP = "Move up (the first one is what the others are compared with)";

    RESULTS_REGION = "Results";
    RESULTS = "Which policy wins";
    RESULTS_EMPTY = "The table fills as soon as the run has finished.";
    FROM_BEFORE = "computed before your visit; this tab is about to compute its own";
    RESULTS_FAILED = "No result: the run failed. What to try stands above.";
    STALE_RESULTS = "These results are of the settings before your changes.";
    PARTIAL = "Cancelled: these are the results until then, and later policies may be missing requests.";
    TABLE_REGION = "Results by policy";
    COL_POLICY = "Policy";
    SORT_BEST = "Sort by this column, best first; again for worst first";
    SORT_LARGEST = "Sort by this column, largest first; again for smallest first";
    SORT_AS_LISTED = "as listed";
    COL_TTFT = "TTFT";
    COL_ITL = "ITL";
    COL_OUTPUT = "Output";
    COL_OUTPUT_UNIT = " tok/s";
    COL_GOODPUT = "Goodput";
    COL_GOODPUT_UNIT = " req/s";
    COL_REUSE = "Reuse";
    COL_REUSE_UNIT = " of prompt tokens";
    COL_IMBALANCE = "Imbalance";
    COL_IMBALANCE_UNIT = " max ÷ mean";
    COL_ASSIGNMENTS = "requests";
    COL_UNCACHED = "work";
    COL_UNCACHED_LONG = "computed tokens";
    COL_KV = "KV peak";
    COL_PREEMPTIONS = "Preempted";
    COL_FETCHED = "Fetched";
    COLUMNS_MEAN = "What the columns mean";
    BY_TENANT = "By tenant";
    BY_REPLICA = "By replica";
    TENANT = "Tenant";
    REPLICA = "Replica";
    REQUESTS = "Requests";
    BUSY = "busy";
    EXPORT = "Save as";

    CHARTS_REGION = "Charts";
    CHARTS = "Over time";
    CHARTS_EMPTY = "Charts appear with the first result.";
    CHART_LOADING = "Drawing…";
    CHART_MORE = "Numbers and files";
    LATENCY = "Latency shown";
    STATISTIC = "Figure that the lines follow";
    CHART_NUMBERS = "The numbers behind the chart";
    SERIES = "series";
    READ_CHART = "Read the chart: arrow keys move, + and − zoom, [ and ] pan, 0 shows all";
    ZOOM_IN = "Zoom in";
    ZOOM_OUT = "Zoom out";
    PAN_LEFT = "Pan left";
    PAN_RIGHT = "Pan right";
    ZOOM_RESET = "All";
    ZOOM = "Zoom";

    DEVICES_REGION = "Devices";
    DEVICES = "What a step costs on this machine";
    DEVICES_TABLE = "Devices, measured side by side";
    DEVICE_NONE = "Nothing has run yet.";
    DEVICE = "Device";
    DECODE_1 = "decode, 1 sequence";
    DECODE_8 = "decode, 8 sequences";
    PREFILL_128 = "prefill, 128 tokens";
    KERNELS = "kernels a step";
    MEASURING = "Measuring…";
    MEASURE_CPU = "Measure the CPU";
    MEASURE_GPU = "Measure WebGPU (loads about 2 MB compressed)";
    NO_WEBGPU = "This browser offers no WebGPU.";
    DEVICES_NOTE = "TinyGPT, 5.8 million parameters, context 128. On a GPU a model this small is bound by dispatching kernels, not by arithmetic.";

    STEPS_LABEL = "Steps";
    STEP_PREDICT = "1 predict";
    STEP_RUN = "2 run";
    STEP_WHY = "3 why";
    GUESS_RIGHT = "what happened";
    GUESS_MINE = "your guess";
    GUESSED_WELL = "You were right.";
    GUESSED_OTHERWISE = "It came out differently.";
    NOT_GUESSED = "What happened:";
    NO_VERDICT = "This run does not have all that the question is about, so it answers nothing. Reset to the preset to ask again.";
    RUN_FIRST = "Run";
    RUN_GUESSED = "Run and see";
    STAGE_PREDICT = "Predict, then run: the fleet appears with the run.";

    WHY_REGION = "Why a request went where it went";
    WHY_EMPTY = "Choose a pill on the stage, or a request by its number, to see what each replica had to offer, what the policy made of it, and what that cost.";
    REQUEST = "Request";
    GO_TO_MOMENT = "Go to this moment";
    PROMPT_AND_OUTPUT = "Prompt and output";
    OFFERED = "What it offered";
    OFFERS_REGION = "What each replica offered when the request was routed";
    OFFER_CACHED = "Prompt tokens cached";
    OFFER_REQUESTS = "Requests in flight";
    OFFER_TOKENS = "Tokens in flight";
    OFFER_SCORE = "Score";
    OFFER_CHOSEN = "chosen";
    OFFER_AWAY = "not in service";
    OFFERS_TRUE = "The rows above the score are the truth at that instant; a policy may have known less, or something older.";

    STORY_REGION = "One request";
    STORY_LOADING = "Looking it up…";
    PREVIOUS_REQUEST = "Previous request";
    NEXT_REQUEST = "Next request";
    SERVED_BY = "Served by";
    ARRIVED_AT = "Arrived at";
    PROMPT_TOKENS = "Prompt";
    OUTPUT_TOKENS = "Output tokens";
    NOT_ROUTED = "not routed yet";
    WHY = "Why there";
    NO_WHY = "The policy compares nothing.";
    PROMPT = "Prompt";
    OUTPUT = "Generated text";
    NO_PROMPT = "This workload has token counts only, no text.";
    NO_OUTPUT = "Steps were priced, so no text was generated. With TinyGPT there is some: noise, since its weights are random.";
    PROMPT_NOTE = "A token is a byte; what is no letter is written as its code.";
    OUTPUT_NOTE = "Noise: the weights are random, only the work is real.";
}

/// A sentence from a message: capital at its start, full stop at its end.
pub(crate) fn sentence(message: &str) -> String {
    let message = message.trim();
    let mut chars = message.chars();
    let Some(first) = chars.next() else { return String::new() };
    // A key stays as it is written in addresses and files.
    let is_key = message.split([' ', ':']).next().is_some_and(|word| word.contains(['.', '_']));
    let body = if is_key { message.to_owned() } else { format!("{}{}", first.to_uppercase(), chars.as_str()) };
    if body.ends_with(['.', '!', '?']) { body } else { format!("{body}.") }
}

pub(crate) fn received(bytes: &str) -> String {
    format!("the simulator, {bytes} so far")
}

/// What a worker's stage means.
pub(crate) fn stage_words(stage: &str) -> &'static str {
    match stage {
        "loading" => "loading the model",
        "building" => "building the workload",
        "calibrating" => "measuring this device",
        "running" => "",
        _ => "the simulator",
    }
}

pub(crate) fn stage_share(stage: &str, share: f64) -> String {
    format!("{}, {}", stage_words(stage), crate::format::percent(share))
}

pub(crate) fn running_detail(stage: &str, policy: &str, at: &str, left: Option<String>) -> String {
    let left = left.map(|left| format!(", about {left} left")).unwrap_or_default();
    if stage.is_empty() { format!("{policy}, at {at}{left}") } else { format!("{stage}{left}") }
}

pub(crate) fn more_notices(more: usize) -> String {
    format!("And {more} more.")
}

pub(crate) fn moved_to_cpu(reason: &str) -> String {
    format!("WebGPU could not be used ({}); the run moved to the CPU.", reason.trim_end_matches('.'))
}

pub(crate) fn param_note(param: &ParamInfo, value: f64) -> String {
    match &param.kind {
        ParamKind::Switch => format!("{} {}", param.label.to_lowercase(), if value > 0.5 { "on" } else { "off" }),
        ParamKind::Choice(options) => {
            let option = options.get(value as usize).map(|option| option_words(option)).unwrap_or_default();
            format!("{} {option}", param.label.to_lowercase())
        }
        ParamKind::Number | ParamKind::Integer => format!("{} {}", param.label.to_lowercase(), number(value)),
    }
}

/// An option's name as words: options are named as in the JSON.
pub(crate) fn option_words(option: &str) -> String {
    option.replace('_', " ")
}

/// What stands there unless it is changed.
pub(crate) fn default_of(info: &ParamInfo, base: f64) -> String {
    let value = match &info.kind {
        ParamKind::Switch => if base > 0.5 { "on" } else { "off" }.to_owned(),
        ParamKind::Choice(options) => options.get(base as usize).map(|o| option_words(o)).unwrap_or_default(),
        ParamKind::Number | ParamKind::Integer => number(base),
    };
    format!("Default {value}.")
}

pub(crate) fn back_to(default: &str) -> String {
    format!("↺ {default}")
}

pub(crate) fn slider_label(label: &str) -> String {
    format!("{label}, slider")
}

pub(crate) fn remove_policy(label: &str) -> String {
    format!("Remove {label}")
}

pub(crate) fn policy_added(label: &str) -> String {
    format!("{label} added")
}

pub(crate) fn mode_help(mode: &str, webgpu: bool) -> String {
    let words = match mode {
        "priced" => "A cost model alone moves the clock. A whole run takes a moment.",
        "tick" => {
            "No model and no blocks: a replica remembers a few prefixes, and a request takes one tick if its prefix is among them, two if not."
        }
        "server" => "No model and no blocks: a replica is a queueing station with slots and drawn service times.",
        "cpu" => {
            "A real transformer computes every step on the CPU, its weights random or trained. A run takes a minute or so."
        }
        "webgpu" => {
            "A real transformer computes every step on the GPU, its weights random or trained. Its worker is about 2 MB."
        }
        _ => {
            "A real transformer computes every step on whichever device is the faster one here, its weights random or trained."
        }
    };
    if webgpu || matches!(mode, "priced" | "tick" | "server" | "cpu") {
        words.to_owned()
    } else {
        format!("{words} {NO_WEBGPU} The CPU takes over.")
    }
}

pub(crate) fn cost_words(cost: &CostInfo) -> String {
    let c = &cost.coefficients;
    format!(
        "{} A step costs {} + {} a prefill token + {} a decoding sequence, and more with context.",
        sentence(&cost.source),
        duration(c.step_us / 1e6),
        duration(c.prefill_token_us / 1e6),
        duration(c.decode_sequence_us / 1e6),
    )
}
