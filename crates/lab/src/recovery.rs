//! Whether a fleet that was pushed down is up again, by how many of those who come are answered in time.

/// More of them than this: it has recovered.
const RECOVERED: f64 = 0.9;
/// Fewer than this: it is still down.
const DOWN: f64 = 0.3;

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nearly all are answered in time.
    Recovers,
    /// Some are, or some seeds recover.
    Between,
    /// Hardly any is.
    StaysDown,
}

impl Recovery {
    /// By the share of requests that are answered in time, 0 to 1.
    pub fn of(in_time: f64) -> Self {
        if in_time > RECOVERED {
            Recovery::Recovers
        } else if in_time < DOWN {
            Recovery::StaysDown
        } else {
            Recovery::Between
        }
    }

    /// In a field of a map.
    pub fn label(self) -> &'static str {
        match self {
            Recovery::Recovers => "recovers",
            Recovery::Between => "between",
            Recovery::StaysDown => "stays down",
        }
    }
}
