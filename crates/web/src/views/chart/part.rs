//! Which part of its axis a chart shows.

/// From and to, in units of the axis.
pub(super) type Part = (f64, f64);

/// `factor` times as much as is shown, with what lies at `share` of the width staying where it is. What lies outside of the data is clamped by whoever
/// draws it.
pub(super) fn zoomed(shown: Part, factor: f64, share: f64) -> Part {
    let centre = shown.0 + share * (shown.1 - shown.0);
    let width = (shown.1 - shown.0) * factor;
    (centre - share * width, centre + (1.0 - share) * width)
}

/// As much as is shown, panned by `share` of its width, to the ends of the whole.
pub(super) fn panned(shown: Part, whole: Part, share: f64) -> Part {
    let wanted = share * (shown.1 - shown.0);
    let by = wanted.max((whole.0 - shown.0).min(0.0)).min((whole.1 - shown.1).max(0.0));
    (shown.0 + by, shown.1 + by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pointed_at_stays_where_it_is() {
        assert_eq!(zoomed((0.0, 8.0), 0.5, 0.25), (1.0, 5.0));
        assert_eq!(zoomed((1.0, 5.0), 2.0, 0.25), (0.0, 8.0));
    }

    #[test]
    fn it_pans_to_the_ends_and_no_further() {
        let whole = (0.0, 10.0);
        assert_eq!(panned((2.0, 4.0), whole, 0.5), (3.0, 5.0));
        assert_eq!(panned((2.0, 4.0), whole, -0.5), (1.0, 3.0));
        assert_eq!(panned((2.0, 4.0), whole, -9.0), (0.0, 2.0));
        assert_eq!(panned((2.0, 4.0), whole, 9.0), (8.0, 10.0));
        // Nothing to go to, and a part that reaches over the end already.
        assert_eq!(panned(whole, whole, 0.5), whole);
        assert_eq!(panned((9.0, 11.0), whole, 0.5), (9.0, 11.0));
    }
}
