//! The keyspaces of the gateway: opened, or created.

use zerohop_client::{Client, Keyspace, Reason};
use zerohop_object_client::new_keyspace;
pub(crate) use zerohop_object_client::{OBJECTS, bodies_of};
use zerohop_placement::KeyOrder;

use crate::common::admin;
use crate::common::ending::{CommandError, EXISTS};

/// The name of the keyspace with the grants of tokens in buckets, beside that of the names of objects.
pub(crate) fn grants_of(names: &str) -> String {
    format!("{names}-grants")
}

/// The keyspace of the names of objects, if this is the name of one with grants.
pub(crate) fn names_of_grants(grants: &str) -> Option<&str> {
    grants.strip_suffix("-grants").filter(|names| !names.is_empty())
}

/// The keyspace with the grants of tokens in buckets, if there is one.
pub(crate) async fn find_grants(client: &Client, names: &str) -> Result<Option<Keyspace>, CommandError> {
    match client.keyspace(&grants_of(names)).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The keyspace with the grants of tokens in buckets.
pub(crate) async fn open_grants(client: &Client, names: &str) -> Result<Keyspace, CommandError> {
    open_one(client, &grants_of(names), true).await
}

/// The keyspace of the names, which is ordered, and that of the bodies.
pub(crate) async fn open(client: &Client, names: &str) -> Result<(Keyspace, Keyspace), CommandError> {
    let ordered = open_one(client, names, true).await?;
    if ordered.config().order != KeyOrder::Ordered {
        return Err(CommandError::Refused(format!(
            "keyspace {names} is not ordered, so it cannot list objects: name another one with --keyspace"
        )));
    }
    Ok((ordered, open_one(client, &bodies_of(names), false).await?))
}

async fn open_one(client: &Client, name: &str, is_ordered: bool) -> Result<Keyspace, CommandError> {
    match client.keyspace(name).await {
        Err(error) if is_absent(&error) => {}
        found => return Ok(found?),
    }
    let [on_disk, in_memory] = new_keyspace(name, is_ordered);
    let mut created = admin::create(client, on_disk).await;
    if let Err(CommandError::Refused(_)) = &created {
        created = admin::create(client, in_memory).await;
    }
    match created {
        // Another gateway was first.
        Ok(_) | Err(CommandError::RefusedAs { word: EXISTS, .. }) => Ok(client.keyspace(name).await?),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &zerohop_client::Error) -> bool {
    matches!(error.reason(), Some(Reason::NoKeyspace { .. }))
}
