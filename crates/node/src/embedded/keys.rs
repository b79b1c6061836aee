//! The walk over all keys of a store.

use super::error::StoreError;
use super::request::{StoreOperation, StoreOutcome, WalkPosition};
use super::{EmbeddedStore, limits};

/// The keys of a store, in no order. A key that is there throughout the walk is met at least once; one that comes or
/// goes meanwhile may be met or not, and while the store grows a key may be met twice. Ends after an error.
#[derive(Debug)]
pub struct StoreKeys {
    store: EmbeddedStore,
    instance: u16,
    place: WalkPosition,
    page: std::vec::IntoIter<Vec<u8>>,
}

impl StoreKeys {
    pub(super) fn new(store: EmbeddedStore) -> Self {
        StoreKeys { store, instance: 0, place: START, page: Vec::new().into_iter() }
    }

    fn next_page(&mut self) -> Result<(), StoreError> {
        let shared = &self.store.shared;
        let operation = StoreOperation::Keys(self.place);
        let StoreOutcome::Keys { keys, next } = shared.ask(self.instance, operation, limits::ANSWER_WAIT)?
        else {
            unreachable!("a walk is answered with keys")
        };
        self.page = keys.into_iter();
        match next {
            Some(place) => self.place = place,
            None => {
                self.instance += 1;
                self.place = START;
            }
        }
        Ok(())
    }
}

/// Where each worker's walk begins: before its first partition.
const START: WalkPosition = WalkPosition { partition: 0, cursor: 0 };

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
