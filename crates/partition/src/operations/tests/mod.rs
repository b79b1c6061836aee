//! The operations that change a record, over a partition.

mod append;
mod compare_swap;
mod expire;
mod extend;
mod increment;
mod insert;
mod remove;
mod take;
mod transform;
mod trim;
