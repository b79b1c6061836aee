//! The real shell of a server: alone opens its sockets and files.

pub mod disk;
