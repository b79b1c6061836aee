//! The requests of clients.

pub(crate) mod blobs;
pub(crate) mod draw;
pub mod operation;
pub(crate) mod plain_blobs;
pub mod tokens;
pub(crate) mod transactional;
