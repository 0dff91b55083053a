//! Sentences of the model that writes.

use crate::format::duration;
use servelab_spec::writing::{Line, Step, WriterModel, Written};

texts! {
    WRITE = "One engine, and a model that writes";
    WRITE_NOTE = "A small transformer, trained for this page, continues your prompts on one replica of this tab. Every prompt begins with the shared part: write once, change a line, write again, and see what the second request does not have to compute.";
    WRITE_BEGIN = "All prompts begin with";
    WRITE_PICK = "Take a shared beginning";
    WRITE_LINES = "and go on with, one prompt a line (a batch when there are several)";
    WRITE_OWN = "BAKER:\nWIDOW:";
    WRITE_GO = "Write";
    WRITE_STOP = "Stop";
    WRITE_EMPTY = "Empty the cache";
    WRITE_TOKENS = "tokens each";
    WRITE_TOKENS_HELP = "How many tokens are written after each prompt.";
    WRITE_TEMPERATURE = "temperature";
    WRITE_TEMPERATURE_HELP = "0 takes the likeliest token; 1 draws as the model says; more is wilder.";
    WRITE_TOP_K = "top-k";
    WRITE_TOP_K_HELP = "Draw from the k likeliest tokens; 0 from all.";
    WRITE_TOP_P = "top-p";
    WRITE_TOP_P_HELP = "Draw from the fewest tokens that together have this probability.";
    WRITE_SEED = "seed";
    WRITE_SEED_HELP = "The same seed writes the same text.";
    WRITE_SLOW = "slowly";
    WRITE_LATER = "The model (7 MB) is fetched when you first ask.";
    WRITE_KEY_CACHED = "found in the cache";
    WRITE_KEY_COMPUTED = "computed";
    WRITE_KEY_WAITING = "still to be computed";
    WRITE_KEY_WRITTEN = "written";
    WRITE_BLOCKS = "KV blocks";
    WRITE_STEPS = "Steps";
    WRITE_OWN_MODEL = "A model of your own";
    WRITE_WEIGHTS = "Weights (safetensors)";
    WRITE_TOKENIZER = "Tokenizer (tokenizer.json)";
    WRITE_FILES_NOTE = "The same architecture in any size, with the configuration in the file's header. Files stay in this tab.";
}

/// Beginnings to take: a name, and the words.
pub(crate) const WRITE_SHARED: [(&str, &str); 3] = [
    (
        "The dry well",
        "MAYOR:\nGood people, hear me. The well is dry, the winter stands before the gate, and there is bread for nine days and no more. One of us must ride to the king tonight and ask for corn. Who will speak first?",
    ),
    (
        "Two brothers",
        "The hall of a castle. Enter two brothers, with servants.\n\nELDER:\nBrother, thou hast my father's sword and I have nothing but his name. Tell me before these men how that was done.",
    ),
    ("Nothing", ""),
];

/// Bytes that have come.
pub(crate) fn writer_loading(received: f64, total: Option<f64>) -> String {
    let mb = |bytes: f64| crate::format::fixed(bytes / 1e6, 1);
    match total {
        Some(total) => format!("Loading the model: {} of {} MB", mb(received), mb(total)),
        None => format!("Loading the model: {} MB", mb(received)),
    }
}

pub(crate) fn writer_model(model: &WriterModel) -> String {
    format!("{}, on {}; prompt and output up to {} tokens.", model.name, model.device, model.context)
}

/// What came of it, in sentences.
pub(crate) fn write_sentence(written: &Written) -> String {
    let totals = &written.totals;
    let saved: f64 = written.lines.iter().filter_map(|line| line.saved_s).sum();
    let mut out = format!("{} of {} prompt tokens came from the cache", totals.cached_tokens, totals.prompt_tokens);
    if totals.cached_tokens > 0 && saved > 0.0 {
        out += &format!(", which saved about {}", duration(saved));
    }
    if let Some(speed) = totals.tokens_per_s {
        out += &format!(". {} tokens written, {speed:.0} per second", totals.output_tokens);
    }
    let tokens = totals.prefill_share * 100.0;
    match totals.prefill_time_share {
        Some(time) => {
            out + &format!("; prefill took {:.0} % of the time and was {tokens:.0} % of the tokens.", time * 100.0)
        }
        None => out + &format!("; {tokens:.0} % of the tokens computed were prefill."),
    }
}

pub(crate) fn write_line(line: &Line) -> String {
    let Some(cached) = line.cached else { return format!("{} prompt tokens, waiting", line.prompt.len()) };
    let mut out = format!("{} prompt tokens, {cached} from the cache", line.prompt.len());
    if let Some(first) = line.first_token_s {
        out += &format!("; first token after {}", duration(first));
    }
    out
}

pub(crate) fn write_blocks(written: &Written) -> String {
    let held = written.blocks.iter().filter(|block| block.held > 0).count();
    let shared = written.blocks.iter().filter(|block| block.held > 1).count();
    let kept = written.blocks.iter().filter(|block| block.held == 0 && block.cached).count();
    let (all, tokens) = (written.blocks.len(), written.block_tokens);
    format!(
        "{all} blocks of {tokens} tokens: {held} held, {shared} of them by several; {kept} kept for whoever asks for them again. A colour is the prompt that filled it."
    )
}

pub(crate) fn write_step(steps: &[Step]) -> String {
    let Some(step) = steps.last() else { return String::new() };
    let time = step.seconds.map_or(String::new(), |seconds| format!(", {}", duration(seconds)));
    format!(
        "Step {}: {} prompt tokens computed, {} sequences decoded{time}. A bar is a step, its height the tokens it computed.",
        steps.len(),
        step.prefill_tokens,
        step.decodes
    )
}
