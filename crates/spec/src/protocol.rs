//! What the page and its workers say to each other, as text ([`crate::wire`]). A worker speaks first ([`FromWorker::Ready`]); messages
//! sent before that are lost, so the page waits for it.

mod parts;

pub use parts::{
    Chart, ChartRequest, DeviceReport, ExportFile, ExportKind, Offer, RequestStory, Series, Statistic,
    SweepChartRequest, WriterFiles,
};

use crate::catalog::Catalog;
use crate::coldstart::{ColdStart, ColdStartQuery};
use crate::experiment::Spec;
use crate::frame::Frame;
use crate::knee::{KneeChartRequest, KneeReport, KneeSpec, KneeTrial};
use crate::report::Report;
use crate::signals::SignalsReport;
use crate::sweep::{CellReport, SweepReport, SweepSpec};
use crate::traffic::{TraceQuery, TraceView};
use crate::writing::{WriteRequest, WriterModel, Written};
use serde::{Deserialize, Serialize};

/// An instant after the end of every run: asks for the latest picture there is.
pub const LATEST_S: f64 = 1e18;

/// Page to worker. `run` numbers are chosen by the page and never reused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// Run a spec; an earlier run is dropped.
    Run {
        /// Number of the run.
        run: u32,
        /// What to run.
        spec: Box<Spec>,
    },
    /// Stop a run; what is finished is kept and reported.
    Cancel {
        /// Number of the run.
        run: u32,
    },
    /// The picture of a policy's fleet at an instant (clamped to what has been simulated). Asked for from where the run has not come to yet,
    /// such as [`LATEST_S`], it is of the latest instant, and comes when the run can spare the time.
    Frame {
        /// Number of the run.
        run: u32,
        /// Index of the policy.
        policy: u32,
        /// Virtual time, seconds.
        t_s: f64,
        /// The one replica of which everything is told, and only counts of the others; everything of all when absent. A picture of hundreds of
        /// replicas is a megabyte, and who looks at that many sees no more of them than counts.
        only: Option<u32>,
    },
    /// The next instant after `t_s` at which something happens, answered by a [`FromWorker::Frame`] there.
    Step {
        /// Number of the run.
        run: u32,
        /// Index of the policy.
        policy: u32,
        /// Virtual time, seconds.
        t_s: f64,
        /// As in [`ToWorker::Frame`].
        only: Option<u32>,
    },
    /// A request's story: prompt, output, where it went and why.
    Request {
        /// Number of the run.
        run: u32,
        /// Index of the policy.
        policy: u32,
        /// Index of the request.
        request: u32,
    },
    /// A chart of the finished or partial run.
    Chart {
        /// Number of the run.
        run: u32,
        /// What to draw.
        chart: ChartRequest,
    },
    /// The finished or partial run as a file.
    Export {
        /// Number of the run.
        run: u32,
        /// Which.
        kind: ExportKind,
    },
    /// Run one cell of a sweep. It goes before a run, and takes the place of another cell or trial.
    SweepCell {
        /// Number, as of a run; chosen for each cell anew.
        run: u32,
        /// The sweep.
        sweep: Box<SweepSpec>,
        /// Number of the cell.
        cell: u32,
    },
    /// Put cells together, all of a sweep or those that are there.
    SweepReport {
        /// Number, as of a run.
        run: u32,
        /// The sweep.
        sweep: Box<SweepSpec>,
        /// Its cells, in any order.
        cells: Vec<CellReport>,
    },
    /// A picture of a sweep, answered by a [`FromWorker::Chart`].
    SweepChart {
        /// Number, as of a run.
        run: u32,
        /// What came out.
        report: Box<SweepReport>,
        /// What to draw.
        chart: SweepChartRequest,
    },
    /// Search for the knee of one policy with one seed. As with a cell.
    KneeTrial {
        /// Number, as of a run.
        run: u32,
        /// Whose knee.
        knee: Box<KneeSpec>,
        /// Number of the trial: policy · seeds + seed's index.
        trial: u32,
    },
    /// Put trials together.
    KneeReport {
        /// Number, as of a run.
        run: u32,
        /// Whose knee.
        knee: Box<KneeSpec>,
        /// The trials, in any order.
        trials: Vec<KneeTrial>,
    },
    /// A cold start stage by stage.
    ColdStart {
        /// Number, as of a run.
        run: u32,
        /// What is asked.
        query: Box<ColdStartQuery>,
    },
    /// Which signal sees too much load coming.
    Signals {
        /// Number, as of a run.
        run: u32,
        /// On which load.
        spec: Box<Spec>,
        /// Every signal is the mean of so many seconds.
        window_s: f64,
    },
    /// A picture of knees, answered by a [`FromWorker::Chart`].
    KneeChart {
        /// Number, as of a run.
        run: u32,
        /// What came out.
        report: Box<KneeReport>,
        /// What to draw.
        chart: KneeChartRequest,
    },
    /// Let a model continue prompts, on a replica that keeps its cache; an earlier request is dropped. The first one loads the model.
    Write {
        /// Number, as of a run.
        run: u32,
        /// What is asked.
        request: Box<WriteRequest>,
    },
    /// Take another model to write with; the replica is empty afterwards.
    WriterModel {
        /// Number, as of a run.
        run: u32,
        /// Addresses of the visitor's own files; absent for the model that comes with the page.
        files: Option<WriterFiles>,
    },
    /// Read a file of recorded requests. The browser hands its bytes over beside the message; an earlier file is dropped.
    TraceOpen {
        /// Number, as of a run.
        run: u32,
        /// How it is read and shown.
        query: TraceQuery,
    },
    /// Draw the pictures of the file that was read last anew; nothing is answered when there is none.
    TraceCharts {
        /// Number of the reading.
        run: u32,
        /// Width of each, CSS pixels.
        width: u32,
        /// Height of each, CSS pixels.
        height: u32,
        /// Dark scheme.
        dark: bool,
    },
    /// Measure the devices side by side.
    Measure {
        /// Software adapters count too.
        allow_software: bool,
    },
}

/// Worker to page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// The worker listens now.
    Ready {
        /// What can be chosen.
        catalog: Box<Catalog>,
    },
    /// A run goes on.
    Progress {
        /// Number of the run.
        run: u32,
        /// Index of the policy being run.
        policy: u32,
        /// Share of the whole run done, 0 to 1.
        fraction: f64,
        /// Virtual time reached under this policy, seconds.
        t_s: f64,
        /// What is being done: `building` (the workload is read), `loading`, `calibrating`, `running`.
        stage: String,
    },
    /// A picture that was asked for.
    Frame {
        /// Number of the run.
        run: u32,
        /// The picture.
        frame: Box<Frame>,
    },
    /// A run ended; `partial` when it was cancelled.
    Report {
        /// Number of the run.
        run: u32,
        /// Cancelled before the end.
        partial: bool,
        /// The result.
        report: Box<Report>,
    },
    /// A run failed.
    Failed {
        /// Number of the run.
        run: u32,
        /// What happened and what would be accepted.
        message: String,
        /// Dotted key of the field at fault, when one is.
        field: Option<String>,
    },
    /// A request's story.
    Request {
        /// Number of the run.
        run: u32,
        /// The story.
        story: Box<RequestStory>,
    },
    /// A chart that was asked for.
    Chart {
        /// Number of the run.
        run: u32,
        /// The picture and its numbers.
        chart: Box<Chart>,
    },
    /// A file that was asked for.
    Export {
        /// Number of the run.
        run: u32,
        /// Which.
        kind: ExportKind,
        /// The file.
        file: Box<ExportFile>,
    },
    /// A cell's end.
    SweepCell {
        /// Number it was asked for with.
        run: u32,
        /// Number of the cell.
        cell: u32,
        /// Its numbers; absent when it was cancelled or another took its place.
        result: Option<Box<CellReport>>,
    },
    /// Cells put together.
    SweepReport {
        /// Number it was asked for with.
        run: u32,
        /// Means, bands and differences.
        report: Box<SweepReport>,
    },
    /// A trial's end.
    KneeTrial {
        /// Number it was asked for with.
        run: u32,
        /// Number of the trial.
        trial: u32,
        /// What was found; absent when it was cancelled or another took its place.
        result: Option<Box<KneeTrial>>,
    },
    /// Trials put together.
    KneeReport {
        /// Number it was asked for with.
        run: u32,
        /// Every policy's knee.
        report: Box<KneeReport>,
    },
    /// A cold start that was asked about.
    ColdStart {
        /// Number it was asked for with.
        run: u32,
        /// How it goes.
        answer: Box<ColdStart>,
    },
    /// What signals saw.
    Signals {
        /// Number it was asked for with.
        run: u32,
        /// The table.
        report: Box<SignalsReport>,
    },
    /// Files of the model that writes are on their way.
    WriterLoading {
        /// Number it was asked for with.
        run: u32,
        /// Bytes that have come.
        received: f64,
        /// Bytes in all, where that is known.
        total: Option<f64>,
    },
    /// The model that writes is ready.
    WriterModel {
        /// Number it was asked for with.
        run: u32,
        /// Which, and where.
        model: Box<WriterModel>,
    },
    /// A step of writing is done; the last one says so.
    Written {
        /// Number it was asked for with.
        run: u32,
        /// The replica after the step.
        written: Box<Written>,
    },
    /// A file that was read.
    Trace {
        /// Number it was asked for with.
        run: u32,
        /// What it looks like.
        view: Box<TraceView>,
        /// A fleet for it.
        spec: Box<Spec>,
        /// The same fleet with a generator in its place.
        generator: Box<Spec>,
    },
    /// Its pictures, drawn anew.
    TraceCharts {
        /// Number of the reading.
        run: u32,
        /// In the order of the view's.
        charts: Vec<Chart>,
    },
    /// A table whose columns somebody has to explain.
    TraceColumns {
        /// Number it was asked for with.
        run: u32,
        /// The columns there are.
        columns: Vec<String>,
        /// What is missing.
        message: String,
    },
    /// The devices, measured side by side.
    Measured {
        /// One entry per device tried.
        devices: Vec<DeviceReport>,
    },
}
