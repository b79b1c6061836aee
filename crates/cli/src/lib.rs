//! The `zerohop` library: the storage engine in the process of a Rust program.
//!
//! ```
//! # fn main() -> Result<(), zerohop::Error> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("data");
//! let store = zerohop::open(path)?;
//!
//! // A record is bytes …
//! store.insert("ship", "Nautilus")?;
//! store.extend("ship", ", submarine")?;
//! assert_eq!(store.lookup("ship")?.as_deref(), Some(&b"Nautilus, submarine"[..]));
//!
//! // … or a list of values.
//! store.append("crew", "Nemo")?;
//! store.append("crew", "Aronnax")?;
//! assert_eq!(store.values("crew")?.map(|crew| crew.len()), Some(2));
//!
//! assert!(store.remove("ship")?);
//! store.close()
//! # }
//! ```
//!
//! A [`Store`] can be cloned and used from any number of threads. See `docs/guide/embedded.md`.

use std::path::Path;

pub use zerohop_embedded::{
    Durability, EmbeddedStore as Store, Recovery, StoreError as Error, StoreKeys, StoreOptions as Options,
    StoreRange, StoreRecord, StoreStats as Stats,
};

/// Opens the store in a folder, or creates one if there is none, with the default [`Options`].
///
/// # Errors
/// As [`Store::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Store, Error> {
    Store::open(path)
}

/// Opens or creates a store with these options.
///
/// # Errors
/// As [`Store::open_with`].
pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Store, Error> {
    Store::open_with(path, options)
}
