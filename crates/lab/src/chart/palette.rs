//! Colours of policies in both schemes.
//!
//! Six colours per scheme, found by search: at least 3:1 against the background, and among each other at least 35 apart in CIELAB as seen
//! with normal sight, protanopia, deuteranopia and tritanopia (Machado et al. 2009), and apart from the colours that mean demand, ready,
//! waiting and cost. The tests recompute all of that. Dash and mark are the second channel.

/// Colours of one scheme.
pub struct Scheme {
    /// Background.
    pub surface: &'static str,
    /// Titles and labels.
    pub ink: &'static str,
    /// Axis text and axis lines.
    pub quiet: &'static str,
    /// Grid lines.
    pub rule: &'static str,
    /// Limits that requests should meet.
    pub limit: &'static str,
    lanes: [&'static str; 6],
    demand: &'static str,
    capacity: &'static str,
    late: &'static str,
}

/// What is offered: not a policy's lane.
pub const DEMAND: usize = 600;
/// What could be served, one lane for each run from here on.
pub const CAPACITY: usize = 1200;
/// Where users were late, one lane for each run from here on.
pub const LATE: usize = 1800;

const LIGHT: Scheme = Scheme {
    surface: "#ffffff",
    ink: "#191d23",
    quiet: "#555d68",
    rule: "#e3e6ea",
    limit: "#555d68",
    lanes: ["#cd55e6", "#46a005", "#5f000a", "#0a00ff", "#eb5087", "#410f5f"],
    demand: "#0b5fc2",
    capacity: "#15803d",
    late: "#c8401a",
};

const DARK: Scheme = Scheme {
    surface: "#1a1d22",
    ink: "#eceff3",
    quiet: "#a9b1bc",
    rule: "#343941",
    limit: "#a9b1bc",
    lanes: ["#46faff", "#fff53c", "#a52dff", "#d7877d", "#0582aa", "#e10a0a"],
    demand: "#6cb0ff",
    capacity: "#4ccb84",
    late: "#ff8a5c",
};

/// The scheme for dark or light backgrounds.
pub fn scheme(dark: bool) -> &'static Scheme {
    if dark { &DARK } else { &LIGHT }
}

impl Scheme {
    /// Colour of the policy with this index.
    pub fn lane(&self, index: usize) -> &'static str {
        match index {
            LATE.. => self.late,
            CAPACITY.. => self.capacity,
            DEMAND.. => self.demand,
            _ => self.lanes[index % self.lanes.len()],
        }
    }
}

/// Dash pattern of the policy with this index, as `stroke-dasharray`; empty for solid.
pub fn dash(index: usize) -> &'static str {
    ["", "8 3", "3 3", "10 3 2 3", "2 2", "14 4"][index % 6]
}
