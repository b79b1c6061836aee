//! Reads records within a transaction for a unit, and turns the unit's changes into operations.

use std::collections::BTreeMap;

use zerohop_resp::{Deadline, FetchedRecord, GatheredChange, GatheredContents, Info};
use zerohop_session::procedures::{Error, Keyspace, Record, Transaction};
use zerohop_wire::messages::{Expiry, Range};

use super::joined_replies::all_or_first_error;
use crate::limits::FETCHES_MAX;

/// Reads records, and the contents of those marked `true`. They must be unchanged at commit.
pub(super) async fn fetch(
    transaction: &Transaction,
    keyspace: &Keyspace,
    wants: BTreeMap<Vec<u8>, bool>,
) -> Result<Vec<(Vec<u8>, FetchedRecord)>, Error> {
    let fetches = wants.into_iter().map(|(key, looks)| async move {
        let found = read(transaction, keyspace, &key, looks).await;
        found.map(|found| (key, found))
    });
    all_or_first_error(fetches, FETCHES_MAX).await
}

async fn read(
    transaction: &Transaction,
    keyspace: &Keyspace,
    key: &[u8],
    looks: bool,
) -> Result<FetchedRecord, Error> {
    // No record has an empty key, and the partition would refuse the read.
    if key.is_empty() {
        return Ok(FetchedRecord { info: None, contents: None });
    }
    let Some(info) = transaction.read(keyspace.inspect(key)).await? else {
        return Ok(FetchedRecord { info: None, contents: None });
    };
    let info = Info {
        record: info.record,
        length: info.length,
        version: info.version,
        deadline_ms: info.expires_at_ms,
    };
    if !looks {
        return Ok(FetchedRecord { info: Some(info), contents: None });
    }
    let contents = match transaction.read(keyspace.lookup(key)).await? {
        // A record that is gone has another version, which the transaction would have reported.
        None => return Err(Error::Unexpected),
        Some(Record::Bytes { bytes, .. }) => GatheredContents::Bytes(bytes.to_vec()),
        Some(Record::List { values, .. }) => {
            let mut all: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
            while (all.len() as u64) < info.length {
                let range = Range { start: all.len() as i64, stop: i64::MAX };
                match transaction.read(keyspace.lookup_range(key, range)).await? {
                    Some(Record::List { values, .. }) if !values.is_empty() => {
                        all.extend(values.iter().map(|value| value.to_vec()));
                    }
                    _ => return Err(Error::Unexpected),
                }
            }
            GatheredContents::List(all)
        }
    };
    Ok(FetchedRecord { info: Some(info), contents: Some(contents) })
}

/// Adds these changes to the transaction.
pub(super) fn write(
    transaction: &Transaction,
    keyspace: &Keyspace,
    changes: &[(Vec<u8>, GatheredChange)],
) -> Result<(), Error> {
    for (key, change) in changes {
        match change {
            GatheredChange::Put(bytes, deadline) => {
                let expiry = match deadline {
                    Deadline::Never => Expiry::Never,
                    Deadline::AtMs(at) => Expiry::AtMs(*at),
                    Deadline::Unchanged => Expiry::Unchanged,
                };
                transaction.write(keyspace.insert_until(key, bytes, expiry)).map(drop)?;
            }
            GatheredChange::Extend(bytes) => transaction.write(keyspace.extend(key, bytes)).map(drop)?,
            GatheredChange::Append(values) => {
                let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                transaction.write(keyspace.append(key, &values)).map(drop)?;
            }
            GatheredChange::Trim(keep) => {
                let range = Range { start: keep.start as i64, stop: keep.end.max(keep.start) as i64 };
                transaction.write(keyspace.trim(key, range)).map(drop)?;
            }
            GatheredChange::Remove => transaction.write(keyspace.remove(key)).map(drop)?,
            GatheredChange::Expire(at) => {
                let expiry = at.map_or(Expiry::Never, Expiry::AtMs);
                transaction.write(keyspace.expire(key, expiry)).map(drop)?;
            }
        }
    }
    Ok(())
}
