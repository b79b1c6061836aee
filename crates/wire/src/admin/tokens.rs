//! Control requests and replies about tokens.

use prost::Message;

/// Makes a token valid. The client has made the token itself, from the secret and the number: the token itself is never sent.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenPut {
    /// Its number, drawn at random.
    #[prost(fixed64, tag = "1")]
    pub id: u64,
    /// Its name, for people.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its permissions.
    #[prost(message, repeated, tag = "3")]
    pub grants: Vec<TokenGrant>,
}

/// The permissions of a token in a keyspace.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenGrant {
    /// The keyspace's name; empty: all present and future keyspaces.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The [`crate::Permission`]s, one bit for each.
    #[prost(uint32, tag = "2")]
    pub permissions: u32,
}

/// Makes a token valid for a limited time. It is a separate request, so that an older program refuses it instead of ignoring the time.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DelegateToken {
    /// The token.
    #[prost(message, required, tag = "1")]
    pub put: TokenPut,
    /// For how many milliseconds from now, by the clock of the node that receives the request; not 0.
    #[prost(uint64, tag = "2")]
    pub lasts_ms: u64,
}

/// Revokes a token.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenRevoke {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Requests the list of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct TokenList {}

/// The tokens.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Tokens {
    /// By number.
    #[prost(message, repeated, tag = "1")]
    pub tokens: Vec<TokenStatus>,
}

/// A token.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenStatus {
    /// Its number.
    #[prost(fixed64, tag = "1")]
    pub id: u64,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its permissions.
    #[prost(message, repeated, tag = "3")]
    pub grants: Vec<TokenGrant>,
    /// When it expires, in milliseconds since 1970; unset: never.
    #[prost(uint64, optional, tag = "4")]
    pub expires_ms: Option<u64>,
    /// Whether the cluster has decided that it has expired.
    #[prost(bool, tag = "5")]
    pub has_expired: bool,
}
