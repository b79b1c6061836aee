//! The keyspaces of the gateway: opened, or created.

use zerohop_client::{Client, Keyspace, Reason};
use zerohop_placement::KeyOrder;
use zerohop_wire::admin::KeyspaceSettings;

use crate::common::admin;
use crate::common::ending::{CommandError, EXISTS};

/// A write is on the disk when it is acknowledged: a name must not survive its bytes.
const DURABILITY: &str = "sync";

/// The name of the keyspace with the bodies of objects, beside that of their names.
pub(crate) fn bodies_of(names: &str) -> String {
    format!("{names}-bodies")
}

/// The name of the keyspace with the grants of tokens in buckets, beside that of the names of objects.
pub(crate) fn grants_of(names: &str) -> String {
    format!("{names}-grants")
}

/// The keyspace with the grants of tokens in buckets.
pub(crate) async fn open_grants(client: &Client, names: &str) -> Result<Keyspace, CommandError> {
    open_one(client, &grants_of(names), Some(KeyOrder::ORDERED)).await
}

/// The keyspace of the names, which is ordered, and that of the bodies.
pub(crate) async fn open(client: &Client, names: &str) -> Result<(Keyspace, Keyspace), CommandError> {
    let ordered = open_one(client, names, Some(KeyOrder::ORDERED)).await?;
    if ordered.config().order != KeyOrder::Ordered {
        return Err(CommandError::Refused(format!(
            "keyspace {names} is not ordered, so it cannot list objects: name another one with --keyspace"
        )));
    }
    Ok((ordered, open_one(client, &bodies_of(names), None).await?))
}

async fn open_one(client: &Client, name: &str, order: Option<&str>) -> Result<Keyspace, CommandError> {
    match client.keyspace(name).await {
        Err(error) if is_absent(&error) => {}
        found => return Ok(found?),
    }
    let settings = |durability: Option<&str>| KeyspaceSettings {
        name: name.to_owned(),
        hash: order.map(str::to_owned),
        durability: durability.map(str::to_owned),
        ..KeyspaceSettings::default()
    };
    let mut created = admin::create(client, settings(Some(DURABILITY))).await;
    // Nodes without a disk have no such durability.
    if let Err(CommandError::Refused(_)) = &created {
        created = admin::create(client, settings(None)).await;
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
