//! Taking things away: buttons that save a file, and every table of the page as CSV and Markdown.

use crate::{env, format, text};
use leptos::html;
use leptos::prelude::*;
use servelab_spec::table::{Cell, Table};
use wasm_bindgen::JsCast;
use web_sys::{Element, Node};

/// A file as it is saved: its name, its MIME type.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Json,
    Csv,
    Markdown,
}

impl Kind {
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Json => ("JSON", "json", "application/json"),
            Kind::Csv => ("CSV", "csv", "text/csv"),
            Kind::Markdown => ("Markdown", "md", "text/markdown"),
        }
    }
}

/// A button that saves what `made` comes to as `name` with the kind's ending. JSON ends with a line's end, as the command line writes it.
pub(super) fn save(
    kind: Kind,
    testid: &'static str,
    name: &str,
    made: impl Fn() -> Option<String> + 'static,
) -> AnyView {
    let (label, ending, mime) = kind.parts();
    let file = format!("{name}.{ending}");
    let made: Box<dyn Fn() -> Option<String>> = Box::new(made);
    let press = move |_| {
        if let Some(mut text) = made() {
            if matches!(kind, Kind::Json) {
                text.push('\n');
            }
            env::download(&file, mime, &text);
        }
    };
    view! { <button type="button" data-testid=testid on:click=press>{label}</button> }.into_any()
}

/// A button that copies what `made` comes to, and says so.
pub(super) fn copy_button(testid: &'static str, label: &'static str, made: impl Fn() -> String + 'static) -> AnyView {
    let copied = RwSignal::new(None::<bool>);
    let press = move |_| {
        let text = made();
        leptos::task::spawn_local(async move { copied.set(Some(env::copy(&text).await)) });
    };
    let words = move || match copied.get() {
        None => label,
        Some(true) => text::COPIED,
        Some(false) => text::COPY_FAILED,
    };
    view! { <button type="button" data-testid=testid on:click=press><span role="status">{words}</span></button> }
        .into_any()
}

/// A table in a box that scrolls by itself, and behind one small button the table as it stands, as CSV and Markdown.
#[component]
pub(super) fn TableBox(
    /// What the table is, for those who do not see it.
    label: &'static str,
    /// Name of the files, without their ending.
    name: &'static str,
    #[prop(optional)] class: &'static str,
    children: Children,
) -> impl IntoView {
    let place = NodeRef::<html::Div>::new();
    let table = move || {
        place.get_untracked().and_then(|place| place.query_selector("table").ok().flatten()).map(|table| read(&table))
    };
    let name = format!("servelab-{name}");
    view! {
        <div class=format!("table-box {class}") role="region" tabindex="0" aria-label=label data-keys="" node_ref=place>{children()}</div>
        <details class="table-save">
            <summary aria-label=format!("{}: {label}", text::SAVE_TABLE)>{text::SAVE_TABLE}</summary>
            {save(Kind::Csv, "table-csv", &name, move || table().map(|table| table.to_csv()))}
            {save(Kind::Markdown, "table-markdown", &name, move || table().map(|table| table.to_markdown()))}
        </details>
    }
}

/// What is no part of a table's words: marks, and buttons that do something to it.
const NO_WORDS: &str = "[aria-hidden=true], .unsort, thead .visually-hidden, caption";

/// The table as it stands on the page.
fn read(table: &Element) -> Table {
    let rows = elements(table, "tr");
    let heads = rows.iter().filter(|row| row.closest("thead").is_ok_and(|head| head.is_some())).count();
    let rows: Vec<Vec<Cell>> = rows.iter().map(|row| elements(row, "th, td").iter().map(cell).collect()).collect();
    Table::laid_out(heads, &rows)
}

fn elements(of: &Element, selector: &str) -> Vec<Element> {
    let Ok(found) = of.query_selector_all(selector) else { return Vec::new() };
    (0..found.length()).filter_map(|at| found.item(at)?.dyn_into().ok()).collect()
}

fn cell(element: &Element) -> Cell {
    let span = |name: &str| element.get_attribute(name).and_then(|span| span.parse().ok()).unwrap_or(1);
    let mut cell = Cell { columns: span("colspan"), rows: span("rowspan"), ..Cell::default() };
    gather(element, false, &mut cell);
    let tidy = |text: &str| text.split([' ', '\n']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    (cell.text, cell.note) = (tidy(&cell.text), tidy(&cell.note));
    // Names hold what somebody wrote; cells hold numbers as this page writes them, and files have them as all programs read them.
    if element.tag_name() == "TD" {
        (cell.text, cell.note) = (format::neutral(&cell.text), format::neutral(&cell.note));
    }
    cell
}

/// Words of a cell and of what stands under them.
fn gather(of: &Node, noted: bool, cell: &mut Cell) {
    let nodes = of.child_nodes();
    for node in (0..nodes.length()).filter_map(|at| nodes.item(at)) {
        let Some(element) = node.dyn_ref::<Element>() else {
            // Text; a comment, as frameworks leave them, has no place among words.
            if node.node_type() == Node::TEXT_NODE {
                let into = if noted { &mut cell.note } else { &mut cell.text };
                into.push_str(&node.text_content().unwrap_or_default());
            }
            continue;
        };
        if element.matches(NO_WORDS).unwrap_or(false) {
            continue;
        }
        if let Some(field) = element.dyn_ref::<web_sys::HtmlInputElement>() {
            cell.text.push_str(&field.value());
        }
        gather(element, noted || element.class_list().contains("cell-note"), cell);
    }
}
