//! Code shared by all commands: exit codes, connections, and reading and printing of bytes.

pub(crate) mod admin;
pub(crate) mod colours;
pub(crate) mod damaged;
pub(crate) mod demo_error;
pub(crate) mod descriptors;
pub(crate) mod disk;
pub(crate) mod display;
pub(crate) mod ending;
pub(crate) mod endpoint;
#[cfg(test)]
mod error_guide;
pub(crate) mod every_node;
pub(crate) mod failure;
pub(crate) mod http;
pub(crate) mod interrupt;
pub(crate) mod keys;
pub(crate) mod lines;
pub(crate) mod names;
pub(crate) mod other_cluster;
pub(crate) mod other_nodes;
pub(crate) mod outage;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod quantity;
pub(crate) mod refusal;
pub(crate) mod replica_names;
pub(crate) mod restarting;
pub(crate) mod runtime;
pub(crate) mod screen;
pub(crate) mod secret;
pub(crate) mod target;
pub(crate) mod tls;
pub(crate) mod transform;
pub(crate) mod value;
pub(crate) mod view;
