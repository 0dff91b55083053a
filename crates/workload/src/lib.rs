//! Where requests come from.
//!
//! A [`Source`] yields requests one after the other, in order of arrival, and holds in memory only what the next one needs:
//! system prompts are interned once, everything else is drawn when its request is due (where sessions or tasks interleave, 16 bytes a
//! request say in which order). Every draw is a pure
//! function of seed, purpose and index, so changing one size leaves all other draws alone, and a source restored in the middle
//! goes on as if it had never stopped.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | [`Request`]: what a client asks for, the true output length included |
//! | [`source`] | [`Source`] and the [`Workload`] trait behind it |
//! | [`mod@survey`] | totals and the reuse ceiling of a source |
//! | [`estimate`] | mean sizes of a workload, for rates given as a multiple of capacity |
//! | `population` | interned beginnings (system prompts, documents) and prompts that grow from them |
//! | [`trace`] | recorded traffic: readers of its formats, and the traces that are open |
//! | `text` | readable synthetic text |

pub mod estimate;
mod population;
pub mod request;
pub mod source;
pub mod survey;
mod text;
pub mod trace;

pub use estimate::{MeanRequest, mean_request};
pub use request::Request;
pub use source::{Source, Workload};
pub use survey::{Survey, survey, survey_telling};
