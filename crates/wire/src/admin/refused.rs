//! Refusals of control requests, as a code and in words.

use prost::Message;

/// The reason why a request was not done, or not answered with a result. Nothing was changed, unless [`leaves_outcome_open`] is
/// true of the code.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AdminRefusal {
    /// For programs: one of the `REFUSED_` constants.
    #[prost(string, tag = "1")]
    pub code: String,
    /// For people: what happened and what the user can do.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// With [`REFUSED_DROPPING`], the id of the keyspace: a repeated request names it, because its name may belong to another keyspace by then. 0:
    /// none.
    #[prost(uint32, tag = "3")]
    pub keyspace: u32,
}

/// [`AdminRefusal::code`]: the request could not be understood, or comes from a newer program.
pub const REFUSED_REQUEST: &str = "bad-request";
/// [`AdminRefusal::code`]: there is no such keyspace.
pub const REFUSED_UNKNOWN: &str = "unknown-keyspace";
/// [`AdminRefusal::code`]: there is no such node.
pub const REFUSED_UNKNOWN_NODE: &str = "unknown-node";
/// [`AdminRefusal::code`]: there is no such token.
pub const REFUSED_UNKNOWN_TOKEN: &str = "unknown-token";
/// [`AdminRefusal::code`]: the token of the connection does not permit it.
pub const REFUSED_FORBIDDEN: &str = "forbidden";
/// [`AdminRefusal::code`]: there is a keyspace of this name.
pub const REFUSED_EXISTS: &str = "keyspace-exists";
/// [`AdminRefusal::code`]: the keyspace is being dropped and still has pending work; the client can repeat the request to wait for it.
pub const REFUSED_DROPPING: &str = "being-dropped";
/// [`AdminRefusal::code`]: a setting is wrong or cannot be changed.
pub const REFUSED_SETTING: &str = "bad-setting";
/// [`AdminRefusal::code`]: there is no such partition.
pub const REFUSED_UNKNOWN_PARTITION: &str = "unknown-partition";
/// [`AdminRefusal::code`]: the control group has refused the request; the reason says why.
pub const REFUSED_DECIDED: &str = "refused";
/// [`AdminRefusal::code`]: the node could not execute the request at the moment; the reason says why.
pub const REFUSED_FAILED: &str = "failed";
/// [`AdminRefusal::code`]: the control group has not decided the request in time, and may still do so: its outcome is unknown.
pub const REFUSED_UNDECIDED: &str = "undecided";
/// [`AdminRefusal::code`]: the control group no longer knows whether it has decided an earlier copy of the request: its outcome is unknown.
pub const REFUSED_FORGOTTEN: &str = "forgotten";
/// [`AdminRefusal::code`]: the change is made, but not every instance of the node has followed it.
pub const REFUSED_UNFOLLOWED: &str = "unfollowed";

/// Whether a refusal with this code leaves open whether something was changed.
#[must_use]
pub fn leaves_outcome_open(code: &str) -> bool {
    matches!(code, REFUSED_UNDECIDED | REFUSED_FORGOTTEN | REFUSED_UNFOLLOWED)
}
