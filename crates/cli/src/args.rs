//! What can be asked.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use servelab_spec::protocol::Statistic;
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
    /// Run an experiment at every value of one or two settings, with several seeds.
    Sweep(SweepArgs),
    /// Put the shards of a sweep or of a search for knees together.
    Merge(MergeArgs),
    /// Find the highest rate at which each policy keeps the limits, per replica.
    Knee(KneeArgs),
    /// Show a cold start stage by stage, what its probes make of it, and what weights take at least.
    Coldstart(ColdstartArgs),
    /// Which signal sees too much load coming, and how long before the first late user.
    Signals(SignalsArgs),
    /// Let the trained model continue prompts, on one replica that keeps its cache from prompt to prompt.
    Write(WriteArgs),
    /// Show what a file of recorded requests looks like, and what will matter when it is run.
    Inspect(InspectArgs),
    /// Replay a file of recorded requests under several policies.
    Replay(ReplayArgs),
    /// Show what can be chosen.
    List(ListArgs),
    /// Print everything that can be chosen, as JSON.
    Catalog,
    /// Print the JSON Schema of a spec or a report.
    Schema(SchemaArgs),
}

impl Args {
    /// How results are to be printed, where that was said.
    pub(crate) fn format(&self) -> Option<Format> {
        match &self.command {
            Command::Run(args) => Some(args.print.format),
            Command::Replay(args) => Some(args.run.format),
            Command::Inspect(args) => Some(args.format),
            Command::List(args) => Some(args.format),
            Command::Sweep(args) => args.spread.into.format,
            Command::Knee(args) => args.spread.into.format,
            Command::Merge(args) => args.into.format,
            Command::Coldstart(args) => args.into.format,
            Command::Signals(args) => args.into.format,
            Command::Write(_) | Command::Catalog | Command::Schema(_) => None,
        }
    }
}

/// Which experiment, and what is changed in it.
#[derive(ClapArgs)]
pub(crate) struct Experiment {
    /// A preset (`servelab list presets`), a JSON file with a spec or a report, or an address copied from the page.
    #[arg(required_unless_present = "preset")]
    pub(crate) experiment: Option<String>,
    /// The same by the preset's name alone.
    #[arg(long, value_name = "NAME", conflicts_with = "experiment")]
    pub(crate) preset: Option<String>,
    /// Change a setting (`servelab list settings`), for example `workload.rate=12` or `policies=round_robin,prefix_affinity(guard=0)`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Compare a policy of your own too: a script in Rhai (`servelab list script`). May be given several times.
    #[arg(long = "script", value_name = "FILE.rhai")]
    pub(crate) scripts: Vec<PathBuf>,
    /// What the scripts may read: 0 router-local counts, 1 polled metrics too, 2 KV events too.
    #[arg(long, value_name = "0-2", default_value_t = 0, requires = "scripts", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) script_tier: u8,
    /// Seed of every random draw; of several runs, that of the first.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Replay this file of recorded requests: it is the workload then, or the trace that the experiment names.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// How a file of recorded requests is read.
#[derive(ClapArgs)]
pub(crate) struct ReadArgs {
    /// Its format, where it is not what it looks like: mooncake, qwen, azure, burst_gpt, vllm_bench, otel or columns.
    #[arg(long, value_name = "NAME")]
    pub(crate) trace_format: Option<String>,
    /// Which columns of a CSV are what: `arrival=ts,unit=ms,prompt=in,output=out`, and if there are `session`, `tenant`, `prefix`, `prefix_tokens`.
    #[arg(long, value_name = "PART=COLUMN,…")]
    pub(crate) columns: Option<String>,
    /// Tokens that a block key of the file stands for, where it is not what is usual in its format.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) key_tokens: Option<u32>,
}

#[derive(ClapArgs)]
pub(crate) struct InspectArgs {
    /// The file, plain or packed with gzip.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// How to print it; JSON has a spec in it that `servelab run` takes.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Draw `traffic_rate`, `traffic_lengths` or `traffic_cache` into a file; may be given several times.
    #[arg(long = "chart", value_name = "ID=FILE.svg")]
    pub(crate) charts: Vec<String>,
    /// Draw charts for a dark background.
    #[arg(long)]
    pub(crate) dark: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ReplayArgs {
    /// The file, plain or packed with gzip.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Policies to compare (`servelab list policies`), as `round_robin,prefix_affinity(guard=0)`; may be given several times.
    #[arg(long = "policy", value_name = "NAME,…")]
    pub(crate) policies: Vec<String>,
    /// Change a setting, for example `replicas=8`, `workload.speed=2` or `workload.until_s=600`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of every random draw.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) run: Print,
}

/// Where results go and how many cores work on them.
#[derive(ClapArgs)]
pub(crate) struct Spread {
    /// Runs at a time; as many as there are cores without it.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    #[command(flatten)]
    pub(crate) into: Into,
}

/// Where results go.
#[derive(ClapArgs)]
pub(crate) struct Into {
    /// Write to a file instead of the terminal; what stood in it is replaced when the result is there.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How to print the result: a table on a terminal, JSON into a file, unless said otherwise.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

#[derive(ClapArgs)]
pub(crate) struct SweepArgs {
    /// The experiment; or a JSON file with a sweep or the result of one, which is run again.
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// A setting and its values, once or twice: `workload.rate=0.5,1,2`, `workload.rate=0.5..2*7` (seven values, equal differences) or
    /// `replicas=1..64^7` (equal ratios).
    #[arg(long = "axis", value_name = "KEY=VALUES")]
    pub(crate) axes: Vec<String>,
    /// Runs of every point, each with a seed of its own; five without it. A single one has no error band.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Draw a figure (a name out of the result, as `ttft_p95_s`) into a file: over one axis a line for each policy, over two a map of one
    /// policy. May be given several times.
    #[arg(long = "chart", value_name = "FIGURE=FILE.svg")]
    pub(crate) charts: Vec<String>,
    /// The policy of maps, counted from 0 in the order of the experiment.
    #[arg(long, value_name = "N", requires = "charts")]
    pub(crate) policy: Option<u32>,
    /// Maps show that policy less this one.
    #[arg(long, value_name = "N", requires = "charts")]
    pub(crate) against: Option<u32>,
    /// Run only every n-th cell from the k-th; `merge` puts shards together.
    #[arg(long, value_name = "K/N")]
    pub(crate) shard: Option<String>,
    #[command(flatten)]
    pub(crate) spread: Spread,
}

#[derive(ClapArgs)]
pub(crate) struct KneeArgs {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Searches for every policy, each with a seed of its own. A single one has no error band.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) seeds: u32,
    /// Run only every n-th search from the k-th; `merge` puts shards together.
    #[arg(long, value_name = "K/N")]
    pub(crate) shard: Option<String>,
    /// Draw goodput and TTFT p95 against the offered rate into a file, every policy's knee marked.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) chart: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) spread: Spread,
}

#[derive(ClapArgs)]
pub(crate) struct ColdstartArgs {
    /// A cold start by name (`servelab list startups`).
    #[arg(default_value = "l40s_8b")]
    pub(crate) start: String,
    /// Change a setting of it, for example `startup.few_graphs=on` or `startup.bits=4`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Replicas that start at the same instant.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) together: u32,
    /// Requests in flight once it serves: what its probes then meet.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) in_flight: u32,
    /// Write the probes as a Kubernetes manifest into a file.
    #[arg(long, value_name = "FILE.yaml")]
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) into: Into,
}

#[derive(ClapArgs)]
pub(crate) struct SignalsArgs {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Every signal is the mean of so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) window: f64,
    #[command(flatten)]
    pub(crate) into: Into,
}

#[derive(ClapArgs)]
pub(crate) struct MergeArgs {
    /// Results of shards, as JSON, in any order.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) into: Into,
}

#[derive(ClapArgs)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    #[command(flatten)]
    pub(crate) print: Print,
}

/// How a run is printed.
#[derive(ClapArgs)]
pub(crate) struct Print {
    /// How to print the report.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Of a latency over time: the figure that a chart's lines follow.
    #[arg(long, value_name = "NAME", default_value = "p50", value_parser = statistic)]
    pub(crate) statistic: Statistic,
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
    /// Write the run as a trace for Perfetto (ui.perfetto.dev) or Chrome into a file: replicas, steps, requests as flows.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write the run's metrics under vLLM's names into a file, as Prometheus reads them.
    #[arg(long, value_name = "FILE.prom")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Write a paragraph into a file that states what was run and how to repeat it.
    #[arg(long, value_name = "FILE.txt")]
    pub(crate) methods: Option<PathBuf>,
}

// Without the model nobody reads them, but they are accepted and told of.
#[cfg_attr(not(feature = "tinygpt"), allow(dead_code))]
#[derive(ClapArgs)]
pub(crate) struct WriteArgs {
    /// Prompts, one after the other; the later ones find in the cache what they share with the earlier.
    #[arg(required = true)]
    pub(crate) prompts: Vec<String>,
    /// All prompts at once, in one batch.
    #[arg(long)]
    pub(crate) batch: bool,
    /// Tokens to write for each prompt.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) max_tokens: u32,
    /// 0 takes the likeliest token, 1 draws as the model says.
    #[arg(long, value_name = "0-4", default_value_t = 0.8)]
    pub(crate) temperature: f32,
    /// Draw from the k likeliest tokens; 0 from all.
    #[arg(long, value_name = "K", default_value_t = 40)]
    pub(crate) top_k: u32,
    /// Draw from the fewest tokens that hold this share of the probability.
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub(crate) top_p: f32,
    /// Seed of the draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder of the trained model.
    #[arg(long, value_name = "DIR", default_value = "www/model")]
    pub(crate) model: PathBuf,
    /// Weights of your own, safetensors, instead; their tokenizer goes with them.
    #[arg(long, value_name = "FILE", requires = "tokenizer")]
    pub(crate) weights: Option<PathBuf>,
    /// Their tokenizer.json.
    #[arg(long, value_name = "FILE", requires = "weights")]
    pub(crate) tokenizer: Option<PathBuf>,
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

#[derive(ClapArgs)]
pub(crate) struct SchemaArgs {
    /// Of what.
    #[arg(value_enum)]
    pub(crate) of: Schema,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// What is run.
    Spec,
    /// What comes of it.
    Report,
    /// What comes of a sweep.
    Sweep,
    /// A ready-made experiment.
    Preset,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Autoscalers and their parameters.
    Controllers,
    /// Routing policies and their parameters.
    Policies,
    /// What clients do, and their parameters.
    Clients,
    /// Ready-made experiments.
    Presets,
    /// Cost models.
    Costs,
    /// Cold starts.
    Startups,
    /// Settings of an experiment.
    Settings,
    /// Charts.
    Charts,
    /// What a policy of your own may read and call.
    Script,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For a text: pipe tables.
    Markdown,
    /// Everything, with field names that stay.
    Json,
    /// A row per policy and per tenant.
    Csv,
}

/// A figure by its name.
fn statistic(name: &str) -> Result<Statistic, String> {
    let names = Statistic::ALL.map(Statistic::name).join(", ");
    Statistic::ALL.into_iter().find(|of| of.name() == name).ok_or_else(|| format!("accepted are {names}"))
}
