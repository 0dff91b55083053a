//! Down-sampling to pixel columns that loses no peak.
//!
//! Of the points that fall into one pixel column, the first, the smallest, the largest and the last are kept, in their order. A line through them
//! covers the same pixels as a line through all (Jugel et al. 2014), so a million points draw as a few thousand and
//! look the same.

/// Keeps at most four points per column of `columns` over `low..=high`. `points` ascend in x; those outside
/// the range are left out, but for one neighbour on each side, so that lines run on to the edge.
pub fn per_column(points: &[(f64, f64)], low: f64, high: f64, columns: u32) -> Vec<(f64, f64)> {
    let inside = within(points, low, high);
    if inside.len() <= 4 * columns as usize {
        return inside.to_vec();
    }
    let width = (high - low) / f64::from(columns.max(1));
    let column = |x: f64| libm::floor((x - low) / width) as i64;
    let mut out = Vec::with_capacity(4 * columns as usize + 8);
    let mut start = 0;
    while start < inside.len() {
        let here = column(inside[start].0);
        let (mut least, mut most, mut end) = (start, start, start + 1);
        while end < inside.len() && column(inside[end].0) == here {
            if inside[end].1 < inside[least].1 {
                least = end;
            }
            if inside[end].1 > inside[most].1 {
                most = end;
            }
            end += 1;
        }
        let mut kept = [start, least, most, end - 1];
        kept.sort();
        for (index, &at) in kept.iter().enumerate() {
            if index == 0 || kept[index - 1] != at {
                out.push(inside[at]);
            }
        }
        start = end;
    }
    out
}

/// The points of `low..=high` and one neighbour on each side.
fn within(points: &[(f64, f64)], low: f64, high: f64) -> &[(f64, f64)] {
    let start = points.partition_point(|point| point.0 < low).saturating_sub(1);
    let end = (points.partition_point(|point| point.0 <= high) + 1).min(points.len());
    &points[start.min(end)..end]
}
