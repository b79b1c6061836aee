//! The tables of `docs/formats` state the bytes that the engine writes.

mod checkpoint;
mod install_run;
mod journal;
mod log;
mod round;
mod segment;
mod tables;
