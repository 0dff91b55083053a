//! Who judges the guesses of storms.

use crate::recovery::Recovery;
use crate::report::verdict::Case;
use crate::words::{self, digits, duration, percent};
use servelab_fleet::{Outcome, RequestRecord};
use servelab_spec::experiment::{Remedy, RetryAfterKind};
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

/// What the runs saw of the servers that were to be down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// Nothing: none was to be down, or every run was over before.
    Unseen,
    /// Its beginning and its end, in every run.
    Over,
    /// Some run ended before it did.
    Open,
}

fn outage(case: &Case<'_>) -> Outage {
    let faults = &case.spec.faults;
    let (from, until) = (faults.down_at_s, faults.down_at_s + faults.down_s);
    let ends = || (0..case.report.policies.len()).map(|at| case.end_s(at));
    if faults.down == 0 || ends().all(|end| end <= from) {
        Outage::Unseen
    } else if ends().all(|end| end >= until) {
        Outage::Over
    } else {
        Outage::Open
    }
}

/// Those who were not served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Unserved {
    gave_up: u64,
    waiting: u64,
}

impl Unserved {
    fn all(self) -> u64 {
        self.gave_up + self.waiting
    }

    fn words(self) -> String {
        let waiting = format!("{} still waited where the run ended", self.waiting);
        match (self.gave_up, self.waiting) {
            (gave_up, 0) => format!("{gave_up} gave up"),
            (0, _) => waiting,
            (gave_up, _) => format!("{gave_up} gave up and {waiting}"),
        }
    }
}

/// How long after the storm's beginning the last of those was served who are in it: who came before the server was back, or, where none was away, everybody.
/// `Err`: some of them never were.
fn worked_off_s(case: &Case<'_>, at: usize) -> Result<f64, Unserved> {
    // A storm begins to be worked off when the server is back, or at once.
    let back = (outage(case) == Outage::Over).then_some(case.spec.faults.down_at_s + case.spec.faults.down_s);
    let records = case.records(at).iter().filter(|record| back.is_none_or(|back| record.arrival.as_secs() < back));
    let (mut last, mut lost) = (0.0f64, Unserved { gave_up: 0, waiting: 0 });
    for record in records {
        match record.outcome {
            Outcome::Finished => last = last.max(record.end.as_secs() - back.unwrap_or(0.0)),
            Outcome::Pending => lost.waiting += 1,
            _ => lost.gave_up += 1,
        }
    }
    if lost.all() == 0 { Ok(last) } else { Err(lost) }
}

/// From when that is counted, where it needs saying.
fn since(case: &Case<'_>) -> &'static str {
    match outage(case) {
        Outage::Over => ", counted from when the server was back",
        _ if case.preset.spec.faults.down > 0 => ", counted from the start, since no server was down",
        _ => "",
    }
}

/// Of times that differ by less than a tenth nobody says that they do.
const ALIKE: f64 = 1.1;

/// Whose clients are all served first; the option after the last policy says that the two best hardly differ.
pub(super) fn served_first(case: &Case<'_>) -> Option<Verdict> {
    let runs = runs(case)?;
    if outage(case) == Outage::Open {
        // Nobody has seen the server come back.
        return None;
    }
    let times: Vec<Result<f64, Unserved>> = runs.iter().map(|&at| worked_off_s(case, at)).collect();
    // Whoever serves not everybody comes after all who do.
    let rank = |option: usize| match times[option] {
        Ok(time) => (0, time),
        Err(lost) => (lost.all(), 0.0),
    };
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&a, &b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
    let [best, next, ..] = order[..] else { return None };
    let alike = match (times[best], times[next]) {
        (Ok(best), Ok(next)) => next < ALIKE * best,
        (one, other) => one == other,
    };
    let label = |option: usize| case.policy(runs[option]).label.as_str();
    let first = match times[best] {
        Ok(time) => format!("the last of them was served after {}{}", duration(time), since(case)),
        Err(lost) => format!("not all of them were served, for {}", lost.words()),
    };
    let other = |&option: &usize| match times[option] {
        Ok(time) => format!("after {} with {}", duration(time), label(option)),
        Err(lost) => format!("never with {} ({})", label(option), lost.words()),
    };
    let others: Vec<String> = order[1..].iter().map(other).collect();
    let because = format!("With {} {first}. It was {}.", label(best), others.join(" and "));
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

/// The run that a figure is of, where there are others.
fn whose(case: &Case<'_>) -> String {
    if case.report.policies.len() > 1 { format!(" with {}", case.policy(0).label) } else { String::new() }
}

pub(super) fn falls_over_again(case: &Case<'_>) -> Option<Verdict> {
    let (seen, back) = (outage(case), case.spec.faults.down_at_s + case.spec.faults.down_s);
    if seen == Outage::Open {
        return None;
    }
    let (from, to) = (back + 90.0, back + 110.0);
    let share = in_time(case, 0, from, to)?;
    let wasted = case.policy(0).clients.as_ref()?.capacity.wasted;
    let still = if seen == Outage::Unseen { "No server stood still, and of" } else { "Of" };
    let because = format!(
        "{still} those who came from {} to {} {} were answered in time{}. {} of the capacity went into work that nobody had any use for.",
        duration(from),
        duration(to),
        percent(share),
        whose(case),
        percent(wasted)
    );
    Some(Verdict { option: Recovery::of(share) as u32, because })
}

pub(super) fn healed(case: &Case<'_>) -> Option<Verdict> {
    let faults = &case.spec.faults;
    let at = faults.remedy_at_s;
    let (before, after) = (in_time(case, 0, at - 20.0, at)?, in_time(case, 0, at + 30.0, at + 50.0)?);
    let option = match Recovery::of(after) {
        Recovery::Recovers => 0,
        _ => u32::from(after < before + 0.1) + 1,
    };
    let at = duration(at);
    let done = match faults.remedy {
        Remedy::None => format!("Nothing was done: of those who came in the twenty seconds before {at},"),
        Remedy::Cancel => {
            format!("Of those who came in the twenty seconds before cancellation reached the server, at {at},")
        }
        Remedy::DropLoad => format!(
            "Of those who came in the twenty seconds before {} of the requests were turned away at the door, at {at},",
            percent(faults.remedy_share)
        ),
        Remedy::Budgets => format!("Of those who came in the twenty seconds before clients got budgets, at {at},"),
        Remedy::RaiseLimits => format!(
            "Of those who came in the twenty seconds before limits were raised to {} times what they were, at {at},",
            digits(faults.remedy_times)
        ),
    };
    let attempts = match digits(case.policy(0).clients.as_ref()?.amplification) {
        one if one == "1" => "1 attempt".to_owned(),
        many => format!("{many} attempts"),
    };
    let because = format!(
        "{done} {} were answered in time, of those who came half a minute later {}{}. Over the whole run a request made {} on average.",
        percent(before),
        percent(after),
        whose(case),
        attempts
    );
    Some(Verdict { option, because })
}

pub(super) fn share_that_gives_up(case: &Case<'_>) -> Option<Verdict> {
    if !case.spec.clients.on || outage(case) == Outage::Unseen {
        return None;
    }
    let (from, to) = (case.spec.faults.down_at_s, case.spec.faults.down_at_s + case.spec.faults.down_s);
    let those = || case.records(0).iter().filter(move |record| (from..to).contains(&record.arrival.as_secs()));
    let given_up = || those().filter(|record| !matches!(record.outcome, Outcome::Finished | Outcome::Pending));
    let (all, lost) = (those().count(), given_up().count());
    let waiting = those().filter(|record| record.outcome == Outcome::Pending).count();
    let share = (all > 0).then(|| lost as f64 / all as f64)?;
    if lost == 0 && waiting > 0 {
        // Whether their retries bridge it is not known.
        return None;
    }
    let option = if lost == 0 { 0 } else { u32::from(share > 0.75) + 1 };
    let still = if waiting > 0 { format!(", and {waiting} still waited where the run ended") } else { String::new() };
    let latest = |records: &mut dyn Iterator<Item = &RequestRecord>| {
        duration(records.map(|record| record.end.since(record.arrival).as_secs()).fold(0.0, f64::max))
    };
    let why = match given_up().map(|record| record.attempts).max() {
        Some(most) => format!(
            "The last of their {} was over {} after the first at the latest",
            words::many(most.into(), "attempt"),
            latest(&mut given_up())
        ),
        None => format!("The longest that one of them waited for an answer was {}", latest(&mut those())),
    };
    let because = format!("{lost} of {all} were given up ({}){}{still}. {why}.", percent(share), whose(case));
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
    let gateway = &case.spec.gateway;
    if !gateway.on || outage(case) == Outage::Open {
        return None;
    }
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
        (Err(fixed), Err(spread)) => match fixed.all().cmp(&spread.all()) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => 2,
            std::cmp::Ordering::Greater => 1,
        },
    };
    let said = |time: Result<f64, Unserved>| match time {
        Ok(time) => format!("after {}", duration(time)),
        Err(lost) => format!("never ({})", lost.words()),
    };
    // What this run itself told them, where that is neither.
    let own = match gateway.retry_after {
        RetryAfterKind::Fixed if gateway.retry_spread_s == 0.0 || gateway.retry_spread_s == 10.0 => None,
        RetryAfterKind::Fixed => Some(format!("up to {} more", duration(gateway.retry_spread_s))),
        RetryAfterKind::Nothing => Some("nothing".into()),
        RetryAfterKind::Computed => Some("what the gateway made of its queue".into()),
    };
    let own = own.map_or(String::new(), |own| {
        format!("; in this run, where they were told {own}, it was {}", said(worked_off_s(case, 0)))
    });
    let first = duration(gateway.retry_after_s);
    let because = format!(
        "Told {first}, all of them, the last was served {}{}, with {} attempts for each request. Told up to ten seconds more, each another time, it was {}, with {}{own}.",
        said(fixed),
        since(case),
        digits(fixed_attempts),
        said(spread),
        digits(spread_attempts)
    );
    Some(Verdict { option, because })
}

/// Which of waiting longer and retrying less brings the server back: the preset's policies are neither, waiting, a budget, and both.
pub(super) fn what_brings_back(case: &Case<'_>) -> Option<Verdict> {
    let runs = runs(case)?;
    if outage(case) == Outage::Open {
        return None;
    }
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
        "Of those who came in the last fifth of the run, so many were answered in time: {}. Of the capacity {} went into work that nobody had any use for.",
        shares.join(", "),
        wasted?.join(", ")
    );
    Some(Verdict { option, because })
}
