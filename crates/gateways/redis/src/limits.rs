//! Every bound of this crate, each with its reason.

/// Units under way, and as many that wait: a connection has one at a time, and beyond some hundreds they are in each other's
/// way. More are refused, and asked again.
pub(crate) const UNDER_WAY_MAX: usize = 1_024;

/// Records that are fetched at a time for one unit.
pub(crate) const FETCHES_MAX: usize = 256;
