//! Tests of an instance: requests, time, maps and failures.

mod bench;
mod groups;
mod maps;
mod prepared_splits;
mod region_sizes;
mod returned_parents;
mod routing;
mod serving;
mod splits;
mod time;
mod transactions;
mod watches;
