//! The `zerohop` program as its users meet it: real processes, real files.

mod arguments;
mod backups;
mod bad_input;
mod bench;
mod beyond;
mod blobs;
mod conditional;
mod demo;
mod doctor;
mod full_disk;
mod keyspaces;
mod large_blobs;
mod manual;
mod names;
mod processes;
mod progress;
mod records;
mod secrets;
mod status;
mod strangers;
mod tls;
mod tokens;
mod top;
mod transactions;
mod transforms;
mod vanishing;
