//! Comparison of the members of all partitions of a keyspace, one range at a time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{ComparedRange, Reply, SessionRequest};
use bytes::Bytes;
use zerohop_placement::Division;
use zerohop_wire::ids::PartitionId;

use super::cluster_handle::micros;
use super::error::Error;
use super::keyspace::Keyspace;

/// Number of partitions that are compared at the same time.
const PARTITIONS_AT_ONCE: usize = 16;

/// Time beyond the client's deadline: a primary itself waits this long for members that do not reply.
const WAIT: Duration = Duration::from_secs(6);

/// A comparison: every member of every partition reads all its data once. Writes that happen during the comparison may or may not be compared. If
/// the keyspace is split, the comparison of the new partitions starts from their beginning.
#[derive(Debug)]
pub struct Comparison {
    keyspace: Keyspace,
    division: Division,
    /// The partitions that remain, each with the cursor at which to continue.
    left: VecDeque<(PartitionId, Bytes)>,
    /// The error of the last round, which the call reports after the results of the other partitions.
    failed: Option<Error>,
}

impl Comparison {
    pub(crate) fn new(keyspace: Keyspace) -> Self {
        let division = keyspace.division().clone();
        let left = division.partitions().map(|id| (id, Bytes::new())).collect();
        Self { keyspace, division, left, failed: None }
    }

    /// Compares the next hash ranges, of several partitions; `None` at the end. A member that differs has by then already started to install a new
    /// copy of all data.
    ///
    /// # Errors
    /// Those of any read; [`Failure::DataCorrupt`](zerohop_wire::Failure::DataCorrupt) if a primary stores an entry that neither it nor any other member
    /// can read. After an error the caller can call again; the comparison continues where it was.
    pub async fn next_ranges(&mut self) -> Result<Option<Vec<ComparedRange>>, Error> {
        loop {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.left.is_empty() {
                return Ok(None);
            }
            let client = self.keyspace.client().clone();
            let limit_us = client.limit_us().saturating_add(micros(WAIT));
            let at_once = self.left.len().min(PARTITIONS_AT_ONCE);
            let request = |(partition, from): &(PartitionId, Bytes)| {
                let hash_range = (*partition, self.division.count());
                Ok(SessionRequest::compare(self.keyspace.id(), hash_range, from.clone(), limit_us))
            };
            let requests = self.left.iter().take(at_once).map(request).collect();
            let (mut slices, mut split) = (Vec::new(), None);
            for result in client.submit_batch(requests).await {
                let Some((partition, from)) = self.left.pop_front() else { return Err(Error::Unexpected) };
                match result.map_err(Error::general) {
                    Ok(Reply::Compared(range)) => {
                        if !range.next.is_empty() {
                            self.left.push_back((partition, range.next.clone()));
                        }
                        slices.push(range);
                    }
                    Ok(_) => return Err(Error::Unexpected),
                    Err(error) => {
                        self.left.push_back((partition, from));
                        match error.split_into() {
                            Some((_, division)) => split = Some(division.clone()),
                            None => self.failed = Some(error),
                        }
                    }
                }
            }
            if let Some(division) = split {
                self.begin_again(division);
            }
            if !slices.is_empty() {
                return Ok(Some(slices));
            }
        }
    }

    /// Partitions were split: each that remains and has become several begins again.
    fn begin_again(&mut self, division: Division) {
        let children = |(partition, from): (PartitionId, Bytes)| {
            let children = division.successors(partition, &self.division);
            let from = if children[..] == [partition] { from } else { Bytes::new() };
            children.into_iter().map(move |child| (child, from.clone()))
        };
        self.left = std::mem::take(&mut self.left).into_iter().flat_map(children).collect();
        self.division = division;
    }
}
