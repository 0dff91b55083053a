//! Colours, in one place: canvas, styles and tests read them from here.
//!
//! Eight prefix colours A–H per scheme mean tenants and nothing else. They were searched for, not picked: the smallest
//! distance between any two of them, seen normally and with each kind of colour blindness, was maximised within
//! hue windows that stay the same in both schemes, so that A is A after switching. The tests below hold the
//! search's result to its promises; change a colour only together with them.

/// One scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// What the stage is drawn on.
    pub surface: &'static str,
    /// Text and strong marks.
    pub ink: &'static str,
    /// Empty cells, frames.
    pub rule: &'static str,
    /// Arrivals and demand.
    pub demand: &'static str,
    /// Ready capacity.
    pub ready: &'static str,
    /// Waiting or broken.
    pub waiting: &'static str,
    /// Cost: time spent in steps.
    pub cost: &'static str,
    /// Prefix colours A–H.
    pub tenants: [&'static str; 8],
}

/// The light scheme.
pub const LIGHT: Scheme = Scheme {
    surface: "#ffffff",
    ink: "#191d23",
    rule: "#e3e6ea",
    demand: "#0b5fc2",
    ready: "#15803d",
    waiting: "#c8401a",
    cost: "#6b7280",
    tenants: ["#26469f", "#2fa1b3", "#720158", "#9d921f", "#7c6ccf", "#b15f67", "#714c3a", "#3f3601"],
};

/// The dark scheme.
pub const DARK: Scheme = Scheme {
    surface: "#1a1d22",
    ink: "#eceff3",
    rule: "#343941",
    demand: "#6cb0ff",
    ready: "#4ccb84",
    waiting: "#ff8a5c",
    cost: "#9aa3af",
    tenants: ["#6993f2", "#49daf3", "#b98fa3", "#eac545", "#6e60c3", "#98606e", "#d16d2b", "#dcefbe"],
};

impl Scheme {
    /// The scheme that is on.
    pub fn of(dark: bool) -> &'static Scheme {
        if dark { &DARK } else { &LIGHT }
    }

    /// A tenant's colour; from the ninth on they repeat.
    pub fn tenant(&self, tenant: u32) -> &'static str {
        self.tenants[tenant as usize % self.tenants.len()]
    }

    /// Black or white, whichever is read more easily on the tenant's colour (never below 4.5:1).
    pub fn on_tenant(&self, tenant: u32) -> &'static str {
        let colour = luminance(parse(self.tenant(tenant)));
        if (colour + 0.05) / 0.05 > 1.05 / (colour + 0.05) { "#000000" } else { "#ffffff" }
    }

    /// Name and value of every custom property that the style sheets use.
    pub fn properties(&self) -> Vec<(String, &'static str)> {
        let mut out: Vec<(String, &'static str)> = vec![
            ("--surface".into(), self.surface),
            ("--ink".into(), self.ink),
            ("--rule".into(), self.rule),
            ("--demand".into(), self.demand),
            ("--ready".into(), self.ready),
            ("--waiting".into(), self.waiting),
            ("--cost".into(), self.cost),
        ];
        for tenant in 0..8u32 {
            out.push((format!("--tenant-{tenant}"), self.tenant(tenant)));
            out.push((format!("--on-tenant-{tenant}"), self.on_tenant(tenant)));
        }
        out
    }
}

/// Linear sRGB of `#rrggbb`; black for anything else.
fn parse(hex: &str) -> [f64; 3] {
    let byte = |at: usize| {
        let code = hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
        let value = f64::from(code) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    [byte(1), byte(3), byte(5)]
}

/// Relative luminance as WCAG defines it.
fn luminance(linear: [f64; 3]) -> f64 {
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machado, Oliveira and Fernandes (2009), severity 1, on linear sRGB; the first row is normal sight.
    const SIGHTS: [(&str, [[f64; 3]; 3]); 4] = [
        ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("protan", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
        ("deutan", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
        ("tritan", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
    ];

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(parse(a)), luminance(parse(b)));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// OKLab of what somebody with that sight sees.
    fn seen(hex: &str, sight: &[[f64; 3]; 3]) -> [f64; 3] {
        let rgb = parse(hex);
        let l = sight.map(|row| (row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]).clamp(0.0, 1.0));
        let long = (0.4122214708 * l[0] + 0.5363325363 * l[1] + 0.0514459929 * l[2]).cbrt();
        let medium = (0.2119034982 * l[0] + 0.6806995451 * l[1] + 0.1073969566 * l[2]).cbrt();
        let short = (0.0883024619 * l[0] + 0.2817188376 * l[1] + 0.6299787005 * l[2]).cbrt();
        [
            0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
        ]
    }

    fn distance(a: &str, b: &str, sight: &[[f64; 3]; 3]) -> f64 {
        let (a, b) = (seen(a, sight), seen(b, sight));
        (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn marks_stand_out_from_the_surface() {
        for scheme in [&LIGHT, &DARK] {
            for mark in scheme.tenants.iter().chain([&scheme.demand, &scheme.ready, &scheme.waiting, &scheme.cost]) {
                let ratio = contrast(mark, scheme.surface);
                assert!(ratio >= 3.0, "{mark} on {}: {ratio:.2}", scheme.surface);
            }
        }
    }

    #[test]
    fn text_is_readable() {
        for scheme in [&LIGHT, &DARK] {
            for text in [scheme.ink, scheme.demand, scheme.ready, scheme.waiting, scheme.cost] {
                let ratio = contrast(text, scheme.surface);
                assert!(ratio >= 4.5, "{text} on {}: {ratio:.2}", scheme.surface);
            }
            for tenant in 0..8 {
                let ratio = contrast(scheme.on_tenant(tenant), scheme.tenant(tenant));
                assert!(ratio >= 4.5, "text on tenant {tenant}: {ratio:.2}");
            }
        }
    }

    /// 0.1 in OKLab is about five times the smallest difference that is noticed between neighbouring patches.
    #[test]
    fn tenants_can_be_told_apart_with_any_sight() {
        for scheme in [&LIGHT, &DARK] {
            for (name, sight) in &SIGHTS {
                for (i, a) in scheme.tenants.iter().enumerate() {
                    for b in &scheme.tenants[..i] {
                        let found = distance(a, b, sight);
                        assert!(found >= 0.1, "{a} and {b} with {name} sight: {found:.3}");
                    }
                }
            }
        }
    }

    /// Meaning colours never stand where tenant colours do (dots and words, not pills), so less is enough.
    #[test]
    fn no_tenant_looks_like_a_meaning() {
        for scheme in [&LIGHT, &DARK] {
            for (name, sight) in &SIGHTS {
                for tenant in &scheme.tenants {
                    for meaning in [scheme.demand, scheme.ready, scheme.waiting] {
                        let found = distance(tenant, meaning, sight);
                        assert!(found >= 0.06, "{tenant} and {meaning} with {name} sight: {found:.3}");
                    }
                }
            }
        }
    }
}
