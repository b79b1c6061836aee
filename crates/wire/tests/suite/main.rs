//! The protocol's promises: every message pinned to the byte, any input refused or read, the document is true.
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod documented;
mod gathering;
mod golden;
mod properties;
mod refusals;
mod specification;
mod support;
mod traces;
