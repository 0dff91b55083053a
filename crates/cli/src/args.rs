//! What can be asked.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// An LLM serving fleet on your terminal: run an experiment, compare policies, carry the answer away.
#[derive(Parser)]
#[command(name = "servelab", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an experiment and print its report.
    Run(RunArgs),
    /// Show what can be chosen.
    List(ListArgs),
    /// Print everything that can be chosen, as JSON.
    Catalog,
}

#[derive(ClapArgs)]
pub(crate) struct RunArgs {
    /// A preset (`servelab list presets`), a JSON file with a spec or a report, or an address copied from the page.
    pub(crate) experiment: String,
    /// Change a setting (`servelab list settings`), for example `workload.rate=12` or `policies=round_robin,prefix_affinity(guard=0)`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of every random draw.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How to print the report.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Draw a chart (`servelab list charts`) into a file; may be given several times.
    #[arg(long = "chart", value_name = "ID=FILE.svg")]
    pub(crate) charts: Vec<String>,
    /// Width and height of charts, pixels.
    #[arg(long, value_name = "WxH", default_value = "960x480")]
    pub(crate) chart_size: String,
    /// Draw charts for a dark background.
    #[arg(long)]
    pub(crate) dark: bool,
    /// Keep the record of a run with the real model in a file.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct ListArgs {
    /// What to show; everything without it.
    #[arg(value_enum)]
    pub(crate) what: Option<Listed>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Routing policies and their parameters.
    Policies,
    /// Ready-made experiments.
    Presets,
    /// Cost models.
    Costs,
    /// Settings of an experiment.
    Settings,
    /// Charts.
    Charts,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// Everything, with field names that stay.
    Json,
    /// A row per policy and per tenant.
    Csv,
}
