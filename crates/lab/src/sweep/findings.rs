//! Which policy is best where, and whether that is more than noise, in sentences out of a sweep.
//!
//! At every point the policy with the best mean is compared with each other one, *paired* by seed. Those whose difference to it has an interval
//! around 0 share the point with it; nobody wins there. A single seed has no interval, and the sentence says so instead of a winner.

use super::{band, say};
use servelab_spec::sweep::{Band, Better, Figure, SweepReport};

/// Points named one by one, or as stretches; more are better looked for in the picture.
const MOST_STRETCHES: usize = 4;

/// Who is best at one point.
struct Race {
    /// Where it stands among the points, ascending along a single axis.
    place: usize,
    best: usize,
    /// Policies that are not told from the best.
    tied: Vec<usize>,
    /// The runner-up − the best, when there is one and several seeds.
    lead: Option<Band>,
}

/// What a sweep says about one figure; nothing of a figure that judges nothing, or before there is a point.
pub fn findings(report: &SweepReport, figure: Figure) -> Vec<String> {
    if figure.better() == Better::Neither {
        return vec![];
    }
    let order = order(report);
    if report.policies.len() == 1 {
        return change(report, figure, &order).into_iter().collect();
    }
    let races: Vec<Race> =
        order.iter().enumerate().filter_map(|(place, &point)| race(report, figure, place, point)).collect();
    if races.is_empty() {
        return vec![];
    }
    let names = |of: &[usize]| {
        let names: Vec<&str> = of.iter().map(|&policy| report.policies[policy].label.as_str()).collect();
        listed(&names)
    };
    let places = |of: &[&Race]| place_words(report, &order, &of.iter().map(|race| race.place).collect::<Vec<_>>());
    let superlative = if figure.better() == Better::Higher { "highest" } else { "lowest" };
    let all = races.len();
    let mut out = vec![];
    let mut winners: Vec<(usize, Vec<&Race>)> = (0..report.policies.len())
        .map(|policy| (policy, races.iter().filter(|race| race.best == policy && race.tied.is_empty()).collect()))
        .collect();
    winners.retain(|(_, won)| !won.is_empty());
    winners.sort_by_key(|(_, won)| std::cmp::Reverse(won.len()));
    for (policy, won) in &winners {
        let (name, share) = (&report.policies[*policy].label, of_points(won.len(), all));
        let what = format!("{name} has the {superlative} {} {share}{}", figure.label(), places(won));
        let leads = won.iter().filter_map(|race| Some((race.place, race.lead?)));
        let widest = leads.max_by(|a, b| a.1.mean.abs().total_cmp(&b.1.mean.abs()));
        out.push(match widest {
            Some((place, lead)) => {
                let place = if all > 1 { format!(" at {}", at(report, order[place])) } else { String::new() };
                format!("{what}, by more than noise: up to {}{place}.", apart(figure, &lead))
            }
            None => format!("{what}; a single seed can not tell that from noise."),
        });
    }
    let mut shared: Vec<(Vec<usize>, Vec<&Race>)> = vec![];
    for race in races.iter().filter(|race| !race.tied.is_empty()) {
        let mut who = race.tied.clone();
        who.push(race.best);
        who.sort_unstable();
        match shared.iter_mut().find(|(known, _)| *known == who) {
            Some((_, at)) => at.push(race),
            None => shared.push((who, vec![race])),
        }
    }
    for (who, at) in &shared {
        out.push(format!(
            "{} are within noise of each other in {} {}{}.",
            names(who),
            figure.label(),
            of_points(at.len(), all),
            places(at)
        ));
    }
    out
}

/// Points in the order of a single axis of numbers, else as they were asked for.
fn order(report: &SweepReport) -> Vec<usize> {
    let number = |point: &usize| match &report.points[*point].at[..] {
        [only] => only.number(),
        _ => None,
    };
    let mut order: Vec<usize> = (0..report.points.len()).collect();
    if order.iter().all(|point| number(point).is_some()) {
        order.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    order
}

fn race(report: &SweepReport, figure: Figure, place: usize, point: usize) -> Option<Race> {
    let means = report.points[point].policies.iter().enumerate();
    let mut ranked: Vec<(usize, f64)> =
        means.filter_map(|(policy, of)| Some((policy, of.mean.get(figure).as_ref()?.mean))).collect();
    let sign = if figure.better() == Better::Higher { -1.0 } else { 1.0 };
    // Of equals the first: the sort is stable.
    ranked.sort_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
    let (&(best, mean), others) = ranked.split_first()?;
    let versus = |policy: usize| paired(report, figure, point, policy, best);
    let tied = |&&(policy, other): &&(usize, f64)| match versus(policy) {
        Some(band) if band.low.is_some() => !band.significant,
        // One seed, or none that both have: equal numbers are a tie all the same.
        _ => other == mean,
    };
    let tied: Vec<usize> = others.iter().filter(tied).map(|&(policy, _)| policy).collect();
    let lead = others.first().and_then(|&(policy, _)| versus(policy)).filter(|band| band.low.is_some());
    Some(Race { place, best, tied, lead })
}

/// `this` − `other` at a point, seed by seed.
fn paired(report: &SweepReport, figure: Figure, point: usize, this: usize, other: usize) -> Option<Band> {
    let number = report.points[point].point;
    let cells = report.cells.iter().filter(|cell| cell.point == number);
    band(cells.filter_map(|cell| Some((*cell.policies[this].get(figure))? - (*cell.policies[other].get(figure))?)))
}

/// What a single policy's figure does from the first point to the last, paired by seed.
fn change(report: &SweepReport, figure: Figure, order: &[usize]) -> Option<String> {
    if report.sweep.axes.len() != 1 {
        return None;
    }
    let (&first, &last) = (order.first()?, order.last()?);
    let value = |point: usize| Some(report.points[point].policies[0].mean.get(figure).as_ref()?.mean);
    let (from, to) = (value(first)?, value(last)?);
    if first == last {
        return None;
    }
    let cells = |point: usize| {
        let number = report.points[point].point;
        report.cells.iter().filter(move |cell| cell.point == number)
    };
    let pairs = cells(last).filter_map(|end| {
        let start = cells(first).find(|start| start.seed == end.seed)?;
        Some((*end.policies[0].get(figure))? - (*start.policies[0].get(figure))?)
    });
    let noise = match band(pairs) {
        Some(band) if band.significant => "a change larger than its noise",
        Some(band) if band.low.is_some() => "a change within noise",
        _ => "of which a single seed can not say whether it is noise",
    };
    Some(format!(
        "{} goes from {} at {} to {} at {}, {noise}.",
        upper(figure.label()),
        say(figure, from),
        at(report, first),
        say(figure, to),
        at(report, last)
    ))
}

/// How far apart, with the interval.
fn apart(figure: Figure, lead: &Band) -> String {
    let (a, b) = (lead.low.unwrap_or(lead.mean).abs(), lead.high.unwrap_or(lead.mean).abs());
    let (low, high) = (say(figure, a.min(b)), say(figure, a.max(b)));
    format!("{} ahead of the next (95 % interval {low} to {high})", say(figure, lead.mean.abs()))
}

fn of_points(some: usize, all: usize) -> String {
    match (some, all) {
        (1, 1) => "at the one point".into(),
        (some, all) if some == all => format!("at all {all} points"),
        (some, all) => format!("at {some} of {all} points"),
    }
}

/// A point's values as a person points at them.
fn at(report: &SweepReport, point: usize) -> String {
    let values: Vec<String> = report.points[point].at.iter().map(ToString::to_string).collect();
    values.join(" and ")
}

/// The points at these places in brackets, neighbours as stretches; nothing where it is all of them, or too many to read.
fn place_words(report: &SweepReport, order: &[usize], places: &[usize]) -> String {
    if places.len() == order.len() {
        return String::new();
    }
    let line = report.sweep.axes.len() == 1;
    let mut stretches: Vec<(usize, usize)> = vec![];
    for &place in places {
        match stretches.last_mut() {
            Some((_, end)) if line && *end + 1 == place => *end = place,
            _ => stretches.push((place, place)),
        }
    }
    if stretches.len() > MOST_STRETCHES {
        return String::new();
    }
    let words: Vec<String> = stretches
        .iter()
        .map(|&(from, to)| {
            let (from, to) = (at(report, order[from]), (from < to).then(|| at(report, order[to])));
            to.map_or(from.clone(), |to| format!("{from} to {to}"))
        })
        .collect();
    format!(" ({})", words.join("; "))
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Plan;
    use super::*;
    use crate::presets;
    use servelab_spec::SCHEMA_VERSION;
    use servelab_spec::experiment::PolicySpec;
    use servelab_spec::sweep::{Axis, CellReport, Figures, SweepSpec};

    /// What is said of cells in which `value` makes the number of point, seed's index and policy.
    fn said(axes: &[&str], seeds: u32, policies: &[&str], value: impl Fn(u32, f64, usize) -> f64) -> Vec<String> {
        let mut spec = presets::find("multi-tenant").unwrap().spec;
        spec.policies = policies.iter().map(|name| PolicySpec::named(name)).collect();
        let axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
        let plan = Plan::new(SweepSpec { version: SCHEMA_VERSION, spec, axes, seeds }).unwrap();
        let cells = (0..plan.cells()).map(|cell| {
            let (point, seed) = (cell / seeds, cell % seeds);
            let of = |policy| Figures::from_fn(|_| Some(value(point, f64::from(seed), policy)));
            CellReport { cell, point, seed: 7 + u64::from(seed), policies: (0..policies.len()).map(of).collect() }
        });
        findings(&plan.report(cells.collect()), Figure::TtftP95S)
    }

    const TWO: [&str; 2] = ["round_robin", "prefix_affinity"];

    #[test]
    fn a_winner_is_named_where_it_wins_and_by_how_much() {
        // Round-robin is ahead by 1 s, and by 2 s at the end, ± 0.1 by seed; at 2 nothing but the draw differs.
        let apart = [1.0, 0.0, 1.0, 2.0];
        let value = |point: u32, seed: f64, policy: usize| {
            let noise = if policy == 1 { 0.1 * (seed - 1.0) } else { 0.0 };
            5.0 + 10.0 * seed + policy as f64 * apart[point as usize] + noise
        };
        let said = said(&["workload.rate=1,2,3,4"], 3, &TWO, value);
        // t(2) · 0.1 ÷ √3 = 0.248: the seeds' own spread of 10 s has dropped out.
        assert_eq!(
            said,
            [
                "Round-robin has the lowest TTFT p95 at 3 of 4 points (1; 3 to 4), by more than noise: up to 2 s ahead of the next (95 % interval 1.75 s to 2.25 s) at 4.",
                "Round-robin and Prefix affinity are within noise of each other in TTFT p95 at 1 of 4 points (2)."
            ]
        );
    }

    #[test]
    fn values_typed_in_any_order_are_told_in_order() {
        let said = said(&["workload.rate=4,1,2"], 2, &TWO, |point, _, policy| {
            // Affinity wins at 1 and 2.
            f64::from(if (point == 0) == (policy == 0) { 1 } else { 2 })
        });
        assert!(said[0].starts_with("Prefix affinity has the lowest TTFT p95 at 2 of 3 points (1 to 2), "), "{said:?}");
        assert!(said[1].starts_with("Round-robin has the lowest TTFT p95 at 1 of 3 points (4), "), "{said:?}");
    }

    #[test]
    fn a_single_seed_crowns_nobody_beyond_doubt() {
        let said = said(&["workload.rate=1,2"], 1, &TWO, |_, _, policy| policy as f64);
        assert_eq!(
            said,
            ["Round-robin has the lowest TTFT p95 at all 2 points; a single seed can not tell that from noise."]
        );
    }

    #[test]
    fn a_policy_by_itself_changes_or_does_not() {
        let one = ["round_robin"];
        let rises = said(&["workload.rate=1,2"], 3, &one, |point, seed, _| f64::from(point) + 0.01 * seed + 1.0);
        assert_eq!(rises, ["TTFT p95 goes from 1.01 s at 1 to 2.01 s at 2, a change larger than its noise."]);
        let stays = said(&["workload.rate=1,2"], 3, &one, |point, seed, _| 2.0 + f64::from(point) * (seed - 1.0));
        assert!(stays[0].ends_with("a change within noise."), "{stays:?}");
        assert!(said(&["workload.rate=1,2", "replicas=1,2"], 3, &one, |_, _, _| 1.0).is_empty());
    }

    #[test]
    fn a_map_counts_its_points() {
        let said = said(&["workload.rate=1,2,3", "replicas=1,2,3"], 2, &TWO, |point, _, policy| {
            f64::from(if point.is_multiple_of(2) == (policy == 0) { 1 } else { 2 })
        });
        // Five of nine lie apart from each other: too many to name.
        assert!(
            said[0].starts_with("Round-robin has the lowest TTFT p95 at 5 of 9 points, by more than noise"),
            "{said:?}"
        );
        assert!(said[1].contains("at 4 of 9 points (1 and 2; 2 and 1; 2 and 3; 3 and 2)"), "{said:?}");
    }
}
