//! Staged writes: their bytes go to the servers before the commit, which then only names them. A transaction can therefore write more than fits in
//! its client's memory.

use std::collections::VecDeque;

use crate::{CompositeItem, Reply, SessionError as Reason, SessionRequest, StageId};
use zerohop_wire::ids::KeyspaceId;

use super::buffer::Buffer;
use super::{Promise, Transaction};
use crate::procedures::error::Error;
use crate::procedures::limits::{STAGED_AHEAD_BYTES, STAGED_AT_ONCE_BYTES_MIN};
use crate::procedures::operation::Operation;
use crate::procedures::shell::PendingReply;

impl Transaction {
    /// Same as [`Transaction::write`], but sends the bytes to the server at once if there are many. The transaction then keeps only their name.
    /// This permits transactions of up to 1 GiB without as much memory in the client. If the transaction does not commit, its staged data is
    /// removed; if the servers cannot be notified, it expires one minute after the last piece. The transaction can no longer read a record that was written in this way ([`Error::NotReadBack`]).
    ///
    /// # Errors
    /// Those of [`Transaction::write`]; the server's failure, which also ends the transaction.
    pub async fn stage<R>(&self, operation: Operation<'_, R>) -> Result<Promise<R>, Error> {
        let key = operation.key().to_vec();
        let place = self.buffer_write(&operation)?;
        let promise = Promise::of_write(place, operation.reply_reader());
        let to_stage = self.with(|buffer| buffer.to_stage(place))?;
        let long = to_stage.filter(|(item, _)| item.packed().len() >= STAGED_AT_ONCE_BYTES_MIN);
        let Some((item, hash)) = long else { return Ok(promise) };
        let due = self.with(|buffer| buffer.take_renewals_due(self.client.now()))?;
        let sent = self.send_ahead(&item, hash);
        match self.renew(due).await.and(staged(sent).await) {
            Ok(id) => {
                self.with(|buffer| buffer.is_staged(place, id, &self.client))?;
                Ok(promise)
            }
            Err(reason) => {
                self.lock().take();
                Err(Error::about(&key, reason))
            }
        }
    }

    /// Stages the writes that are too much for one commit, with a limited number of bytes in flight.
    pub(super) async fn stage_too_many(&self, buffer: &mut Buffer) -> Result<(), Error> {
        let (mut under_way, mut bytes, mut failure) = (VecDeque::new(), 0, None);
        for at in buffer.too_many() {
            let Some((item, hash)) = buffer.to_stage(at) else { continue };
            let length = item.packed().len();
            let due = buffer.take_renewals_due(self.client.now());
            self.renew(due).await.map_err(Error::general)?;
            while failure.is_none() && bytes > 0 && bytes + length > STAGED_AHEAD_BYTES {
                match self.one_is_staged(buffer, &mut under_way).await {
                    Ok(staged) => bytes -= staged,
                    Err(error) => failure = Some(error),
                }
            }
            if failure.is_some() {
                break;
            }
            bytes += length;
            under_way.push_back((at, length, self.send_ahead(&item, hash)));
        }
        // After a failure too: only a piece with a known id can be released.
        while !under_way.is_empty() {
            if let Err(error) = self.one_is_staged(buffer, &mut under_way).await {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Extends the time for which the servers keep staged data, at partitions that have received none for long.
    async fn renew(&self, due: Vec<(KeyspaceId, u64)>) -> Result<(), Reason> {
        let stay = |(keyspace, hash)| SessionRequest::stay_staged(keyspace, hash, self.client.limit_us());
        let sent: Vec<PendingReply> = due.into_iter().map(|one| self.client.submit(stay(one))).collect();
        for answer in sent {
            staged(answer).await?;
        }
        Ok(())
    }

    fn send_ahead(&self, item: &CompositeItem, hash: u64) -> PendingReply {
        self.client.submit(SessionRequest::stage(item, hash, self.client.limit_us()))
    }

    /// Waits for the first request in flight. Returns the write's length in bytes, 0 if there is none.
    async fn one_is_staged(
        &self,
        buffer: &mut Buffer,
        under_way: &mut VecDeque<(usize, usize, PendingReply)>,
    ) -> Result<usize, Error> {
        let Some((at, length, answer)) = under_way.pop_front() else { return Ok(0) };
        let id = staged(answer).await.map_err(|reason| {
            let key = buffer.to_stage(at).map(|(item, _)| item.key().to_vec());
            Error::about(&key.unwrap_or_default(), reason)
        })?;
        buffer.is_staged(at, id, &self.client);
        Ok(length)
    }
}

async fn staged(answer: PendingReply) -> Result<StageId, Reason> {
    match answer.await.unwrap_or(Err(Reason::Closed)) {
        Ok(Reply::Staged(id)) => Ok(id),
        // Staged data is invisible, so a lost reply leaves no doubt about the transaction's effects.
        Err(Reason::Unknown { why }) => Err(Reason::Unstaged { why }),
        Err(reason) => Err(reason),
        Ok(_) => Err(Reason::Closed),
    }
}
