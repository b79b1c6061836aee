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
}
