//! A whole node in this process, over real sockets and files, with the real client.

mod support;

mod bad_transactions;
mod floods;
mod foreign_clients;
mod keyspaces;
mod limits;
mod operations;
mod restart;
mod transactions;
mod web;
