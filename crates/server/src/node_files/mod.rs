//! The files in a node's folder and in the folders of its instances, byte by byte: `docs/formats/node-folder.md`.

pub(crate) mod clean_shutdown;
pub(crate) mod identity;
pub(crate) mod incarnation_log;
pub(crate) mod losses;
pub(crate) mod persisted;
