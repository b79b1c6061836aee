//! Tokens in a map, with their permissions. The map does not have their keys: nodes derive them from the secret and the number.

use zerohop_wire::Permission;
use zerohop_wire::ids::KeyspaceId;

use crate::keyspace::KeyspaceName;
use crate::limits::GRANTS_MAX;

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permissions(u8);

/// The permissions of a token in one keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The keyspace; none: all present and future keyspaces.
    pub keyspace: KeyspaceId,
    /// The permissions in it.
    pub permissions: Permissions,
}

/// The expiry of a token. The control group decides by its leader's clock that a token has expired, so that all nodes agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenExpiry {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Whether it has expired: it permits nothing any more, whatever a clock says later.
    pub has_passed: bool,
}

/// A token in the map. A revoked token is not in the map; an expired token is, so that its user gets the right error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// Its number, drawn at random and never reused.
    pub id: u64,
    /// Its name, for people.
    pub name: KeyspaceName,
    /// When it expires; `None`: never.
    pub expiry: Option<TokenExpiry>,
    /// The grants, sorted by keyspace, one for each.
    grants: Vec<Grant>,
}

impl Permissions {
    /// All permissions.
    pub const ALL: Permissions = Permissions(7);

    /// The set of these permissions.
    pub fn of(permissions: impl IntoIterator<Item = Permission>) -> Permissions {
        Permissions(permissions.into_iter().fold(0, |bits, one| bits | one.number()))
    }

    /// Decodes a set from its bits; `None` if no bit or an unknown bit is set.
    pub fn from_bits(bits: u8) -> Option<Permissions> {
        (bits != 0 && bits & !Permissions::ALL.0 == 0).then_some(Permissions(bits))
    }

    /// The bits, one for each permission.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether the set contains a permission.
    pub fn has(self, permission: Permission) -> bool {
        self.0 & permission.number() != 0
    }

    /// Their names, separated by commas.
    pub fn names(self) -> String {
        let names: Vec<&str> =
            Permission::ALL.iter().filter(|one| self.has(**one)).map(|one| one.text()).collect();
        names.join(",")
    }
}

impl TokenEntry {
    /// Creates a token. `None`: it has no permissions, or too many grants, or a keyspace is named twice or without need.
    pub fn new(id: u64, name: KeyspaceName, mut grants: Vec<Grant>) -> Option<TokenEntry> {
        grants.sort_unstable();
        let is_set = |grant: &Grant| Permissions::from_bits(grant.permissions.0).is_some();
        let is_once = grants.windows(2).all(|pair| pair[0].keyspace != pair[1].keyspace);
        let is_valid = (1..=GRANTS_MAX).contains(&grants.len()) && is_once && grants.iter().all(is_set);
        is_valid.then_some(TokenEntry { id, name, expiry: None, grants })
    }

    /// The same token with this time of expiry.
    #[must_use]
    pub fn until(self, at_ms: u64) -> TokenEntry {
        TokenEntry { expiry: Some(TokenExpiry { at_ms, has_passed: false }), ..self }
    }

    /// The same token, expired. A token without expiry is unchanged.
    #[must_use]
    pub fn expired(self) -> TokenEntry {
        let expiry = self.expiry.map(|expiry| TokenExpiry { has_passed: true, ..expiry });
        TokenEntry { expiry, ..self }
    }

    /// Whether the control group has decided that it has expired.
    pub fn has_expired(&self) -> bool {
        self.expiry.is_some_and(|expiry| expiry.has_passed)
    }

    /// Its grants by keyspace; the grant for all keyspaces comes first.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Its permissions in a keyspace; for none: its permissions in all keyspaces.
    pub fn permissions(&self, keyspace: KeyspaceId) -> Permissions {
        let of = |id: KeyspaceId| self.grants.iter().find(|grant| grant.keyspace == id);
        let bits = |id: KeyspaceId| of(id).map_or(0, |grant| grant.permissions.0);
        Permissions(bits(KeyspaceId::NONE) | bits(keyspace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(grants: &[(u32, u8)]) -> Option<TokenEntry> {
        let grants = grants.iter().map(|(keyspace, bits)| Grant {
            keyspace: KeyspaceId(*keyspace),
            permissions: Permissions(*bits),
        });
        TokenEntry::new(7, "robot".parse().unwrap(), grants.collect())
    }

    #[test]
    fn grant_for_all_keyspaces_applies_to_each() {
        let token = entry(&[(3, 2), (0, 1)]).unwrap();
        let of = |keyspace| token.permissions(KeyspaceId(keyspace)).names();
        assert_eq!([of(0), of(3), of(4)], ["read", "read,write", "read"]);
        assert!(token.permissions(KeyspaceId(3)).has(Permission::Write));
        assert!(!token.permissions(KeyspaceId(4)).has(Permission::Write));
    }

    #[test]
    fn token_with_empty_or_duplicate_grants_is_refused() {
        assert!(entry(&[(1, 7), (2, 4)]).is_some());
        for bad in [&[][..], &[(1, 0)], &[(1, 8)], &[(1, 1), (1, 2)]] {
            assert_eq!(entry(bad), None, "{bad:?}");
        }
        let many: Vec<(u32, u8)> = (0..=GRANTS_MAX as u32).map(|keyspace| (keyspace, 1)).collect();
        assert!(entry(&many).is_none() && entry(&many[1..]).is_some());
        assert_eq!(Permissions::of([Permission::Read, Permission::Admin]).names(), "read,admin");
        assert_eq!(Permissions::from_bits(7), Some(Permissions::ALL));
    }
}
