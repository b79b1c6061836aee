//! A gateway over a store in memory, for outside clients: prints its port, and ends with its standard input.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for tests")]

use std::sync::Arc;

use zerohop_s3::{FixedUsers, GatewayOptions, S3Gateway};

#[path = "../tests/suite/memory.rs"]
mod memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let users = FixedUsers { access_key: Some("tester".to_owned()), secret: "tester-secret".to_owned() };
    let options = GatewayOptions::new(Arc::new(users));
    let gateway = S3Gateway::new(Arc::new(memory::MemoryStore::default()), options)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    tokio::spawn(gateway.clone().sweep());
    tokio::spawn(gateway.serve(listener, std::future::pending()));
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
