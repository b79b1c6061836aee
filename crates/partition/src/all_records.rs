//! Lists and counts of all records of a partition, as a program gets them.

use zerohop_engine::disk::Disk;
use zerohop_wire::Failure;
use zerohop_wire::blob::is_of_blob;

use crate::atomic_batch::Unit;
use crate::intents::Intents;
use crate::operations::EngineResultExt;
use crate::own_records::count_own;

impl<D: Disk> Unit<'_, D> {
    /// Passes the committed keys of one page of the index to `each`, from the cursor of a number on (0 is the start), and
    /// returns the number of the next. A key that exists throughout is passed at least once.
    ///
    /// # Errors
    /// A transaction is about to change a record, which may be of the page; failures of the disk.
    pub fn scan(
        &mut self,
        cursor: u32,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u32>, Failure<'static>> {
        self.wait_for_all_intents()?;
        let (handle, now_ms) = (self.log_writer.handle(), self.now_ms());
        let from = self.engine.cursor_of_number(handle, cursor).or_fail()?;
        let (keys, next) = self.engine.scan(handle, &from).or_fail()?;
        for key in &keys {
            if self.foreign.as_ref().is_none_or(|hash_range| hash_range.owns(key))
                && !is_of_blob(key)
                && self.state.deadlines.get(key).is_none_or(|deadline| deadline > now_ms)
            {
                each(key);
            }
        }
        next.map(|next| self.engine.number_of_cursor(handle, &next).or_fail()).transpose()
    }

    /// The number of committed records, without staged pieces. Expired records that were not yet removed count.
    ///
    /// # Errors
    /// A transaction is about to change a record.
    pub fn count(&mut self) -> Result<u64, Failure<'static>> {
        self.wait_for_all_intents()?;
        let staged = self.state.transacted.as_ref().map_or(0, |one| one.state.staged().0 as u64);
        let all = count_own(self.engine, self.log_writer.handle(), self.foreign.as_ref()).or_fail()?;
        Ok(all.saturating_sub(staged))
    }

    /// A decided transaction is acknowledged before all its participants have changed their records. What the program
    /// answers about all records must include it, so the batch comes again until no transaction is prepared here.
    fn wait_for_all_intents(&mut self) -> Result<(), Failure<'static>> {
        match self.intents.as_ref().is_some_and(Intents::has_any_intent) {
            true => Err(self.blocked()),
            false => Ok(()),
        }
    }
}
