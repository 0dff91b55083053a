//! The learning rate of a step.

use serde::{Deserialize, Serialize};

/// Linear warm-up, then half a cosine down to a floor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Highest rate.
    pub peak: f64,
    /// The last step's rate ÷ the highest.
    pub floor: f64,
    /// Steps until the highest.
    pub warm_up: u64,
    /// Steps in all.
    pub steps: u64,
}

impl Schedule {
    /// Rate of a step; the first is 0.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return self.peak * (step + 1) as f64 / self.warm_up as f64;
        }
        let span = self.steps.saturating_sub(self.warm_up).max(1) as f64;
        let done = ((step - self.warm_up) as f64 / span).min(1.0);
        let cosine = 0.5 * (1.0 + libm::cos(core::f64::consts::PI * done));
        self.peak * (self.floor + (1.0 - self.floor) * cosine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_linearly_and_falls_like_a_cosine() {
        let schedule = Schedule { peak: 2.0, floor: 0.1, warm_up: 10, steps: 110 };
        let near =
            |step, rate: f64| assert!((schedule.rate(step) - rate).abs() < 1e-12, "{step}: {}", schedule.rate(step));
        near(0, 0.2);
        near(4, 1.0);
        near(9, 2.0);
        near(10, 2.0);
        near(60, 2.0 * 0.55);
        near(110, 0.2);
        near(500, 0.2);
    }
}
