//! What goes wrong with a fleet for a while.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When it begins.
    pub from: Nanos,
    /// When it is over, later than that.
    pub until: Nanos,
    /// What it is.
    pub what: FaultKind,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// A replica, or all of them, are not there: routers know and send nothing.
    Down {
        /// Which; `None`: all.
        replica: Option<u32>,
    },
    /// A replica, or all of them, stand still: what is there stays, what is sent there waits, and routers do not know.
    Frozen {
        /// Which; `None`: all.
        replica: Option<u32>,
    },
    /// The network between the routers and a replica, or all of them, is split: attempts sent there never arrive and answers do not come back, until the
    /// client waits no longer or the split is over and the connection breaks. Routers do not know.
    Split {
        /// Which; `None`: all.
        replica: Option<u32>,
    },
    /// Nobody scrapes: routers and autoscalers go on with what they last read.
    Telemetry,
    /// Replicas answer a share of what they are sent with an error (500), at once.
    Errors {
        /// Share, 0 to 1.
        share: f64,
    },
    /// A request crashes whatever replica serves it. The replica is back after a time, empty.
    Poison {
        /// The request's index in the workload.
        request: u32,
        /// How long the replica is away.
        restart: Nanos,
    },
}

impl Fault {
    pub(crate) fn validate(&self, replicas: u32) -> Result<(), SpecError> {
        if self.until <= self.from {
            let accepted = format!("use a time after its beginning, {} s", self.from.as_secs());
            return Err(SpecError::new("faults.until_s", self.until.as_secs(), accepted));
        }
        match self.what {
            FaultKind::Down { replica: Some(replica) }
            | FaultKind::Frozen { replica: Some(replica) }
            | FaultKind::Split { replica: Some(replica) }
                if replica >= replicas =>
            {
                Err(SpecError::new("faults.replica", replica, format!("use 0 to {}", replicas - 1)))
            }
            FaultKind::Errors { share } if !(0.0..=1.0).contains(&share) => {
                Err(SpecError::new("faults.share", share, "use 0 (none) to 1 (all)"))
            }
            _ => Ok(()),
        }
    }

    /// Which replicas it concerns, of so many.
    pub(crate) fn replicas(&self, of: u32) -> std::ops::Range<u32> {
        match self.what {
            FaultKind::Down { replica: Some(replica) }
            | FaultKind::Frozen { replica: Some(replica) }
            | FaultKind::Split { replica: Some(replica) } => replica..replica + 1,
            FaultKind::Down { replica: None }
            | FaultKind::Frozen { replica: None }
            | FaultKind::Split { replica: None } => 0..of,
            FaultKind::Telemetry | FaultKind::Errors { .. } | FaultKind::Poison { .. } => 0..0,
        }
    }
}
