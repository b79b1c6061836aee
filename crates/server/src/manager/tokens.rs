//! Control requests about tokens, and the control requests that a token permits.

use zerohop_placement::{ClusterMap, Grant, KeyspaceName, MapChange, Permissions, TokenEntry};
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminReply, DelegateToken, REFUSED_FORBIDDEN, REFUSED_SETTING,
    REFUSED_UNKNOWN, REFUSED_UNKNOWN_TOKEN, TokenGrant, TokenPut, TokenRevoke, TokenStatus, Tokens,
};
use zerohop_wire::auth::Access;
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::{Failure, Permission};

use crate::access::permits;

/// Checks whether this access permits this control request.
pub(super) fn check_access(
    map: &ClusterMap,
    access: Access,
    query: &AdminQuestion,
) -> Result<(), AdminAnswer> {
    let named = |name: &str| map.keyspace_named(name).map_or(KeyspaceId::NONE, |(id, _)| id);
    let permitted = match query {
        // Every authenticated client may read the state of the cluster.
        AdminQuestion::Status(_) | AdminQuestion::ListPartitions(_) => {
            let any = Permission::ALL.iter().any(|one| {
                map.keyspaces().any(|(id, _)| permits(map, access, id, *one).is_ok())
                    || permits(map, access, KeyspaceId::NONE, *one).is_ok()
            });
            if any { Ok(()) } else { permits(map, access, KeyspaceId::NONE, Permission::Read) }
        }
        AdminQuestion::AlterKeyspace(settings) => {
            permits(map, access, named(&settings.name), Permission::Admin)
        }
        AdminQuestion::SplitRegion(split) => permits(map, access, named(&split.keyspace), Permission::Admin),
        AdminQuestion::DropKeyspace(dropped) => permits(map, access, named(&dropped.name), Permission::Admin),
        AdminQuestion::AcknowledgeLosses(one) => {
            permits(map, access, named(&one.keyspace), Permission::Admin)
        }
        // All other requests concern the entire cluster.
        _ => permits(map, access, KeyspaceId::NONE, Permission::Admin),
    };
    permitted.map_err(|failure: Failure<'_>| AdminAnswer::refused(REFUSED_FORBIDDEN, lacking(map, &failure)))
}

/// The missing permission, with the name of the keyspace in place of the failure's id.
fn lacking(map: &ClusterMap, failure: &Failure<'_>) -> String {
    let Failure::Forbidden { permission, keyspace } = failure else { return failure.to_string() };
    match map.keyspace(*keyspace) {
        Some(found) => format!(
            "the token does not permit this: it needs `{permission}` in keyspace \"{}\"; ask the cluster's administrator for one \
             that has it",
            found.config().name
        ),
        None => failure.to_string(),
    }
}

/// The change of the map for a request about tokens at this time, in milliseconds since 1970; `None`: the request is not about tokens.
pub(super) fn change(
    map: &ClusterMap,
    query: &AdminQuestion,
    unix_ms: u64,
) -> Option<Result<MapChange, AdminAnswer>> {
    match query {
        AdminQuestion::PutToken(request) => Some(put(map, request).map(MapChange::PutToken)),
        AdminQuestion::LendToken(DelegateToken { put: request, lasts_ms }) => {
            let at_ms = unix_ms.checked_add(*lasts_ms).filter(|at_ms| *at_ms > unix_ms);
            let wrong = || {
                let most = u64::MAX - unix_ms;
                let reason = format!(
                    "a token cannot be valid for {lasts_ms} ms: give a time above 0 and up to {most} ms, as in 12h or 30d"
                );
                AdminAnswer::refused(REFUSED_SETTING, reason)
            };
            Some(
                at_ms
                    .ok_or_else(wrong)
                    .and_then(|at_ms| Ok(MapChange::PutToken(put(map, request)?.until(at_ms)))),
            )
        }
        AdminQuestion::RevokeToken(TokenRevoke { name }) => {
            let found = map.tokens().find(|token| token.name.as_str() == name);
            Some(found.map(|token| MapChange::RemoveToken(token.id)).ok_or_else(|| {
                let named = quoted(name.as_bytes());
                let reason = format!("there is no token {named}: `zerohop token list` lists all tokens");
                AdminAnswer::refused(REFUSED_UNKNOWN_TOKEN, reason)
            }))
        }
        _ => None,
    }
}

fn put(map: &ClusterMap, request: &TokenPut) -> Result<TokenEntry, AdminAnswer> {
    let wrong = |reason: String| AdminAnswer::refused(REFUSED_SETTING, reason);
    let name = request.name.parse::<KeyspaceName>().map_err(|error| wrong(error.about("token")))?;
    let mut grants = Vec::new();
    for TokenGrant { keyspace, permissions } in &request.grants {
        let id = match keyspace.as_str() {
            "" => KeyspaceId::NONE,
            name => map.keyspace_named(name).map(|(id, _)| id).ok_or_else(|| {
                AdminAnswer::refused(
                    REFUSED_UNKNOWN,
                    format!("there is no keyspace {}", quoted(name.as_bytes())),
                )
            })?,
        };
        let bits = u8::try_from(*permissions).ok().and_then(Permissions::from_bits);
        let permissions = bits.ok_or_else(|| wrong(format!("{permissions} is no set of permissions")))?;
        grants.push(Grant { keyspace: id, permissions });
    }
    let token = TokenEntry::new(request.id, name, grants);
    let no_token = || wrong("a token permits something, and says it once for each keyspace".to_owned());
    token.ok_or_else(no_token)
}

/// The tokens that have just expired, in their new state.
pub(super) fn expired(map: &ClusterMap, unix_ms: u64) -> Vec<MapChange> {
    let due: Vec<u64> = map.expiring().filter(|(_, at_ms)| *at_ms <= unix_ms).map(|(id, _)| id).collect();
    let tokens = map.tokens().filter(|token| due.contains(&token.id));
    tokens.map(|token| MapChange::PutToken(token.clone().expired())).collect()
}

/// All tokens.
pub(super) fn list(map: &ClusterMap) -> AdminAnswer {
    let shown = |token: &TokenEntry| TokenStatus {
        id: token.id,
        name: token.name.to_string(),
        grants: token.grants().iter().filter_map(|grant| granted(map, grant)).collect(),
        expires_ms: token.expiry.map(|expiry| expiry.at_ms),
        has_expired: token.has_expired(),
    };
    AdminAnswer::of(AdminReply::Tokens(Tokens { tokens: map.tokens().map(shown).collect() }))
}

/// `None`: the keyspace is gone.
fn granted(map: &ClusterMap, grant: &Grant) -> Option<TokenGrant> {
    let keyspace = match grant.keyspace {
        KeyspaceId::NONE => String::new(),
        id => map.keyspace(id)?.config().name.to_string(),
    };
    Some(TokenGrant { keyspace, permissions: u32::from(grant.permissions.bits()) })
}
