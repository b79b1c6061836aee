//! Having the members of all partitions of a keyspace compare what they hold, slice by slice.

use std::collections::VecDeque;
use std::time::Duration;

use zerohop_placement::PartitionCount;
use zerohop_session::{ComparedSlice, Reply, SessionRequest};
use zerohop_wire::ids::PartitionId;

use crate::client::micros;
use crate::error::Error;
use crate::keyspace::Keyspace;

/// Partitions that are asked at a time.
const PARTITIONS_AT_ONCE: usize = 16;

/// Beyond the client's deadline: so long a primary itself waits for members that say nothing.
const WAIT: Duration = Duration::from_secs(6);

/// A comparison: every member of every partition reads all that it holds, once. What is written meanwhile may or may not be
/// compared; if a keyspace is split, its new partitions are compared from their beginning.
#[derive(Debug)]
pub struct Comparison {
    keyspace: Keyspace,
    partitions: PartitionCount,
    /// What is still to be compared, and from which hash fragment on.
    left: VecDeque<(PartitionId, u32)>,
    /// Of the last round: told behind what the others brought.
    failed: Option<Error>,
}

impl Comparison {
    pub(crate) fn new(keyspace: Keyspace) -> Self {
        let partitions = keyspace.config().partitions;
        Self { keyspace, partitions, left: partitions.ids().map(|id| (id, 0)).collect(), failed: None }
    }

    /// The next slices, of several partitions; `None` at the end. Who differs is taking everything again by then.
    ///
    /// # Errors
    /// As any read; [`Failure::DataCorrupt`](crate::Failure::DataCorrupt) if a primary holds what neither it nor anybody else can read. It can
    /// be asked again, which goes on where it was.
    pub async fn next_slices(&mut self) -> Result<Option<Vec<ComparedSlice>>, Error> {
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
            let request = |&(partition, from): &(PartitionId, u32)| {
                Ok(SessionRequest::compare(self.keyspace.id(), (partition, self.partitions), from, limit_us))
            };
            let requests = self.left.iter().take(at_once).map(request).collect();
            let (mut slices, mut split) = (Vec::new(), None);
            for result in client.submit_batch(requests).await {
                let Some((partition, from)) = self.left.pop_front() else { return Err(Error::Unexpected) };
                match result.map_err(Error::general) {
                    Ok(Reply::Compared(slice)) => {
                        if slice.next != 0 {
                            self.left.push_back((partition, slice.next));
                        }
                        slices.push(slice);
                    }
                    Ok(_) => return Err(Error::Unexpected),
                    Err(error) => {
                        self.left.push_back((partition, from));
                        match error.split_into() {
                            Some(partitions) => split = Some(partitions),
                            None => self.failed = Some(error),
                        }
                    }
                }
            }
            if let Some(partitions) = split {
                self.begin_again(partitions);
            }
            if !slices.is_empty() {
                return Ok(Some(slices));
            }
        }
    }

    /// The keyspace was split: each partition that is left has become several.
    fn begin_again(&mut self, partitions: PartitionCount) {
        let each = partitions.get() / self.partitions.get();
        let children = |(partition, _): (PartitionId, u32)| {
            (0..each).map(move |n| (PartitionId(partition.0 * each + n), 0))
        };
        self.left = std::mem::take(&mut self.left).into_iter().flat_map(children).collect();
        self.partitions = partitions;
    }
}
