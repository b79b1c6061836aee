//! Keyspaces of a cluster: opening, and consistent reads of several records.

use crate::{CompositeItem, Reply, SessionError as Reason, SessionRequest};
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};

use super::cluster_handle::ClusterHandle;
use super::error::Error;
use super::keyspace::Keyspace;
use super::operation::{Record, record};

impl ClusterHandle {
    /// Opens a keyspace by its name. Errors: the newest map has no keyspace of this name.
    pub async fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        match self.send_request(SessionRequest::keyspace(name, self.newest_epoch(), self.limit_us())).await? {
            Reply::Keyspace(found) => Ok(Keyspace::new(self.clone(), *found)),
            _ => Err(Error::Unexpected),
        }
    }

    /// Reads records of any keyspaces and partitions at one moment and returns them in the order of the keys. The client first reads all records in
    /// parallel; a second round confirms that no version has changed. For a long list the result has only its first page.
    ///
    /// # Errors
    /// The call names too many records, or a record cannot be read within the client's deadline.
    pub async fn read_many<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Record>>, Error> {
        let item = |(keyspace, key): &(&Keyspace, K)| {
            let read = RecordOperation::Read(RecordRead { key: key.as_ref(), query: Query::Lookup });
            let item = CompositeItem::new(keyspace.id(), &read, None);
            item.map_err(|invalid| Error::about(key.as_ref(), Reason::InvalidTransaction(invalid)))
        };
        let items = records.iter().map(item).collect::<Result<Vec<CompositeItem>, Error>>()?;
        let request = SessionRequest::read_many(items, self.limit_us());
        let request = request.map_err(|invalid| Error::general(Reason::InvalidTransaction(invalid)))?;
        let Reply::Many(answers) = self.send_request(request).await? else { return Err(Error::Unexpected) };
        let results = answers.into_iter().zip(records).map(|(answer, (_, key))| match record(answer) {
            Some(Ok(found)) => Ok(found),
            Some(Err(failure)) => Err(Error::about(key.as_ref(), Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        });
        results.collect()
    }
}
