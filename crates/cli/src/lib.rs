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

pub use zerohop_embedded::{
    Durability, Error, Options, Recovery, Stats, Store, StoreKeys, StoreRange, StoreRecord, open, open_with,
};
