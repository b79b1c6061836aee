//! What is asked and told about tokens.

use prost::Message;

/// Make a token good. Who asks has made the token itself, of the secret and the number: it never travels.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenPut {
    /// Its number, drawn at random.
    #[prost(fixed64, tag = "1")]
    pub id: u64,
    /// What people call it.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What it permits.
    #[prost(message, repeated, tag = "3")]
    pub grants: Vec<TokenGrant>,
}

/// What a token permits in a keyspace.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenGrant {
    /// The keyspace's name; empty: all that there are and will be.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// [`crate::Permission`]s, a bit for each.
    #[prost(uint32, tag = "2")]
    pub permissions: u32,
}

/// Make a token good for a time. A request of its own, so that an older program refuses it instead of forgetting the time.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenLend {
    /// The token.
    #[prost(message, required, tag = "1")]
    pub put: TokenPut,
    /// For how many milliseconds from now on, by the clock of the node that is asked; not 0.
    #[prost(uint64, tag = "2")]
    pub lasts_ms: u64,
}

/// Make a token good for nothing.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TokenRevoke {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Which tokens are there?
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
    /// What it permits.
    #[prost(message, repeated, tag = "3")]
    pub grants: Vec<TokenGrant>,
    /// When it expires, in milliseconds since 1970; unset: never.
    #[prost(uint64, optional, tag = "4")]
    pub expires_ms: Option<u64>,
    /// Whether it has expired, as the cluster has decided.
    #[prost(bool, tag = "5")]
    pub has_expired: bool,
}
