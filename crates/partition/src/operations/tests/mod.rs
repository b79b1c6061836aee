//! The operations on a record, over a partition.

mod append;
mod bits;
mod compare_swap;
mod confirm;
mod expire;
mod extend;
mod increment;
mod insert;
mod inspect;
mod lookup;
mod remove;
mod take;
mod transform;
mod trim;
mod wait;
