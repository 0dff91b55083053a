//! The columns of the table: what each shows, which way is better, who is best, and in which order a column puts the policies.

use servelab_spec::report::PolicyReport;
use std::cmp::Ordering;

/// What a column shows of a policy and which way is better.
pub(super) struct Column {
    pub value: fn(&PolicyReport) -> f64,
    pub better: Better,
    pub bar: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Better {
    Low,
    High,
    Neither,
}

/// The columns in the order of the table.
pub(super) const COLUMNS: [Column; 13] = [
    Column { value: |p| p.ttft_s.p50, better: Better::Low, bar: true },
    Column { value: |p| p.ttft_s.p95, better: Better::Low, bar: false },
    Column { value: |p| p.ttft_s.p99, better: Better::Low, bar: false },
    Column { value: |p| p.itl_s.p50, better: Better::Low, bar: true },
    Column { value: |p| p.itl_s.p95, better: Better::Low, bar: false },
    Column { value: |p| p.output_tokens_per_s, better: Better::High, bar: true },
    Column { value: |p| p.goodput.per_s, better: Better::High, bar: true },
    Column { value: |p| p.reuse.ratio, better: Better::High, bar: true },
    Column { value: |p| p.imbalance.assignments, better: Better::Low, bar: false },
    Column { value: |p| p.imbalance.uncached_tokens, better: Better::Low, bar: false },
    Column { value: |p| p.kv_peak, better: Better::Neither, bar: true },
    Column { value: |p| p.preemptions as f64, better: Better::Low, bar: false },
    Column { value: |p| p.store.map_or(0.0, |store| store.ratio), better: Better::Neither, bar: true },
];

/// The column of what came from a store behind the replicas: the last one, shown when there is a store.
pub(super) const FETCHED: usize = COLUMNS.len() - 1;

/// Columns of TTFT, which is what policies are compared in request by request.
pub(super) const TTFT: std::ops::Range<usize> = 0..3;

/// A policy whose requests got their first tokens as soon as under the best one, as far as noise allows to tell.
pub(super) fn within_noise(policy: &PolicyReport) -> bool {
    policy.versus_best.is_some_and(|difference| !difference.significant)
}

/// Columns that only a policy which finished something has a value in.
pub(super) const TIMES: std::ops::Range<usize> = 0..5;

impl Column {
    /// Its value; absent where there is none to compare.
    fn known(&self, index: usize, policy: &PolicyReport) -> Option<f64> {
        let there = policy.requests.finished > 0 || !TIMES.contains(&index);
        Some((self.value)(policy)).filter(|value| there && value.is_finite())
    }
}

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    /// Position in [`COLUMNS`].
    pub column: usize,
    pub ascending: bool,
}

impl Sort {
    /// What a press on a column's head does: best first, then worst first, then the order of the list again.
    pub(super) fn pressed(now: Option<Sort>, column: usize) -> Option<Sort> {
        let best_first = COLUMNS[column].better == Better::Low;
        match now {
            Some(sort) if sort.column == column && sort.ascending == best_first => {
                Some(Sort { column, ascending: !best_first })
            }
            Some(sort) if sort.column == column => None,
            _ => Some(Sort { column, ascending: best_first }),
        }
    }
}

/// Positions of the policies in the order of the table. Equal ones keep the order of the list, and those without a value stand last
/// whichever way the rest is sorted.
pub(super) fn order(policies: &[PolicyReport], sort: Option<Sort>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..policies.len()).collect();
    if let Some(Sort { column, ascending }) = sort {
        let value = |at: usize| COLUMNS[column].known(column, &policies[at]);
        order.sort_by(|&a, &b| match (value(a), value(b)) {
            (Some(a), Some(b)) if ascending => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        });
    }
    order
}

/// Its times can be compared with those of the others: it answered as many requests, but for one in a hundred. Of whoever answered fewer, those who would
/// have waited longest are missing.
pub(super) fn compared(policies: &[PolicyReport], policy: &PolicyReport) -> bool {
    let most = policies.iter().map(|policy| policy.ttft_s.n).max().unwrap_or(0);
    policy.requests.finished > 0 && (most - policy.ttft_s.n) as f64 <= 0.01 * policy.requests.total as f64
}

/// The best value of the column at `index`, when it is better than some other by more than half a per cent: less is not worth a word.
pub(super) fn best(policies: &[PolicyReport], index: usize) -> Option<f64> {
    let column = &COLUMNS[index];
    // A policy that was stopped, or never began, has not been compared.
    if policies.iter().any(|policy| policy.requests.pending > 0) {
        return None;
    }
    let there = |policy: &&PolicyReport| !TIMES.contains(&index) || compared(policies, policy);
    let values = policies.iter().filter(there).map(column.value).filter(|value| value.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if high - low <= 0.005 * high.abs().max(1e-12) {
        return None;
    }
    match column.better {
        Better::Low => Some(low),
        Better::High => Some(high),
        Better::Neither => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(p50: f64) -> PolicyReport {
        let mut report = PolicyReport::default();
        report.ttft_s.p50 = p50;
        (report.requests.finished, report.requests.total, report.ttft_s.n) = (1, 1, 1);
        report
    }

    #[test]
    fn whoever_answered_fewer_wins_no_latency() {
        let mut few = policy(0.1);
        (few.requests.total, few.ttft_s.n) = (100, 90);
        let mut many = policy(0.3);
        (many.requests.total, many.ttft_s.n) = (100, 100);
        let mut next = policy(0.4);
        (next.requests.total, next.ttft_s.n) = (100, 99);
        assert_eq!(best(&[few.clone(), many.clone(), next], 0), Some(0.3));
        assert!(!compared(&[few.clone(), many.clone()], &few) && compared(&[few, many.clone()], &many));
    }

    #[test]
    fn a_head_sorts_best_first_then_worst_first_then_as_listed() {
        let (ttft, reuse) = (0, 7);
        let best = Sort::pressed(None, ttft);
        assert_eq!(best, Some(Sort { column: ttft, ascending: true }), "low latency is good");
        let worst = Sort::pressed(best, ttft);
        assert_eq!(worst, Some(Sort { column: ttft, ascending: false }));
        assert_eq!(Sort::pressed(worst, ttft), None);
        assert_eq!(Sort::pressed(worst, reuse), Some(Sort { column: reuse, ascending: false }), "much reuse is good");
    }

    #[test]
    fn rows_are_sorted_stably_and_what_has_no_value_stands_last() {
        let mut nobody = policy(0.0);
        nobody.requests.finished = 0;
        let all = [policy(0.3), nobody, policy(0.1), policy(0.3), policy(0.2)];
        let sorted = |ascending| order(&all, Some(Sort { column: 0, ascending }));
        assert_eq!(order(&all, None), [0, 1, 2, 3, 4]);
        assert_eq!(sorted(true), [2, 4, 0, 3, 1]);
        assert_eq!(sorted(false), [0, 3, 4, 2, 1]);
    }

    #[test]
    fn the_winner_is_the_lowest_latency_and_nobody_when_all_are_equal() {
        assert_eq!(best(&[policy(0.3), policy(0.1)], 0), Some(0.1));
        assert_eq!(best(&[policy(0.3), policy(0.3)], 0), None);
        assert_eq!(best(&[policy(0.3), policy(0.3001)], 0), None, "0.03 % is no difference");
    }
}
