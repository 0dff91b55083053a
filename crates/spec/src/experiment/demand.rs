//! Demand that changes over the day.

use crate::validate::SpecError;
use serde::{Deserialize, Serialize};

/// Tenants as in the multi-tenant workload, whose rate follows a curve. Arrivals are a Poisson process of that rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DemandSpec {
    /// The curve: `hour:level` pairs, straight lines between them, `0:0.1, 9:1, 24:0.1`. It ends where its last point is.
    pub curve: String,
    /// Length of an hour of the curve, seconds.
    pub hour_s: f64,
    /// Requests per second at level 1.
    pub rate: f64,
    /// Number of tenants.
    pub tenants: u32,
    /// Zipf exponent of tenant popularity; 0 is uniform.
    pub skew: f64,
    /// Shortest system prompt, tokens.
    pub system_min: u32,
    /// Longest system prompt, tokens.
    pub system_max: u32,
    /// Shortest user part, tokens.
    pub user_min: u32,
    /// Longest user part, tokens.
    pub user_max: u32,
    /// Shortest output, tokens.
    pub output_min: u32,
    /// Longest output, tokens.
    pub output_max: u32,
}

impl Default for DemandSpec {
    fn default() -> Self {
        DemandSpec {
            curve: DemandSpec::WEEKDAY.into(),
            hour_s: 3600.0,
            rate: 20.0,
            tenants: 6,
            skew: 0.0,
            system_min: 200,
            system_max: 200,
            user_min: 50,
            user_max: 150,
            output_min: 30,
            output_max: 70,
        }
    }
}

impl DemandSpec {
    /// A working day: quiet until six, a morning ramp to ten, a dip at lunch, an evening tail.
    pub const WEEKDAY: &'static str =
        "0:0.08,6:0.1,8:0.55,10:1,12:0.95,13:0.7,14:0.95,16:0.9,18:0.5,20:0.35,22:0.2,24:0.08";

    /// Most requests of a run.
    pub const MAX_REQUESTS: f64 = 20e6;

    /// The curve, read.
    ///
    /// # Errors
    /// When its text is no curve.
    pub fn points(&self) -> Result<Curve, SpecError> {
        Curve::parse(&self.curve, self.hour_s)
    }

    /// Requests to be expected, rounded up; 0 when the curve cannot be read.
    pub fn expected_requests(&self) -> u32 {
        self.points().map_or(0, |curve| (curve.area() * self.rate).ceil().min(f64::from(u32::MAX)) as u32)
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let curve = self.points()?;
        let requests = curve.area() * self.rate;
        if requests > Self::MAX_REQUESTS {
            let found = format!("{requests:.0} requests under this curve");
            let accepted =
                format!("accepted are at most {} in all; a lower rate or a shorter curve", Self::MAX_REQUESTS);
            return Err(SpecError::new("workload.rate", found, accepted));
        }
        Ok(())
    }
}

/// A level over time, straight lines between points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Seconds and level, seconds ascending from 0.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Most points.
    pub const MAX_POINTS: usize = 2000;

    /// Reads `hour:level` pairs, separated by commas, blanks or line ends. An hour has `hour_s` seconds.
    ///
    /// # Errors
    /// Names the pair that can not be used.
    pub fn parse(text: &str, hour_s: f64) -> Result<Self, SpecError> {
        let accepted =
            "accepted are pairs hour:level like 0:0.1,9:1,24:0.1, hours ascending from 0, levels from 0 to 1000000";
        let wrong = |found: &str| {
            let short: String = found.chars().take(40).collect();
            SpecError::new("workload.curve", format!("{short:?}"), accepted)
        };
        let mut points: Vec<(f64, f64)> = Vec::new();
        for pair in text.split([',', ' ', '\n', '\r', '\t', ';']).filter(|pair| !pair.is_empty()) {
            let (hour, level) = pair.split_once(':').ok_or_else(|| wrong(pair))?;
            let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
            let (Some(hour), Some(level)) = (number(hour), number(level)) else { return Err(wrong(pair)) };
            let ascends = points.last().map_or(hour == 0.0, |&(last, _)| hour * hour_s > last);
            if !ascends || hour > 1e6 || !(0.0..=1e6).contains(&level) {
                return Err(wrong(pair));
            }
            points.push((hour * hour_s, level));
            if points.len() > Self::MAX_POINTS {
                let accepted = format!("accepted are at most {} pairs", Self::MAX_POINTS);
                return Err(SpecError::new("workload.curve", "more pairs than that", accepted));
            }
        }
        if points.len() < 2 {
            return Err(wrong(text));
        }
        if points.iter().all(|&(_, level)| level == 0.0) {
            return Err(SpecError::new(
                "workload.curve",
                "a curve that is 0 everywhere",
                "accepted is a curve with some load",
            ));
        }
        Ok(Curve { points })
    }

    /// When it ends, seconds.
    pub fn end_s(&self) -> f64 {
        self.points.last().map_or(0.0, |&(at, _)| at)
    }

    /// The area under it, level × seconds.
    pub fn area(&self) -> f64 {
        self.points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum()
    }

    /// Its level at `t`, seconds; 0 outside.
    pub fn at(&self, t: f64) -> f64 {
        let after = self.points.partition_point(|&(at, _)| at <= t);
        match (after.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(after)) {
            (Some(&(t0, v0)), Some(&(t1, v1))) => v0 + (v1 - v0) * (t - t0) / (t1 - t0),
            (Some(&(t0, v0)), None) if t == t0 => v0,
            _ => 0.0,
        }
    }

    /// Its highest level between two instants, seconds.
    pub fn peak(&self, from: f64, to: f64) -> f64 {
        let inside = self.points.iter().filter(|&&(at, _)| at >= from && at <= to).map(|&(_, level)| level);
        inside.fold(self.at(from).max(self.at(to)), f64::max)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn curves_are_read_and_measured() {
        let curve = Curve::parse("0:0, 2:1\n4:1 5:0", 10.0).unwrap();
        assert_eq!(curve.end_s(), 50.0);
        // A triangle of 20 × 1 ÷ 2, a rectangle of 20, a triangle of 10 ÷ 2.
        assert_eq!(curve.area(), 35.0);
        assert_eq!(
            [curve.at(-1.0), curve.at(5.0), curve.at(20.0), curve.at(50.0), curve.at(51.0)],
            [0.0, 0.25, 1.0, 0.0, 0.0]
        );
        assert_eq!((curve.peak(0.0, 10.0), curve.peak(0.0, 30.0), curve.peak(45.0, 90.0)), (0.5, 1.0, 0.5));
        assert!(DemandSpec::default().check().is_ok());
    }

    #[test]
    fn what_is_no_curve_is_refused_with_the_pair_named() {
        let long = "0:1,".repeat(3000);
        for (text, named) in [
            ("", "\"\""),
            ("0:1", "\"0:1\""),
            ("1:1,2:1", "1:1"),
            ("0:1,0:2", "0:2"),
            ("0:1,3:1,2:1", "2:1"),
            ("0:1,x:2", "x:2"),
            ("0:1,5", "5"),
            ("0:1,5:-1", "5:-1"),
            ("0:1,5:NaN", "5:NaN"),
            ("0:1,inf:1", "inf:1"),
            ("0:0,5:0", "0 everywhere"),
            (&long, "0:1"),
        ] {
            let error = Curve::parse(text, 3600.0).unwrap_err();
            assert!(error.field == "workload.curve" && error.found.contains(named), "{text}: {error}");
        }
        let much = DemandSpec { rate: 1e5, ..DemandSpec::default() };
        assert_eq!(much.check().unwrap_err().field, "workload.rate");
    }
}
