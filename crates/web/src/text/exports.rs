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
    METHODS_COPY = "Copy the paragraph";
}
