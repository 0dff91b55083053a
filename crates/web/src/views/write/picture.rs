//! What the replica shows: each prompt's tokens and what was written, blocks, steps.
//!
//! Hundreds of chips change with every step, so they are written as markup in one go; every text goes through [`escape`].

use crate::state::App;
use crate::text;
use leptos::prelude::*;
use servelab_spec::writing::{Block, Line, Step};
use std::fmt::Write;

#[component]
pub(super) fn Picture() -> impl IntoView {
    let state = App::here().write;
    let lines = move || state.shown.with(|shown| shown.as_ref().map_or(0, |shown| shown.lines.len()));
    let line = move |at: usize| state.shown.with(|shown| shown.as_ref().and_then(|shown| shown.lines.get(at).cloned()));
    let count = Memo::new(move |_| lines());
    view! {
        <Show when=move || { count.get() > 0 }>
            <p class="findings" role="status" data-testid="write-sentence">
                {move || state.shown.with(|shown| shown.as_ref().map(|shown| text::write_sentence(shown)))}
            </p>
            <p class="write-text write-key">
                <span class="chip-c">{text::WRITE_KEY_CACHED}</span>
                " "
                <span class="chip-p">{text::WRITE_KEY_COMPUTED}</span>
                " "
                <span class="chip-w">{text::WRITE_KEY_WAITING}</span>
                " "
                <span class="chip-o">{text::WRITE_KEY_WRITTEN}</span>
            </p>
            <ol class="write-lines">
                {move || (0..count.get()).map(|at| view! {
                    <li data-testid=format!("write-line-{at}") data-cached=move || line(at).and_then(|line| line.cached).map(|cached| cached.to_string())>
                        <p class="write-text" inner_html=move || line(at).map(|line| chips(&line)).unwrap_or_default()></p>
                        <p class="muted results-note">{move || line(at).map(|line| text::write_line(&line))}</p>
                    </li>
                }).collect_view()}
            </ol>
            <h3>{text::WRITE_BLOCKS}</h3>
            <p class="muted results-note">{move || state.shown.with(|shown| shown.as_ref().map(|shown| text::write_blocks(shown)))}</p>
            <div
                class="write-blocks"
                aria-hidden="true"
                data-testid="write-blocks"
                inner_html=move || state.shown.with(|shown| shown.as_ref().map(|shown| squares(&shown.blocks)).unwrap_or_default())
            ></div>
            <h3>{text::WRITE_STEPS}</h3>
            <p class="muted results-note" data-testid="write-step">{move || state.steps.with(|steps| text::write_step(steps))}</p>
            <div class="write-steps" aria-hidden="true" inner_html=move || state.steps.with(|steps| bars(steps))></div>
        </Show>
    }
}

/// Prompt and output, a chip a token.
fn chips(line: &Line) -> String {
    let mut out = String::new();
    let cached = line.cached.unwrap_or(0) as usize;
    let prompt = line.prompt.iter().enumerate().map(|(at, piece)| {
        let class = match at {
            at if at < cached => "c",
            at if at < line.computed as usize => "p",
            _ => "w",
        };
        (class, piece)
    });
    for (class, piece) in prompt.chain(line.output.iter().map(|piece| ("o", piece))) {
        _ = write!(out, "<span class=\"chip-{class}\">");
        escape(piece, &mut out);
        out += "</span>";
        if piece.ends_with('\n') {
            out += "<br>";
        }
    }
    out
}

/// A square a block: its colour says who filled it, a ring that somebody holds it, faint that it is only kept.
fn squares(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        let state = match (block.held, block.cached) {
            (0, true) => "kept",
            (0, false) => "free",
            (1, _) => "held",
            _ => "shared",
        };
        _ = write!(out, "<i class=\"block-{state} owner-{}\"></i>", block.owner.map_or(8, |owner| owner % 8));
    }
    out
}

/// A bar a step, of whom there is room for the latest: how many tokens it computed, those of prompts apart.
fn bars(steps: &[Step]) -> String {
    let mut out = String::new();
    for step in &steps[steps.len().saturating_sub(120)..] {
        let class = match (step.prefill_tokens, step.decodes) {
            (0, _) => "decode",
            (_, 0) => "prefill",
            _ => "mixed",
        };
        // Five heights: 1, 2, 4, 16 tokens and more.
        let tokens = step.prefill_tokens + step.decodes;
        let height = [1, 2, 4, 16].iter().filter(|&&limit| tokens > limit).count();
        _ = write!(out, "<i class=\"step-{class} tall-{height}\"></i>");
    }
    out
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '<' => *out += "&lt;",
            '&' => *out += "&amp;",
            '\n' => *out += "⏎",
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_marked_and_their_text_is_only_text() {
        let line = Line {
            prompt: vec!["<b>".into(), "a&b".into(), "c".into()],
            cached: Some(1),
            computed: 2,
            output: vec!["x\n".into()],
            ..Line::default()
        };
        assert_eq!(
            chips(&line),
            "<span class=\"chip-c\">&lt;b></span><span class=\"chip-p\">a&amp;b</span><span class=\"chip-w\">c</span>\
             <span class=\"chip-o\">x⏎</span><br>"
        );
    }

    #[test]
    fn blocks_say_who_holds_them() {
        let block = |owner, held, cached| Block { owner, held, cached };
        let html = squares(&[
            block(None, 0, false),
            block(Some(9), 0, true),
            block(Some(0), 1, false),
            block(Some(0), 2, true),
        ]);
        assert_eq!(
            html,
            "<i class=\"block-free owner-8\"></i><i class=\"block-kept owner-1\"></i>\
             <i class=\"block-held owner-0\"></i><i class=\"block-shared owner-0\"></i>"
        );
    }
}
