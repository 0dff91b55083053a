//! Sentences of sweeps and knees.

use crate::format::{duration, number, percent, whole};
use servelab_spec::knee::PolicyKnee;
use servelab_spec::sweep::figures::FigureUnit;
use servelab_spec::sweep::{Band, Figure};

texts! {
    STUDY_REGION = "Sweep and knee";
    STUDY = "Sweep and knee";
    STUDY_NOTE = "A run is one draw of arrivals. Here the experiment is run again and again, with other values and other seeds, on several workers at once; the stage stays as it is.";
    SWEEP = "Sweep one or two settings";
    SWEEP_NOTE = "Every value with every seed, all policies on the same arrivals. Bands are 95 % intervals of the mean over seeds.";
    KNEE = "Find the knee";
    KNEE_NOTE = "The highest rate at which a policy still keeps the limits under \u{201c}What counts as good\u{201d}: each policy and seed is searched by itself.";
    SWEEP_EMPTY = "Nothing was swept yet. Choose a setting and run: the picture fills while runs come in.";
    KNEE_EMPTY = "No knee was looked for yet.";
    STUDY_PRICED = "The experiment computes its steps; here they are priced, by its price list, since a sweep needs many runs.";
    NO_AXIS = "none: a line chart";
    AXIS_SETTINGS = "Settings";
    AXIS_SPACING = "Spacing";
    AXIS_FROM = "From";
    AXIS_TO = "To";
    AXIS_STEPS = "Values";
    AXIS_LIST = "Values, with commas";
    SEEDS = "Seeds";
    FIGURE = "Figure";
    MAP_OF = "Map of";
    MAP_AGAINST = "less";
    MAP_ALONE = "nothing: the figure itself";
    STUDY_LOADING = "loading workers";
    STUDY_PARTIAL = "cancelled; what had finished is kept";
    STUDY_SHARE = "Share of the runs that is done";
    STUDY_FAILED = "It failed.";
    STUDY_TRY = "What had finished until then is kept. Change what is at fault, or ask for fewer or shorter runs.";
    STUDY_STALE = "Settings changed since: this is of the old ones. Run again for the new.";
    SWEEP_TABLE = "The numbers of the sweep";
    KNEE_TABLE = "Knees by policy";
    KNEE_PER_REPLICA = "Knee, requests/s per replica";
    KNEE_FLEET = "Whole fleet, requests/s";
    KNEE_VERSUS = "Less the first policy's, per replica";
    KNEE_SEARCHES = "Searches";
    SWEEP_WHOLE = "The whole sweep as";
    KNEE_WHOLE = "The whole search as";
    NO_RATE_FOUND = "a fixed trace";
    NO_RATE_ACCEPTED = "a knee needs a workload whose rate can be set; choose another workload";
    WITHIN_NOISE = "within noise of the first policy";
}

pub(crate) fn axis_name(at: usize) -> &'static str {
    if at == 0 { "Setting" } else { "Second setting" }
}

pub(crate) fn spacing_words(name: &str) -> &'static str {
    match name {
        "linear" => "equal differences",
        "log" => "equal ratios",
        _ => "one by one",
    }
}

pub(crate) fn study_worker_stopped(reason: &str) -> String {
    format!("A worker stopped ({}).", reason.trim_end_matches('.'))
}

pub(crate) fn study_progress(done: u32, total: u32, workers: usize, left: Option<String>) -> String {
    let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
    let left = left.map(|left| format!(", about {left} left")).unwrap_or_default();
    format!("{} of {} on {workers}{left}", whole(done.into()), whole(total.into()))
}

pub(crate) fn study_done(done: u32, total: u32) -> String {
    format!("{} of {} had ended", whole(done.into()), whole(total.into()))
}

pub(crate) fn study_done_all(total: u32) -> String {
    format!("{} of {}", whole(total.into()), whole(total.into()))
}

pub(crate) fn runs_planned(points: u32, seeds: u32) -> String {
    let (of, by) = (if points == 1 { "point" } else { "points" }, if seeds == 1 { "seed" } else { "seeds" });
    format!("{} {of} × {} {by} = {} runs of every policy", whole(points.into()), seeds, whole((points * seeds).into()))
}

pub(crate) fn trials_planned(trials: u32) -> String {
    format!("{} searches of some 13 runs each", whole(trials.into()))
}

/// A value of a figure as a person says it.
pub(crate) fn figure_value(figure: Figure, value: f64) -> String {
    match figure.unit() {
        FigureUnit::Seconds => duration(value),
        FigureUnit::Share => percent(value),
        FigureUnit::PerSecond => format!("{}/s", number(value)),
        FigureUnit::Number => number(value),
    }
}

/// Its interval, as far as the figure can reach.
pub(crate) fn figure_interval(figure: Figure, band: &Band) -> Option<String> {
    let value = |end: f64| figure_value(figure, figure.possible(end));
    Some(format!("{} to {}", value(band.low?), value(band.high?)))
}

pub(crate) fn knee_value(band: Option<&Band>) -> String {
    band.map_or_else(|| "–".to_owned(), |band| number(band.mean))
}

pub(crate) fn knee_interval(band: Option<&Band>) -> Option<String> {
    let band = band?;
    Some(format!("{} to {}", number(band.low?.max(0.0)), number(band.high?)))
}

pub(crate) fn knee_difference(band: &Band) -> String {
    let sign = if band.mean < 0.0 { "−" } else { "+" };
    format!("{sign}{}", number(band.mean.abs()))
}

pub(crate) fn knee_searches(knee: &PolicyKnee, seeds: u32) -> String {
    let mut told = vec![format!("{} of {seeds} found it", knee.per_s.map_or(0, |band| band.n))];
    if knee.never_good > 0 {
        told.push(format!("{} at no rate within the limits", knee.never_good));
    }
    if knee.always_good > 0 {
        told.push(format!("{} within them at every rate", knee.always_good));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_says_nothing_that_cannot_be() {
        let band = Band { n: 2, mean: 0.9, low: Some(-0.2), high: Some(2.0), significant: false };
        let plain = |text: Option<String>| text.map(|text| text.replace('\u{202f}', " "));
        assert_eq!(plain(figure_interval(Figure::Reuse, &band)).as_deref(), Some("0 % to 100 %"));
        assert_eq!(plain(figure_interval(Figure::TtftP95S, &band)).as_deref(), Some("0 s to 2 s"));
        let one = Band { n: 1, low: None, high: None, ..band };
        assert_eq!(figure_interval(Figure::Reuse, &one), None);
    }
}
