//! The files in a node's folder and in the folders of its instances, byte by byte: `docs/formats/node-folder.md`.

pub(crate) mod closed;
pub(crate) mod identity;
pub(crate) mod life;
pub(crate) mod losses;
pub(crate) mod persisted;
