//! Going through the keys of a keyspace, partition after partition, page by page.

use bytes::Bytes;
use zerohop_session::{ListedKey, Reply, Request};
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;

use crate::error::Error;
use crate::keyspace::Keyspace;

/// A scan. A key that is there all the while comes exactly once.
#[derive(Debug)]
pub struct Scan<'a> {
    keyspace: &'a Keyspace,
    prefix: Bytes,
    page_keys: u32,
    partition: u32,
    cursor: Bytes,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(keyspace: &'a Keyspace, prefix: Bytes) -> Self {
        Self { keyspace, prefix, page_keys: SCAN_PAGE_KEYS_MAX, partition: 0, cursor: Bytes::new() }
    }

    /// Asks for at most so many keys at once, 1 to 4,096.
    #[must_use]
    pub fn page_keys(mut self, keys: u32) -> Self {
        self.page_keys = keys.clamp(1, SCAN_PAGE_KEYS_MAX);
        self
    }

    /// The next keys; `None` at the end. After an error the same page can be asked for again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ListedKey>>, Error> {
        while self.partition < self.keyspace.config().partitions.get() {
            let (cursor, prefix) = (self.cursor.clone(), self.prefix.clone());
            let (id, partition) = (self.keyspace.id(), PartitionId(self.partition));
            let client = self.keyspace.client();
            let request = Request::scan(id, partition, cursor, prefix, self.page_keys, client.limit_us());
            let Reply::Page { next, keys } = client.ask(request).await? else {
                return Err(Error::Unexpected);
            };
            self.partition += u32::from(next.is_empty());
            self.cursor = next;
            if !keys.is_empty() {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }
}
