//! The permissions of tokens in buckets: what an option says, and what a list shows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use zerohop_client::{Client, Keyspace};
use zerohop_object_client::{bucket_name, object_name};
use zerohop_s3::{Grant, grants_key};
use zerohop_wire::Permission;
use zerohop_wire::admin::TokenStatus;

use crate::common::ending::CommandError;
use crate::common::names;
use crate::output;
use crate::s3::keyspaces::{self, OBJECTS};

/// Permissions in a bucket, or in its objects whose names begin with a prefix.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BucketGrantOutput {
    /// The keyspace of the names of objects.
    objects: String,
    bucket: String,
    /// Empty: the complete bucket.
    prefix: String,
    permissions: Vec<&'static str>,
}

impl BucketGrantOutput {
    fn new(objects: &str, grant: &Grant) -> Self {
        let (bucket, prefix) = grant.prefix.split_once('/').unwrap_or((&grant.prefix, ""));
        Self {
            objects: objects.to_owned(),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            permissions: Permission::ALL
                .iter()
                .filter(|one| grant.has(**one))
                .map(|one| one.text())
                .collect(),
        }
    }

    /// The text form, as `bucket pictures/2026/: read`.
    pub(super) fn line(&self) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let place = names::text(format!("{}{slash}{}", self.bucket, self.prefix).as_bytes());
        let keyspace = match self.objects.as_str() {
            OBJECTS => String::new(),
            other => format!(" in {}", names::text(other.as_bytes())),
        };
        format!("bucket {place}{keyspace}: {}", self.permissions.join(","))
    }
}

/// Reads the permissions of tokens in buckets. They are in keyspaces beside those of the names of objects.
pub(super) struct BucketGrants<'a> {
    client: &'a Client,
    /// By the keyspace of the names; `None`: there is none.
    keyspaces: BTreeMap<String, Option<Keyspace>>,
    has_failed: bool,
}

impl<'a> BucketGrants<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client, keyspaces: BTreeMap::new(), has_failed: false }
    }

    /// The permissions of a token. Nothing if they cannot be read: the first time, standard error says why.
    pub(super) async fn of(&mut self, token: &TokenStatus) -> Option<Vec<BucketGrantOutput>> {
        let objects: Vec<String> = token
            .grants
            .iter()
            .filter_map(|grant| keyspaces::names_of_grants(&grant.keyspace).map(str::to_owned))
            .collect();
        if objects.is_empty() {
            return Some(Vec::new());
        }
        if self.has_failed {
            return None;
        }
        match self.read(token.id, objects).await {
            Ok(shown) => Some(shown),
            Err(error) => {
                self.has_failed = true;
                output::problem(&format!("the permissions in buckets cannot be read: {error}"));
                None
            }
        }
    }

    async fn keyspace(&mut self, objects: &str) -> Result<Option<Keyspace>, CommandError> {
        if let Some(known) = self.keyspaces.get(objects) {
            return Ok(known.clone());
        }
        let found = keyspaces::find_grants(self.client, objects).await?;
        self.keyspaces.insert(objects.to_owned(), found.clone());
        Ok(found)
    }

    async fn read(
        &mut self,
        token: u64,
        objects: Vec<String>,
    ) -> Result<Vec<BucketGrantOutput>, CommandError> {
        let mut shown = Vec::new();
        for objects in objects {
            let Some(keyspace) = self.keyspace(&objects).await? else { continue };
            let Some(record) = keyspace.lookup_bytes(&grants_key(token)).await? else { continue };
            let grants = Grant::decode(&record).map_err(|error| CommandError::Refused(error.to_string()))?;
            shown.extend(grants.iter().map(|grant| BucketGrantOutput::new(&objects, grant)));
        }
        Ok(shown)
    }
}

/// Checks that clients of S3 can name BUCKET or BUCKET/PREFIX.
pub(super) fn check_place(place: &str) -> Result<(), String> {
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    bucket_name(bucket).map_err(|error| error.to_string())?;
    if bucket.parse::<IpAddr>().is_ok() || bucket.starts_with("xn--") {
        return Err(
            "clients of S3 can name no bucket like an address, or with xn-- at the beginning".to_owned()
        );
    }
    if !prefix.is_empty() {
        object_name(prefix).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_no_bucket_can_have_are_refused() {
        for place in ["pictures", "pictures/", "pictures/2026/", "pictures/a//b", "a.b-3"] {
            assert_eq!(check_place(place), Ok(()), "{place}");
        }
        let long = format!("pictures/{}", "k".repeat(1025));
        for place in [
            "",
            "/x",
            "ab",
            "Pictures",
            "my_bucket",
            "a..b",
            "-ab",
            "10.0.0.1",
            "xn--abc",
            "pictures/\0",
            &long,
        ] {
            assert!(check_place(place).is_err(), "{place}");
        }
    }

    #[test]
    fn grants_are_shown_with_bucket_and_prefix() {
        let grant = |place, bits| Grant::new(place, bits).unwrap();
        let shown = BucketGrantOutput::new(OBJECTS, &grant("pictures", 3));
        assert_eq!((shown.line().as_str(), shown.prefix.as_str()), ("bucket pictures: read,write", ""));
        let shown = BucketGrantOutput::new("other", &grant("logs/a\t/b", 1));
        assert_eq!((shown.bucket.as_str(), shown.prefix.as_str()), ("logs", "a\t/b"));
        assert!(shown.line().starts_with("bucket logs/a") && shown.line().ends_with(" in other: read"));
        assert!(!shown.line().contains('\t'));
    }
}
