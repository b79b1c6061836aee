//! Where objects are, and the arguments that name them.

use std::fmt;

use clap::Args;
use serde::Serialize;
use zerohop_client::{Client, Keyspace, Reason};
use zerohop_object_client::{ClusterStore, ObjectClient, bucket_name, object_name};

use crate::common::ending::CommandError;
use crate::common::names;
use crate::common::target::ClusterTarget;
use crate::s3::keyspaces;

/// What an address may begin with.
const SCHEME: &str = "s3://";

/// Where the objects are, and how the answer is printed.
#[derive(Args, Clone, Debug)]
pub(crate) struct ObjectPlace {
    /// The ordered keyspace with the names of the objects. Their bytes are in the keyspace of this name and `-bodies`.
    #[arg(short, long, value_name = "NAME", default_value = "objects")]
    keyspace: String,
    #[command(flatten)]
    pub(super) target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl ObjectPlace {
    /// Connects to the objects of the cluster.
    pub(super) async fn open(&self) -> Result<ObjectClient<ClusterStore>, CommandError> {
        let client = self.target.connect().await?;
        let names = self.existing(&client, &self.keyspace).await?;
        let bodies = self.existing(&client, &keyspaces::bodies_of(&self.keyspace)).await?;
        Ok(ObjectClient::new(ClusterStore::new(&client, names, bodies)))
    }

    /// One of the two keyspaces. A keyspace that a user creates by hand would not fit, so the error names the command that creates both.
    async fn existing(&self, client: &Client, name: &str) -> Result<Keyspace, CommandError> {
        client.keyspace(name).await.map_err(|error| match error.reason() {
            Some(Reason::NoKeyspace { .. }) => CommandError::RefusedAs {
                word: "no_keyspace",
                reason: format!(
                    "the cluster has no objects yet, as it has no keyspace {}: `zerohop object mb BUCKET` creates a bucket, and what it needs",
                    names::quoted(name.as_bytes())
                ),
            },
            _ => error.into(),
        })
    }

    /// The same; keyspaces that do not exist are created.
    pub(super) async fn open_or_create(&self) -> Result<ObjectClient<ClusterStore>, CommandError> {
        let client = self.target.connect().await?;
        let (names, bodies) = keyspaces::open(&client, &self.keyspace).await?;
        Ok(ObjectClient::new(ClusterStore::new(&client, names, bodies)))
    }
}

/// A bucket, and the name of an object or a prefix of names in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectAddress {
    pub(super) bucket: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
}

impl fmt::Display for ObjectAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}/{name}", self.bucket),
            None => f.write_str(&self.bucket),
        }
    }
}

impl ObjectAddress {
    /// Reads `BUCKET`, `BUCKET/NAME`, or the same behind `s3://`.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(SCHEME).unwrap_or(text);
        let (bucket, name) = text.split_once('/').map_or((text, None), |(bucket, name)| (bucket, Some(name)));
        let bucket = bucket_name(bucket).map_err(|error| error.to_string())?;
        let name = name.filter(|name| !name.is_empty());
        name.map_or(Ok(Vec::new()), object_name).map_err(|error| error.to_string())?;
        Ok(Self { bucket, name: name.map(str::to_owned) })
    }

    /// The bucket and the name of an object.
    pub(super) fn object(&self) -> (String, Vec<u8>) {
        (self.bucket.clone(), self.name.clone().unwrap_or_default().into_bytes())
    }
}

/// Reads the address of a bucket.
pub(super) fn bucket(text: &str) -> Result<ObjectAddress, String> {
    match ObjectAddress::parse(text)? {
        ObjectAddress { name: Some(_), .. } => Err("a bucket is named alone, without a `/`".to_owned()),
        address => Ok(address),
    }
}

/// Reads the address of an object.
pub(super) fn object(text: &str) -> Result<ObjectAddress, String> {
    match ObjectAddress::parse(text)? {
        ObjectAddress { name: None, .. } => Err("an object is named as BUCKET/NAME".to_owned()),
        address => Ok(address),
    }
}

/// Reads the address of a bucket, or of the names in it that begin with a prefix.
pub(super) fn prefix(text: &str) -> Result<ObjectAddress, String> {
    ObjectAddress::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_buckets_and_objects() {
        let shown = |text| object(text).map(|address| (address.bucket, address.name.unwrap()));
        assert_eq!(shown("s3://papers/2026/a b"), Ok(("papers".to_owned(), "2026/a b".to_owned())));
        assert_eq!(shown("papers//a"), Ok(("papers".to_owned(), "/a".to_owned())));
        assert_eq!(bucket("papers/").map(|address| address.to_string()), Ok("papers".to_owned()));
        assert!(bucket("papers/a").is_err() && object("papers").is_err() && object("papers/").is_err());
        assert!(prefix("PAPERS").unwrap_err().contains("lower-case"));
        assert!(object(&format!("papers/{}", "x".repeat(1025))).is_err());
    }
}
