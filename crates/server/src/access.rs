//! Permissions of connections: everything, or what the map grants to its token. Each request looks up the token in the map, so that a revoked or
//! expired token is useless from the next change of the map on. For a connection that may do everything there is no lookup.

use zerohop_placement::ClusterMap;
use zerohop_transaction::codec::decode_parts;
use zerohop_transaction::{ItemBody, Items};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::{RecordOperation, RecordRead, RecordWrite, Transact};
use zerohop_wire::{Elements, Failure, Message, Permission};

/// Checks a permission in a keyspace; for no keyspace: in all of them.
///
/// # Errors
/// The permission is missing, or the token is no longer valid.
pub fn permits(
    map: &ClusterMap,
    access: Access,
    keyspace: KeyspaceId,
    permission: Permission,
) -> Result<(), Failure<'static>> {
    let Access::Token(id) = access else { return Ok(()) };
    match map.token(id) {
        Ok(token) if token.permissions(keyspace).has(permission) => Ok(()),
        Ok(_) => Err(Failure::Forbidden { permission, keyspace }),
        Err(fault) => Err(Failure::AuthFailed { fault }),
    }
}

/// Checks whether a request about records is permitted. Requests about the connection and the map need only a valid token. The manager checks
/// control requests.
///
/// # Errors
/// As [`permits`].
pub(crate) fn permits_request(
    map: &ClusterMap,
    access: Access,
    keyspace: KeyspaceId,
    message: &Message<'_>,
) -> Result<(), Failure<'static>> {
    let Access::Token(id) = access else { return Ok(()) };
    let may = |permission| permits(map, access, keyspace, permission);
    let may_read = |read: &RecordRead<'_>| read.query.needs().iter().try_for_each(|need| may(*need));
    let may_write = |write: &RecordWrite<'_>| write.change.needs().iter().try_for_each(|need| may(*need));
    match message {
        Message::Read { read, .. } => may_read(read),
        Message::Scan(_)
        | Message::Chunks(_)
        | Message::Changes(_)
        | Message::Compare(_)
        | Message::Snapshot(_) => may(Permission::Read),
        Message::Write { write, .. } => may_write(write),
        Message::Batch(batch) => batch.operations.iter().try_for_each(|operation| match operation {
            RecordOperation::Read(read) => may_read(&read),
            RecordOperation::Write(write) => may_write(&write),
        }),
        Message::Hello(_)
        | Message::Prove(_)
        | Message::Ping(_)
        | Message::SessionOpen(_)
        | Message::MapGet(_)
        | Message::Admin(_) => map.token(id).map(|_| ()).map_err(|fault| Failure::AuthFailed { fault }),
        Message::Stage(_) => may(Permission::Write),
        Message::Transact(transact) => permits_transaction(map, access, transact),
        // Kinds that are added later must be considered first.
        _ => may(Permission::Admin),
    }
}

/// Checks the permission of each item. Only the partition knows the kind of a staged item: it needs both permissions.
fn permits_transaction(
    map: &ClusterMap,
    access: Access,
    transact: &Transact<'_>,
) -> Result<(), Failure<'static>> {
    // The executing partition refuses invalid parts, whatever the permissions.
    let Ok(parts) = decode_parts(transact.parts) else { return Ok(()) };
    for part in &parts {
        let keyspace = part.routing_key.keyspace;
        let may = |permission| permits(map, access, keyspace, permission);
        let both = || may(Permission::Write).and_then(|()| may(Permission::Read));
        let Items::Inline(items) = &part.items else {
            both()?;
            continue;
        };
        for item in items {
            let ItemBody::Inline(bytes) = &item.body else {
                both()?;
                continue;
            };
            let operation =
                Elements::<RecordOperation<'_>>::packed(1, bytes).ok().and_then(|one| one.iter().next());
            match operation {
                Some(RecordOperation::Read(read)) => {
                    read.query.needs().iter().try_for_each(|need| may(*need))?;
                }
                Some(RecordOperation::Write(write)) => {
                    write.change.needs().iter().try_for_each(|need| may(*need))?;
                }
                None => both()?,
            }
            // The outcome of the transaction reveals the version of the record.
            if item.seen.is_some() {
                may(Permission::Read)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{Grant, MapChange, MapDelta, Permissions, TokenEntry};
    use zerohop_wire::AuthFault;
    use zerohop_wire::ids::{MapEpoch, Timestamp};
    use zerohop_wire::messages::{
        CompareSwap, Condition, Expiry, Insert, OperationBatch, Ping, Query, Scan, Stamp, WriteChange,
    };

    use super::*;

    const ROBOT: Access = Access::Token(7);
    const READABLE: KeyspaceId = KeyspaceId(1);
    const WRITABLE: KeyspaceId = KeyspaceId(2);

    fn map() -> ClusterMap {
        let grant = |keyspace, permission| Grant { keyspace, permissions: Permissions::of([permission]) };
        let grants = vec![grant(READABLE, Permission::Read), grant(WRITABLE, Permission::Write)];
        let token = TokenEntry::new(7, "robot".parse().unwrap(), grants.clone()).unwrap();
        let lent = TokenEntry::new(9, "lent".parse().unwrap(), grants).unwrap().until(1).expired();
        let changes = vec![MapChange::PutToken(token), MapChange::PutToken(lent)];
        ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes }).unwrap()
    }

    fn forbidden(keyspace: KeyspaceId, permission: Permission) -> Result<(), Failure<'static>> {
        Err(Failure::Forbidden { permission, keyspace })
    }

    #[test]
    fn request_needs_permission_for_its_operation() {
        let map = map();
        let read = RecordRead { key: b"k", query: Query::Lookup };
        let insert = WriteChange::Insert(Insert { value: b"v", expiry: Expiry::Never });
        let write = RecordWrite { key: b"k", condition: Condition::Always, change: insert };
        let lookup = Message::Read { seen: Timestamp::ZERO, read };
        let scan = Message::Scan(Scan {
            seen: Timestamp::ZERO,
            cursor: b"",
            range: Default::default(),
            prefix: b"",
            keys_max: 1,
            blobs: false,
        });
        let insert = Message::Write { stamp: Stamp::default(), write };
        let (reads, writes) = ([RecordOperation::Read(read)], [RecordOperation::Write(write)]);
        let both = [reads[0], writes[0]];
        let batch = |operations| {
            Message::Batch(OperationBatch {
                stamp: Stamp::default(),
                operations: Elements::from_slice(operations),
            })
        };
        let is_permitted =
            |access, keyspace, message: &Message<'_>| permits_request(&map, access, keyspace, message);
        for message in [&lookup, &scan, &batch(&reads)] {
            assert_eq!(is_permitted(ROBOT, READABLE, message), Ok(()));
            assert_eq!(is_permitted(ROBOT, WRITABLE, message), forbidden(WRITABLE, Permission::Read));
        }
        for message in [&insert, &batch(&writes)] {
            assert_eq!(is_permitted(ROBOT, WRITABLE, message), Ok(()));
            assert_eq!(is_permitted(ROBOT, READABLE, message), forbidden(READABLE, Permission::Write));
        }
        let swap = WriteChange::CompareSwap(CompareSwap { expected: None, new: None });
        let swap = Message::Write { stamp: Stamp::default(), write: RecordWrite { change: swap, ..write } };
        assert_eq!(is_permitted(ROBOT, WRITABLE, &swap), forbidden(WRITABLE, Permission::Read));
        assert_eq!(is_permitted(ROBOT, READABLE, &swap), forbidden(READABLE, Permission::Write));
        assert_eq!(is_permitted(ROBOT, READABLE, &batch(&both)), forbidden(READABLE, Permission::Write));
        assert_eq!(is_permitted(ROBOT, WRITABLE, &batch(&both)), forbidden(WRITABLE, Permission::Read));
        let ping = Message::Ping(Ping::default());
        assert_eq!(is_permitted(ROBOT, KeyspaceId::NONE, &ping), Ok(()));
        let revoked = Err(Failure::AuthFailed { fault: AuthFault::Token });
        let expired = Err(Failure::AuthFailed { fault: AuthFault::TokenExpired });
        for message in [&lookup, &insert, &batch(&both), &ping] {
            assert_eq!(is_permitted(Access::All, READABLE, message), Ok(()));
            assert_eq!(is_permitted(Access::Token(8), READABLE, message), revoked);
            assert_eq!(is_permitted(Access::Token(9), READABLE, message), expired);
        }
    }
}
