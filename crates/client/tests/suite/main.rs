//! The client over real sockets, against small servers that each test controls.

mod fake_server;
#[path = "../../../server/tests/suite/support/give_up.rs"]
mod give_up;
mod transactions;
