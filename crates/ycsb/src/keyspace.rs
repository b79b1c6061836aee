//! The store of zerohop: a keyspace of the client. Clones share its connections.

use bytes::Bytes;
use zerohop_client::{Error, Keyspace};

use super::store::{ScannedRecords, YcsbStore};

impl YcsbStore for Keyspace {
    type Value = Bytes;
    type Error = Error;

    async fn insert(&mut self, key: &str, value: &[u8]) -> Result<(), Error> {
        Keyspace::insert(self, key, value).await?;
        Ok(())
    }

    async fn read(&mut self, key: &str) -> Result<Option<Bytes>, Error> {
        self.lookup_bytes(key).await
    }

    async fn update(&mut self, key: &str, value: &[u8]) -> Result<(), Error> {
        Keyspace::insert(self, key, value).await?;
        Ok(())
    }

    async fn scan(&mut self, from: &str, end: &str, count: u64) -> Result<ScannedRecords<Bytes>, Error> {
        let mut pages = self.scan_range(from..end).values().limit(count).page_keys(count as u32);
        let mut records = Vec::new();
        while let Some(page) = pages.next_page().await? {
            records.extend(page.into_iter().map(|one| (one.key.into(), one.value)));
        }
        Ok(records)
    }

    async fn remove(&mut self, key: &str) -> Result<(), Error> {
        Keyspace::remove(self, key).await?;
        Ok(())
    }
}
