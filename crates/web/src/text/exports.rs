//! What a run leaves as.

texts! {
    EXPORT_NUMBERS = "Numbers";
    EXPORT_TOOLS = "For other tools";
    EXPORT_SETTINGS = "As settings of real systems";
    EXPORT_JSON_NOTE = "Everything, with the spec that gives it again";
    EXPORT_CSV_NOTE = "A row for each policy and tenant";
    EXPORT_MARKDOWN = "Markdown";
    EXPORT_MARKDOWN_NOTE = "Tables of policies, tenants and replicas";
    EXPORT_METHODS = "Methods";
    EXPORT_METHODS_NOTE = "A paragraph that states what was run and how to repeat it";
    EXPORT_PERFETTO = "Trace";
    EXPORT_PERFETTO_NOTE = "For ui.perfetto.dev or Chrome: steps, slots, requests as flows";
    EXPORT_PROMETHEUS = "Metrics";
    EXPORT_PROMETHEUS_NOTE = "As Prometheus reads them, under vLLM's names";
    TERMINAL = "Open in CLI";
    TERMINAL_TITLE = "The command that gives the same bytes on a terminal";
    TERMINAL_REGION = "The same run on a terminal";
    TERMINAL_SAME = "On any machine it gives the same bytes as JSON under \u{201c}Save as\u{201d}.";
    TERMINAL_LIVE = "With the program built with its feature tinygpt. Times are the device's own there as here, so they differ; what is computed does not.";
    TERMINAL_TRACE = "FILE is the file of recorded requests that this experiment replays; with it, it gives the same bytes as JSON under \u{201c}Save as\u{201d}.";
    TERMINAL_COPY = "Copy the command";
    SAVE_TABLE = "Save table";
    METHODS_COPY = "Copy the paragraph";
}
