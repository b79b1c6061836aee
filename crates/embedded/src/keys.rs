//! The iteration over all keys of a store.

use zerohop_engine::Cursor;

use super::error::StoreError;
use super::request::{StoreOperation, StoreOutcome, WalkPosition};
use super::{EmbeddedStore, limits};

/// An iterator over the keys of a store, in no particular order. A key that exists during the complete iteration is returned at least once. A key
/// that is added or removed meanwhile may be missing, and while the store grows a key may be returned twice. The iteration ends after an error.
#[derive(Debug)]
pub struct StoreKeys {
    store: EmbeddedStore,
    instance: u16,
    position: WalkPosition,
    page: std::vec::IntoIter<Vec<u8>>,
}

impl StoreKeys {
    pub(super) fn new(store: EmbeddedStore) -> Self {
        StoreKeys { store, instance: 0, position: START, page: Vec::new().into_iter() }
    }

    fn next_page(&mut self) -> Result<(), StoreError> {
        let shared = &self.store.shared;
        let operation = StoreOperation::Keys(self.position.clone());
        let StoreOutcome::Keys { keys, next } = shared.call(self.instance, operation, limits::ANSWER_WAIT)?
        else {
            unreachable!("a walk is answered with keys")
        };
        self.page = keys.into_iter();
        match next {
            Some(place) => self.position = place,
            None => {
                self.instance += 1;
                self.position = START;
            }
        }
        Ok(())
    }
}

/// The start of each worker's iteration: before its first partition.
const START: WalkPosition = WalkPosition { partition: 0, cursor: Cursor::START };

impl Iterator for StoreKeys {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.page.next() {
                return Some(Ok(key));
            }
            if self.instance >= self.store.shared.settings.instances {
                return None;
            }
            if let Err(error) = self.next_page() {
                self.instance = self.store.shared.settings.instances;
                return Some(Err(error));
            }
        }
    }
}
