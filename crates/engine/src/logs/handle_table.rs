//! What each open partition has, by its handle.

/// A table by handle. A partition has its row from its opening until its memory is released.
pub(crate) struct HandleTable<T> {
    rows: Vec<Option<Box<T>>>,
}

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        HandleTable { rows: Vec::new() }
    }
}

impl<T> HandleTable<T> {
    /// Adds the row of a new partition.
    pub(super) fn add(&mut self, handle: u32, row: T) {
        let at = handle as usize;
        if at >= self.rows.len() {
            self.rows.resize_with(at + 1, || None);
        }
        debug_assert!(self.rows[at].is_none(), "a handle is used once");
        self.rows[at] = Some(Box::new(row));
    }

    /// The row of a partition that is open, or is being removed.
    #[inline]
    pub(super) fn of(&self, handle: u32) -> &T {
        match self.rows.get(handle as usize) {
            Some(Some(row)) => row,
            _ => unreachable!("a store has a log"),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn of_mut(&mut self, handle: u32) -> &mut T {
        match self.rows.get_mut(handle as usize) {
            Some(Some(row)) => row,
            _ => unreachable!("a store has a log"),
        }
    }

    /// Forgets the row of a partition that is gone.
    pub(super) fn remove(&mut self, handle: u32) {
        if let Some(row) = self.rows.get_mut(handle as usize) {
            *row = None;
        }
    }
}
