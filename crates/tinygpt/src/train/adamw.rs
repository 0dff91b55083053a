//! AdamW (Loshchilov and Hutter, 2019) on the host, and clipping by the global norm.

use crate::weights::Weights;
use serde::{Deserialize, Serialize};

/// The optimiser's constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root.
    pub epsilon: f64,
    /// Weight decay, times the learning rate, of matrices; gains and the embedding are not decayed.
    pub decay: f64,
    /// Longest gradient, as a norm over all tensors.
    pub clip: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { beta1: 0.9, beta2: 0.98, epsilon: 1e-9, decay: 0.1, clip: 1.0 }
    }
}

/// Running means, shaped like the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Mean of gradients.
    pub first: Weights,
    /// Mean of squared gradients.
    pub second: Weights,
}

impl AdamW {
    /// One update; `step` counts from 0. Returns the gradient's norm before clipping.
    pub fn update(
        &self,
        weights: &mut Weights,
        moments: &mut Moments,
        gradient: &Weights,
        step: u64,
        rate: f64,
    ) -> f64 {
        let squares = |tensor: &[f32]| tensor.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>();
        let norm = libm::sqrt(gradient.tensors().iter().map(|(_, tensor)| squares(tensor)).sum());
        let scale = if norm > self.clip { (self.clip / norm) as f32 } else { 1.0 };
        let corrected = |beta: f64| 1.0 - libm::pow(beta, (step + 1) as f64);
        let (beta1, beta2) = (self.beta1 as f32, self.beta2 as f32);
        let to_rate = (rate / corrected(self.beta1)) as f32;
        let to_root = (1.0 / corrected(self.beta2)) as f32;
        let epsilon = self.epsilon as f32;
        let (first, second) = (moments.first.tensors_mut(), moments.second.tensors_mut());
        let tensors = weights.tensors_mut().into_iter().zip(gradient.tensors()).zip(first.into_iter().zip(second));
        for ((weights, (name, gradient)), (first, second)) in tensors {
            let keep =
                if name.ends_with("norm") || name == "embedding" { 1.0 } else { (1.0 - rate * self.decay) as f32 };
            let moments = first.iter_mut().zip(second.iter_mut());
            for ((w, &g), (m, v)) in weights.iter_mut().zip(gradient).zip(moments) {
                let g = g * scale;
                *m = beta1 * *m + (1.0 - beta1) * g;
                *v = beta2 * *v + (1.0 - beta2) * g * g;
                *w = keep * *w - to_rate * *m / ((*v * to_root).sqrt() + epsilon);
            }
        }
        norm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TinyGptConfig;

    /// The published recurrence for one number, in f64.
    fn by_hand(gradients: &[f64], start: f64, optimiser: &AdamW, rate: f64, decayed: bool) -> f64 {
        let (mut w, mut m, mut v) = (start, 0.0, 0.0);
        for (t, &g) in (1..).zip(gradients) {
            m = optimiser.beta1 * m + (1.0 - optimiser.beta1) * g;
            v = optimiser.beta2 * v + (1.0 - optimiser.beta2) * g * g;
            let m_hat = m / (1.0 - optimiser.beta1.powi(t));
            let v_hat = v / (1.0 - optimiser.beta2.powi(t));
            let decay = if decayed { optimiser.decay * w } else { 0.0 };
            w -= rate * (m_hat / (v_hat.sqrt() + optimiser.epsilon) + decay);
        }
        w
    }

    #[test]
    fn updates_follow_the_published_recurrence() {
        let config = TinyGptConfig::small();
        let optimiser = AdamW { clip: 1e9, ..AdamW::default() };
        let mut weights = Weights::random(&config, 1).expect("valid");
        let start = (f64::from(weights.layers[1].up[5]), f64::from(weights.final_norm[3]));
        let zeros = || Weights::zeros(&config).expect("valid");
        let mut moments = Moments { first: zeros(), second: zeros() };
        let gradients = [0.5f64, -0.25, 2.0, 0.0];
        for (step, &g) in (0..).zip(&gradients) {
            let mut gradient = zeros();
            gradient.layers[1].up[5] = g as f32;
            gradient.final_norm[3] = g as f32;
            let norm = optimiser.update(&mut weights, &mut moments, &gradient, step, 0.01);
            assert!((norm - g.abs() * 2f64.sqrt()).abs() < 1e-6);
        }
        let expected = by_hand(&gradients, start.0, &optimiser, 0.01, true);
        assert!((f64::from(weights.layers[1].up[5]) - expected).abs() < 1e-6);
        let expected = by_hand(&gradients, start.1, &optimiser, 0.01, false);
        assert!((f64::from(weights.final_norm[3]) - expected).abs() < 1e-6);
    }

    #[test]
    fn a_long_gradient_is_cut_to_the_stated_norm() {
        let config = TinyGptConfig::small();
        let zeros = || Weights::zeros(&config).expect("valid");
        let (mut weights, mut moments) = (zeros(), Moments { first: zeros(), second: zeros() });
        let mut gradient = zeros();
        gradient.head[0] = 30.0;
        gradient.head[1] = 40.0;
        let norm = AdamW::default().update(&mut weights, &mut moments, &gradient, 0, 0.1);
        assert_eq!(norm, 50.0);
        // The means saw 0.6 and 0.8.
        assert!((moments.first.head[0] - 0.06).abs() < 1e-7 && (moments.first.head[1] - 0.08).abs() < 1e-7);
    }
}
