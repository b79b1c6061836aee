//! What a workload needs of a store.

/// A store, as one task uses it: one operation at a time.
pub trait YcsbStore: Send {
    /// A value that was read.
    type Value: AsRef<[u8]> + Send;
    /// Why an operation failed.
    type Error: Send;

    /// Writes a new record.
    fn insert(&mut self, key: &str, value: &[u8]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The value of a record; `None` if there is none.
    fn read(&mut self, key: &str) -> impl Future<Output = Result<Option<Self::Value>, Self::Error>> + Send;

    /// Replaces the value of a record that is there.
    fn update(&mut self, key: &str, value: &[u8]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The first records from a key on and before another, at most `count`, in the order of their keys.
    fn scan(
        &mut self,
        from: &str,
        end: &str,
        count: u64,
    ) -> impl Future<Output = Result<ScannedRecords<Self::Value>, Self::Error>> + Send;

    /// Removes a record, if it is there.
    fn remove(&mut self, key: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Keys and values of a scan. A record without a value has `None`, which no correct answer has.
pub type ScannedRecords<V> = Vec<(Vec<u8>, Option<V>)>;
