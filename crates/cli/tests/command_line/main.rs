//! The `zerohop` program as its users meet it: real processes, real files.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, which make the files they need")]

mod backups;
mod bad_input;
mod bench;
mod beyond;
mod blobs;
mod conditional;
mod demo;
#[path = "../process/disk.rs"]
mod disk;
mod doctor;
mod full_disk;
mod keyspaces;
mod large_blobs;
mod manual;
mod processes;
mod progress;
mod records;
mod secrets;
mod status;
mod strangers;
mod support;
mod tls;
mod tokens;
mod top;
mod transactions;
mod transforms;
mod vanishing;
