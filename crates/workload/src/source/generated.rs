//! Traffic by its figures.
//!
//! Gaps are drawn as areas with mean 1 and laid under the rate over time: a curve that is played again when it ends, or the steps of bursts and quiet. So
//! a Gamma law of gaps keeps its CV at every level of the curve. Arrivals are settled when the source is made, eight bytes each.
//!
//! Lengths are lognormal, whose mean m and CV c are those of exp(N(μ, σ²)) with σ² = ln(1 + c²) and μ = ln m − σ²/2, or those of a trace's requests drawn with
//! replacement, prompt and output together.

use super::{Workload, check};
use crate::population::{self, Popularity, Tenant, text_ids};
use crate::request::Request;
use crate::trace::{Trace, shelf};
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use servelab_spec::experiment::{ArrivalLaw, Curve, GeneratedSpec, LengthLaw, TraceSpec};
use servelab_spec::validate::SpecError;
use std::sync::Arc;

/// Longest run, seconds: thirty years.
const LONGEST_S: f64 = 1e9;

#[derive(Debug)]
struct Drawn {
    sizes: GeneratedSpec,
    block_tokens: u32,
    arrivals: Box<[Nanos]>,
    tenants: Box<[Tenant]>,
    popularity: Popularity,
    trace: Option<Arc<Trace>>,
    whose: Stream,
    user_lengths: Stream,
    users: Stream,
    outputs: Stream,
    samples: Stream,
}

/// The generated workload.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    all: Arc<Drawn>,
    next: u32,
}

impl Generated {
    /// Draws who comes when, and builds the tenants' prompts.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub(crate) fn new(sizes: &GeneratedSpec, seed: u64, block_tokens: u32, rate_per_s: f64) -> Result<Self, SpecError> {
        check::range("system", (sizes.system_min, sizes.system_max), 0)?;
        check::tenants(sizes.tenants, sizes.skew)?;
        check::requests(sizes.requests)?;
        check::rate(rate_per_s)?;
        check::whole("prompt_cap", sizes.prompt_cap, sizes.system_max.saturating_add(1), 1 << 24)?;
        check::whole("output_cap", sizes.output_cap, 1, 1 << 24)?;
        for (field, value, most) in [
            ("cv", sizes.cv, 100.0),
            ("on_s", sizes.on_s, 1e9),
            ("off_s", sizes.off_s, 1e9),
            ("off_level", sizes.off_level, 1.0),
            ("user_mean", sizes.user_mean, 1e7),
            ("user_cv", sizes.user_cv, 100.0),
            ("output_mean", sizes.output_mean, 1e7),
            ("output_cv", sizes.output_cv, 100.0),
        ] {
            check::real(field, value, most)?;
        }
        let trace = match sizes.lengths {
            LengthLaw::Lognormal => None,
            LengthLaw::Empirical => Some(shelf::of(&TraceSpec { trace: sizes.trace.clone(), ..TraceSpec::default() })?),
        };
        let stream = |purpose: &[u8]| Stream::new(seed, purpose);
        let all = Drawn {
            arrivals: arrivals(sizes, seed, rate_per_s)?,
            tenants: population::tenants(
                seed,
                sizes.tenants,
                (sizes.system_min, sizes.system_max),
                block_tokens,
                |_| 0,
            ),
            popularity: Popularity::new(sizes.tenants, sizes.skew),
            whose: stream(b"tenant"),
            user_lengths: stream(b"user_length"),
            users: stream(b"user"),
            outputs: stream(b"output_length"),
            samples: stream(b"sampling"),
            trace,
            sizes: sizes.clone(),
            block_tokens,
        };
        Ok(Generated { all: Arc::new(all), next: 0 })
    }
}

/// Instants of all requests.
fn arrivals(sizes: &GeneratedSpec, seed: u64, rate_per_s: f64) -> Result<Box<[Nanos]>, SpecError> {
    let gaps = Stream::new(seed, b"arrivals");
    let shape = match sizes.arrivals {
        ArrivalLaw::Gamma if sizes.cv > 0.0 => 1.0 / (sizes.cv * sizes.cv),
        _ => 1.0,
    };
    let mut levels = Levels::new(sizes, seed)?;
    let mut out = Vec::with_capacity(sizes.requests as usize);
    for index in 0..sizes.requests {
        let gap = gamma(&mut gaps.split(index.into()), shape) / shape;
        let at = levels.pass(gap / rate_per_s);
        if at > LONGEST_S {
            let found = format!("{rate_per_s} requests/s");
            return Err(SpecError::new("workload.rate", found, "use a rate at which the run ends within thirty years"));
        }
        out.push(Nanos::from_secs(at));
    }
    Ok(out.into())
}

/// A draw of the Gamma law of this shape and scale 1 (Marsaglia and Tsang, 2000; below shape 1 by their boost).
fn gamma(draw: &mut Stream, shape: f64) -> f64 {
    if shape == 1.0 {
        return draw.exponential();
    }
    if shape < 1.0 {
        // 1 − u is never 0.
        let boost = libm::pow(1.0 - draw.unit(), 1.0 / shape);
        return gamma(draw, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = draw.normal();
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let u = 1.0 - draw.unit();
        if libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

/// The rate over time, in means: pieces between whose ends it runs straight.
struct Levels {
    kind: Kind,
    /// Where the last request came, seconds, and the piece it lies in.
    now: f64,
    piece: Piece,
    number: u64,
}

#[derive(Clone, Copy)]
struct Piece {
    from: (f64, f64),
    to: (f64, f64),
}

enum Kind {
    Flat,
    Curve { curve: Curve, mean: f64 },
    OnOff { lengths: Stream, on_s: f64, off_s: f64, on: f64, off: f64 },
}

impl Levels {
    fn new(sizes: &GeneratedSpec, seed: u64) -> Result<Self, SpecError> {
        let kind = match (sizes.arrivals, sizes.points()?) {
            (ArrivalLaw::OnOff, _) => {
                // A source may be made of anything: lengths of nothing would never end.
                let (on_s, off_s) = (sizes.on_s.max(1e-6), sizes.off_s.max(1e-6));
                let mean = (on_s + sizes.off_level * off_s) / (on_s + off_s);
                let (on, off) = (1.0 / mean, sizes.off_level / mean);
                Kind::OnOff { lengths: Stream::new(seed, b"bursts"), on_s, off_s, on, off }
            }
            (_, Some(curve)) => {
                let mean = curve.area() / curve.end_s();
                Kind::Curve { curve, mean }
            }
            (_, None) => Kind::Flat,
        };
        let nowhere = Piece { from: (0.0, 1.0), to: (0.0, 1.0) };
        Ok(Levels { kind, now: 0.0, piece: nowhere, number: 0 })
    }

    /// When so much area (in seconds at the mean rate) has passed since the last request.
    fn pass(&mut self, mut area: f64) -> f64 {
        loop {
            let (t1, v1) = self.piece.to;
            let left = t1 - self.now;
            let here = self.level();
            let whole = if left > 0.0 { left * (here + v1) / 2.0 } else { 0.0 };
            if area < whole {
                // here·x + slope·x²/2 = area, in the form that does not cancel.
                let slope = (v1 - here) / left;
                let root = libm::sqrt((here * here + 2.0 * slope * area).max(0.0));
                let x = if here + root > 0.0 { 2.0 * area / (here + root) } else { left };
                self.now = (self.now + x).min(t1);
                return self.now;
            }
            area -= whole;
            self.now = t1.max(self.now);
            if self.now > LONGEST_S {
                return self.now;
            }
            self.piece = self.next_piece(t1);
        }
    }

    fn level(&self) -> f64 {
        let Piece { from: (t0, v0), to: (t1, v1) } = self.piece;
        if t1 > t0 { v0 + (v1 - v0) * (self.now - t0) / (t1 - t0) } else { v1 }
    }

    fn next_piece(&mut self, begin: f64) -> Piece {
        let number = self.number;
        self.number += 1;
        match &self.kind {
            Kind::Flat => Piece { from: (begin, 1.0), to: (2.0 * LONGEST_S, 1.0) },
            Kind::Curve { curve, mean } => {
                let pieces = curve.points.len() as u64 - 1;
                let (round, at) = (number / pieces, (number % pieces) as usize);
                let start = round as f64 * curve.end_s();
                let ((t0, v0), (t1, v1)) = (curve.points[at], curve.points[at + 1]);
                Piece { from: (start + t0, v0 / mean), to: (start + t1, v1 / mean) }
            }
            Kind::OnOff { lengths, on_s, off_s, on, off } => {
                let (mean, level) = if number.is_multiple_of(2) { (on_s, on) } else { (off_s, off) };
                let length = lengths.split(number).exponential() * mean;
                Piece { from: (begin, *level), to: (begin + length, *level) }
            }
        }
    }
}

/// A draw of the lognormal law with this mean and CV.
fn lognormal(mut draw: Stream, mean: f64, cv: f64) -> f64 {
    let variance = libm::log1p(cv * cv);
    libm::exp(libm::log(mean) - variance / 2.0 + libm::sqrt(variance) * draw.normal())
}

/// Mean of the smaller of such a draw and `cap`.
fn capped_mean(mean: f64, cv: f64, cap: f64) -> f64 {
    let variance = libm::log1p(cv * cv);
    if variance == 0.0 {
        return mean.min(cap);
    }
    let (mu, sigma) = (libm::log(mean) - variance / 2.0, libm::sqrt(variance));
    let below = |x: f64| 0.5 * libm::erfc(-x / core::f64::consts::SQRT_2);
    let edge = (libm::log(cap) - mu) / sigma;
    mean * below(edge - sigma) + cap * (1.0 - below(edge))
}

impl Workload for Generated {
    fn next_request(&mut self) -> Option<Request> {
        let request = self.request_again(self.next)?;
        self.next += 1;
        Some(request)
    }

    fn total(&self) -> u32 {
        self.all.arrivals.len() as u32
    }

    fn tenants(&self) -> u32 {
        self.all.sizes.tenants
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        let drawn = &*self.all;
        let arrival = *drawn.arrivals.get(index as usize)?;
        let (sizes, at) = (&drawn.sizes, u64::from(index));
        let tenant = drawn.popularity.draw(drawn.whose.split(at));
        let system = &drawn.tenants[tenant as usize];
        let whole = |value: f64, most: u32| libm::round(value).clamp(1.0, f64::from(most.max(1))) as u32;
        let room = sizes.prompt_cap - system.len();
        let (user, output) = match &drawn.trace {
            None => (
                whole(lognormal(drawn.user_lengths.split(at), sizes.user_mean, sizes.user_cv), room),
                whole(lognormal(drawn.outputs.split(at), sizes.output_mean, sizes.output_cv), sizes.output_cap),
            ),
            Some(trace) => {
                let row = trace.rows()[drawn.user_lengths.split(at).below(trace.rows().len() as u64) as usize];
                // The recorded prompt is the whole of it; at least a token of it is the user's.
                (row.prompt.saturating_sub(system.len()).clamp(1, room), row.output.min(sizes.output_cap))
            }
        };
        Some(Request {
            index,
            tenant,
            session: None,
            arrival,
            prompt: system.prompt(text_ids(drawn.users.split(at), user), drawn.block_tokens),
            user_at: system.len(),
            user_tokens: user,
            max_tokens: sizes.output_cap,
            output_tokens: output,
            ignore_eos: true,
            sampling: Sampling { seed: drawn.samples.split(at).next_u64() >> 11, ..Sampling::default() },
            output_seed: at,
            adapter: None,
        })
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, Nanos::ZERO)
    }

    fn seek(&mut self, next: u32, _clock: Nanos) {
        self.next = next;
    }
}

/// Mean prompt and output of what `sizes` generates.
pub(crate) fn mean_lengths(sizes: &GeneratedSpec) -> (f64, f64) {
    let system = (f64::from(sizes.system_min) + f64::from(sizes.system_max)) / 2.0;
    let room = (f64::from(sizes.prompt_cap) - system).max(1.0);
    let lognormal = (
        system + capped_mean(sizes.user_mean, sizes.user_cv, room),
        capped_mean(sizes.output_mean, sizes.output_cv, sizes.output_cap.into()),
    );
    let trace = shelf::find(&sizes.trace).filter(|_| sizes.lengths == LengthLaw::Empirical);
    let Some(trace) = trace else { return lognormal };
    let many = trace.rows().len().max(1) as f64;
    let prompts = trace.rows().iter().map(|row| f64::from(row.prompt).clamp(system + 1.0, system + room));
    let outputs = trace.rows().iter().map(|row| f64::from(row.output.min(sizes.output_cap)));
    (prompts.sum::<f64>() / many, outputs.sum::<f64>() / many)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "generated_tests.rs"]
mod tests;
