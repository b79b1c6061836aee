//! Every bound of this crate, each with its reason.

/// Units under way, and as many that wait. A connection has one command at a time, of a few parts; more than some hundreds
/// conflict with each other. Further ones are refused, and the instance asks again.
pub(crate) const UNDER_WAY_MAX: usize = 1_024;
