//! Who judges the guesses of storms.

use crate::recovery::Recovery;
use crate::report::verdict::Case;
use crate::words::{digits, duration, percent};
use servelab_fleet::Outcome;
use servelab_spec::report::{PolicyReport, Verdict};

/// Runs of the preset's client policies, in the order of its options; nothing when one of them is not in the run.
fn runs(case: &Case<'_>) -> Option<Vec<usize>> {
    let runs = case.spec.contenders();
    let asked = case.preset.spec.clients.policies.iter();
    let of = asked.map(|policy| {
        runs.iter().position(|run| run.clients.is_some_and(|index| case.spec.clients.policies[index] == *policy))
    });
    of.collect()
}

/// When a storm begins to be worked off: the server is back, or, where none was down, at once.
fn begin_s(case: &Case<'_>) -> f64 {
    let faults = &case.spec.faults;
    if faults.down > 0 { faults.down_at_s + faults.down_s } else { 0.0 }
}

/// How long after the storm's beginning the last of those was served who are in it: who came by then, or, where no server was down, everybody.
/// `Err`: so many of them never were.
fn worked_off_s(case: &Case<'_>, at: usize) -> Result<f64, u64> {
    let begin = begin_s(case);
    let records = case.records(at).iter();
    let (mut last, mut lost) = (0.0f64, 0);
    for record in records.filter(|record| case.spec.faults.down == 0 || record.arrival.as_secs() < begin) {
        match record.outcome {
            Outcome::Finished => last = last.max(record.end.as_secs() - begin),
            _ => lost += 1,
        }
    }
    if lost == 0 { Ok(last) } else { Err(lost) }
}

/// Of times that differ by less than a tenth nobody says that they do.
const ALIKE: f64 = 1.1;

/// Whose clients are all served first; the option after the last policy says that the two best hardly differ.
pub(super) fn served_first(case: &Case<'_>) -> Option<Verdict> {
    let runs = runs(case)?;
    let times: Vec<Result<f64, u64>> = runs.iter().map(|&at| worked_off_s(case, at)).collect();
    // Whoever serves not everybody comes after all who do.
    let rank = |option: usize| match times[option] {
        Ok(time) => (0, time),
        Err(lost) => (lost, 0.0),
    };
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&a, &b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
    let [best, next, ..] = order[..] else { return None };
    let alike = match (times[best], times[next]) {
        (Ok(best), Ok(next)) => next < ALIKE * best,
        (one, other) => one == other,
    };
    let label = |option: usize| case.policy(runs[option]).label.as_str();
    let said = |option: usize| match times[option] {
        Ok(time) => format!("after {}", duration(time)),
        Err(lost) => format!("never, {lost} having given up"),
    };
    let others: Vec<String> =
        order[1..].iter().map(|&option| format!("{} with {}", said(option), label(option))).collect();
    let since = if case.spec.faults.down > 0 { ", counted from when the server was back" } else { "" };
    let because = format!(
        "With {} the last of them was served {}{since}. It was {}.",
        label(best),
        said(best),
        others.join(" and ")
    );
    Some(Verdict { option: if alike { runs.len() } else { best } as u32, because })
}

/// Share of the requests that arrive within a span and are answered within the limit.
fn in_time(case: &Case<'_>, at: usize, from_s: f64, to_s: f64) -> Option<f64> {
    let records = case.records(at);
    let within = records.iter().filter(|record| (from_s..to_s).contains(&record.arrival.as_secs()));
    let (mut all, mut good) = (0u32, 0u32);
    for record in within {
        all += 1;
        good += u32::from(record.ttft().is_some_and(|ttft| ttft.as_secs() <= case.spec.slo.ttft_s));
    }
    (all > 0).then(|| f64::from(good) / f64::from(all))
}

pub(super) fn falls_over_again(case: &Case<'_>) -> Option<Verdict> {
    let back = case.spec.faults.down_at_s + case.spec.faults.down_s;
    let share = in_time(case, 0, back + 90.0, back + 110.0)?;
    let wasted = case.policy(0).clients.as_ref()?.capacity.wasted;
    let because = format!(
        "{} of those who came then were answered in time. {} of the capacity went into answers that nobody waited for any more.",
        percent(share),
        percent(wasted)
    );
    Some(Verdict { option: Recovery::of(share) as u32, because })
}

pub(super) fn healed(case: &Case<'_>) -> Option<Verdict> {
    let at = case.spec.faults.remedy_at_s;
    let (before, after) = (in_time(case, 0, at - 20.0, at)?, in_time(case, 0, at + 30.0, at + 50.0)?);
    let option = match Recovery::of(after) {
        Recovery::Recovers => 0,
        _ => u32::from(after < before + 0.1) + 1,
    };
    let attempts = case.policy(0).clients.as_ref()?.amplification;
    let because = format!(
        "Of those who came in the twenty seconds before the remedy {} were answered in time, of those who came half a minute after it {}. Over the whole run each request made {} attempts.",
        percent(before),
        percent(after),
        digits(attempts)
    );
    Some(Verdict { option, because })
}

pub(super) fn share_that_gives_up(case: &Case<'_>) -> Option<Verdict> {
    let (from, to) = (case.spec.faults.down_at_s, case.spec.faults.down_at_s + case.spec.faults.down_s);
    let those = || case.records(0).iter().filter(move |record| (from..to).contains(&record.arrival.as_secs()));
    let all = those().count();
    let lost = those().filter(|record| record.first_token.is_none()).count();
    let share = (all > 0).then(|| lost as f64 / all as f64)?;
    let option = if lost == 0 { 0 } else { u32::from(share > 0.75) + 1 };
    let because = format!(
        "{} of {all} were given up ({}). Two retries are over a second and a half after the first attempt.",
        lost,
        percent(share)
    );
    Some(Verdict { option, because })
}

pub(super) fn amplified(case: &Case<'_>) -> Option<Verdict> {
    let runs = runs(case)?;
    let most = case.records(*runs.last()?).iter().map(|record| record.attempts).max()?;
    let option = [9, 27, 81].iter().position(|&attempts| attempts == most)?;
    let peaks: Option<Vec<String>> = runs
        .iter()
        .map(|&at| Some(format!("{} times the capacity", digits(case.policy(at).clients.as_ref()?.peak))))
        .collect();
    let because = format!("The most attempts of a request were {most}. The peaks were {}.", peaks?.join(", "));
    Some(Verdict { option: option as u32, because })
}

/// What the gateway says, by variants: the same time to all, or up to ten seconds more for each.
pub(super) fn what_to_say(case: &Case<'_>) -> Option<Verdict> {
    let told = |spread: &str| {
        let changes = [("gateway.retry_after", "fixed"), ("gateway.retry_spread_s", spread)];
        let variant = case.variant(&case.spec.policies, &changes)?;
        let attempts = variant.policy().clients.as_ref()?.amplification;
        Some((worked_off_s(&variant.case()?, 0), attempts))
    };
    let ((fixed, fixed_attempts), (spread, spread_attempts)) = (told("0")?, told("10")?);
    let option = match (fixed, spread) {
        (Ok(fixed), Ok(spread)) if spread * ALIKE < fixed => 1,
        (Ok(fixed), Ok(spread)) if fixed * ALIKE < spread => 0,
        (Ok(_), Ok(_)) => 2,
        (Ok(_), Err(_)) => 0,
        (Err(_), Ok(_)) => 1,
        (Err(fixed), Err(spread)) => match fixed.cmp(&spread) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => 2,
            std::cmp::Ordering::Greater => 1,
        },
    };
    let said = |time: Result<f64, u64>| match time {
        Ok(time) => format!("after {}", duration(time)),
        Err(lost) => format!("never, {lost} having given up"),
    };
    let first = duration(case.spec.gateway.retry_after_s);
    let because = format!(
        "Told {first}, all of them, the last was served {}, with {} attempts for each request. Told up to ten seconds more, each another time, it was {}, with {}.",
        said(fixed),
        digits(fixed_attempts),
        said(spread),
        digits(spread_attempts)
    );
    Some(Verdict { option, because })
}

/// Which of waiting longer and retrying less brings the server back: the preset's policies are neither, waiting, a budget, and both.
pub(super) fn what_brings_back(case: &Case<'_>) -> Option<Verdict> {
    let runs = runs(case)?;
    let of = |at: usize| Some((case.policy(at), case.policy(at).in_time_at_end?));
    let all: Option<Vec<(&PolicyReport, f64)>> = runs.into_iter().map(of).collect();
    let all = all?;
    let back = |at: usize| Recovery::of(all[at].1) == Recovery::Recovers;
    let option = match (back(1), back(2), back(3)) {
        (true, false, _) => 0,
        (false, true, _) => 1,
        (true, true, _) => 2,
        (false, false, true) => 3,
        (false, false, false) => 4,
    };
    let shares: Vec<String> = all.iter().map(|(of, share)| format!("{} with {}", percent(*share), of.label)).collect();
    let wasted: Option<Vec<String>> =
        all.iter().map(|(of, _)| Some(percent(of.clients.as_ref()?.capacity.wasted))).collect();
    let because = format!(
        "Of those who came in the last fifth of the run, so many were answered in time: {}. Of the capacity {} went into answers that nobody waited for any more.",
        shares.join(", "),
        wasted?.join(", ")
    );
    Some(Verdict { option, because })
}
