//! Permissions in buckets and below prefixes of names, and the record that has those of a token.
//!
//! ```text
//! key     number of the token (8, big-endian)
//! value   1, then for each grant: permissions (1), length of the prefix (2, big-endian), prefix
//! ```

use zerohop_base::bytes::Reader;
use zerohop_wire::Permission;

/// The first byte of a record.
const FORMAT: u8 = 1;

/// The most bytes of a prefix: a bucket, `/` and the name of an object.
const PREFIX_BYTES_MAX: usize = 63 + 1 + 1024;

/// The permissions in all objects whose `BUCKET/NAME` begins with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `BUCKET/` and the beginning of names; empty: all buckets.
    pub prefix: String,
    /// The [`Permission`]s, one bit for each.
    pub permissions: u8,
}

/// Why a text is no grant, or bytes are no record of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantError {
    /// The prefix has no bucket, or is too long.
    Prefix,
    /// No permission is set, or an unknown one.
    Permissions,
    /// The bytes are none of this format.
    Format,
}

/// The key of the record of the grants of a token.
#[must_use]
pub fn grants_key(token: u64) -> [u8; 8] {
    token.to_be_bytes()
}

impl Grant {
    /// The grant for a bucket, `BUCKET`, or for the names with a prefix in it, `BUCKET/PREFIX`.
    ///
    /// # Errors
    /// There is no bucket, the prefix is too long, or `permissions` are none.
    pub fn new(place: &str, permissions: u8) -> Result<Self, GrantError> {
        let prefix = if place.contains('/') { place.to_owned() } else { format!("{place}/") };
        let grant = Self { prefix, permissions };
        grant.check().map(|()| grant)
    }

    /// Whether it has a permission.
    #[must_use]
    pub fn has(&self, permission: Permission) -> bool {
        self.permissions & permission.number() != 0
    }

    fn check(&self) -> Result<(), GrantError> {
        let known = Permission::ALL.iter().fold(0, |bits, one| bits | one.number());
        if self.permissions == 0 || self.permissions & !known != 0 {
            return Err(GrantError::Permissions);
        }
        let has_bucket = self.prefix.split_once('/').is_some_and(|(bucket, _)| !bucket.is_empty());
        if !has_bucket || self.prefix.len() > PREFIX_BYTES_MAX { Err(GrantError::Prefix) } else { Ok(()) }
    }

    /// The record of these grants.
    #[must_use]
    pub fn encode(grants: &[Self]) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        for grant in grants {
            bytes.push(grant.permissions);
            let length = u16::try_from(grant.prefix.len()).expect("a prefix has at most 1088 bytes");
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(grant.prefix.as_bytes());
        }
        bytes
    }

    /// The grants of a record.
    ///
    /// # Errors
    /// The bytes are none that [`Grant::encode`] returns.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>, GrantError> {
        let mut reader = Reader::new(bytes);
        if reader.u8() != Some(FORMAT) {
            return Err(GrantError::Format);
        }
        let mut grants = Vec::new();
        while !reader.is_at_end() {
            let permissions = reader.u8().ok_or(GrantError::Format)?;
            let length = u16::from_be_bytes(reader.array().ok_or(GrantError::Format)?);
            let prefix = reader.bytes(usize::from(length)).ok_or(GrantError::Format)?;
            let prefix = std::str::from_utf8(prefix).map_err(|_| GrantError::Format)?.to_owned();
            let grant = Self { prefix, permissions };
            grant.check()?;
            grants.push(grant);
        }
        Ok(grants)
    }
}

impl std::fmt::Display for GrantError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Prefix => "write BUCKET or BUCKET/PREFIX, of at most 1088 bytes",
            Self::Permissions => "the permissions are none, or unknown",
            Self::Format => "the record of the grants is corrupt",
        })
    }
}

impl std::error::Error for GrantError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_grants_is_read_back_and_nonsense_is_refused() {
        let grants = [Grant::new("pictures", 3).unwrap(), Grant::new("logs/2026", 1).unwrap()];
        assert_eq!(grants[0].prefix, "pictures/");
        let bytes = Grant::encode(&grants);
        assert_eq!(Grant::decode(&bytes).unwrap(), grants);
        for length in [0, 2, 3, 5, bytes.len() - 1] {
            assert_eq!(Grant::decode(&bytes[..length]), Err(GrantError::Format), "{length}");
        }
        // A record that cannot be read grants nothing, and above all not all buckets.
        assert_eq!(Grant::decode(&[1, 7, 0, 0]), Err(GrantError::Prefix));
        assert_eq!(Grant::decode(&[1, 8, 0, 2, b'b', b'/']), Err(GrantError::Permissions));
        assert_eq!(Grant::decode(&[2, 7, 0, 2, b'b', b'/']), Err(GrantError::Format));
        assert_eq!(Grant::new("/x", 1), Err(GrantError::Prefix));
        assert_eq!(Grant::new("", 1), Err(GrantError::Prefix));
        assert_eq!(Grant::new("b", 0), Err(GrantError::Permissions));
    }
}
