//! TPC-C on PostgreSQL: one server, a connection for each terminal, prepared statements, several of them under way at a time.
//!
//! The transactions run at READ COMMITTED with row locks, as TPC-C is commonly run on PostgreSQL. At REPEATABLE READ a transaction that waits for a
//! row is rolled back as soon as the row has changed, and every Payment of a warehouse changes W_YTD. They have isolation level 3 (clause 3.4.1)
//! all the same: a row that others may change is locked before its value counts, and until the commit, so that the transactions are ordered as their
//! commits.
//!
//! ```text
//!   New-Order      next_order by its UPDATE, stock rows FOR UPDATE in the order of the key; other columns that it reads never change
//!   Payment        the customer FOR UPDATE, totals by their UPDATEs, last the one that all payments of a warehouse wait for
//!   Delivery       the oldest row of new_order FOR UPDATE; of a district without one, next_order FOR SHARE before a second look,
//!                  so that no order is added until the commit; then customers in the order of the key
//!   Order-Status   one snapshot of committed rows: REPEATABLE READ, READ ONLY
//!   Stock-Level    committed rows, without a transaction (isolation level 1, clause 3.4.1)
//! ```
//!
//! PostgreSQL rolls one transaction of a deadlock back. It is repeated and counted as a retry, as is a serialization failure.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod population;
mod scan;
mod statements;
mod stock_level;

use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bench_common::failure::Failure;
use bench_common::limits::{SERVING, STATUS_POLL};
use bench_common::postgresql::{DATABASE, PORT, PostgresqlServer};
use bench_common::process::now;
use bench_common::servers::Place;
use tokio::task::spawn_local;
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, NoTls, Row, Statement};

use self::statements::{QUERIES, Query};
use crate::database::{DatabaseConnection, Outcome, TransactionError};
use crate::inputs::{CustomerChoice, Input};
use crate::keys::DistrictKey;
use crate::limits;
use crate::rules;

/// A connection with its prepared statements. Clones share it.
#[derive(Clone)]
pub(crate) struct Session {
    client: Rc<Client>,
    /// In the order of [`QUERIES`].
    statements: Rc<[Statement]>,
}

/// Connections that write the initial population.
#[derive(Clone)]
pub(crate) struct Loading {
    connections: Rc<[Client]>,
}

/// A parameter of a statement.
type Parameter<'a> = &'a (dyn ToSql + Sync);

impl DatabaseConnection for Session {
    async fn attempt(&self, input: &Input, time: u64, _: u64) -> Result<Outcome, TransactionError> {
        let result = match input {
            Input::NewOrder(order) => new_order::run(self, order, time).await,
            Input::Payment(input) => payment::run(self, input, time).await,
            Input::OrderStatus { district, customer } => order_status::run(self, *district, customer).await,
            Input::Delivery { warehouse, carrier } => delivery::run(self, *warehouse, *carrier, time).await,
            Input::StockLevel { district, threshold } => stock_level::run(self, *district, *threshold).await,
        };
        if result.is_err() {
            // If the connection is lost, the server rolls back by itself.
            let _ = self.rollback().await;
        }
        result
    }
}

/// The folder of PostgreSQL's programs.
///
/// # Errors How to install them.
pub(crate) fn programs() -> Result<PathBuf, String> {
    bench_common::postgresql::programs("bench/tpcc/install")
}

/// Starts a server for so many connections. It may not answer yet.
///
/// # Errors The programs are missing, or the server cannot be started.
pub(crate) fn start(place: &Place, connections: u32) -> Result<PostgresqlServer, Failure> {
    let programs = programs().map_err(Failure::Usage)?;
    let limit = limits::OPERATION.as_millis();
    let settings = format!("max_connections = {connections}\nstatement_timeout = {limit}\n");
    PostgresqlServer::start(place, &programs, &settings)
}

/// Connects when the server answers.
///
/// # Errors It ends, or does not answer in time.
pub(crate) async fn connect_first(server: &mut PostgresqlServer) -> Result<Client, Failure> {
    let deadline = now() + SERVING;
    loop {
        server.check()?;
        match connect(server).await {
            Ok(client) => return Ok(client),
            Err(error) if now() >= deadline => {
                return Err(Failure::Protocol(format!("nothing in time: {error}")));
            }
            Err(_) => tokio::time::sleep(STATUS_POLL).await,
        }
    }
}

/// Connects without prepared statements.
pub(crate) async fn connect(server: &PostgresqlServer) -> Result<Client, TransactionError> {
    let mut address = tokio_postgres::Config::new();
    address.host_path(server.socket()).port(PORT).user(DATABASE).dbname(DATABASE);
    let (client, connection) = address.connect(NoTls).await?;
    // It ends with the client; an error is the result of the client's requests.
    spawn_local(connection);
    Ok(client)
}

/// Creates the tables.
pub(crate) async fn create(client: &Client) -> Result<(), TransactionError> {
    Ok(client.batch_execute(include_str!("schema.sql")).await?)
}

/// Connections for the population.
pub(crate) async fn loading(server: &PostgresqlServer) -> Result<Loading, TransactionError> {
    let mut connections = Vec::new();
    for _ in 0..limits::POPULATION_TRANSACTIONS {
        connections.push(connect(server).await?);
    }
    Ok(Loading { connections: connections.into() })
}

/// Prepares the populated tables for the run. Each statement has its own transaction, and more time than one of the run.
pub(crate) async fn finish_population(client: &Client) -> Result<(), TransactionError> {
    client.batch_execute("SET statement_timeout = 0").await?;
    client.batch_execute(include_str!("keys.sql")).await?;
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// The server's version.
pub(crate) async fn version(client: &Client) -> Result<String, TransactionError> {
    column(&client.query_one("SHOW server_version", &[]).await?, 0)
}

pub(crate) use self::scan::read_tables;

impl Session {
    /// Connects, and prepares the statements.
    pub(crate) async fn connect(server: &PostgresqlServer) -> Result<Session, TransactionError> {
        let client = connect(server).await?;
        let mut statements = Vec::new();
        for (_, text) in QUERIES {
            statements.push(client.prepare(text).await?);
        }
        Ok(Session { client: Rc::new(client), statements: statements.into() })
    }

    async fn query(&self, query: Query, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, TransactionError> {
        Ok(self.client.query(&self.statements[query as usize], parameters).await?)
    }

    /// The row of a query that has one.
    async fn query_one(&self, query: Query, parameters: &[Parameter<'_>]) -> Result<Row, TransactionError> {
        let mut rows = self.query(query, parameters).await?;
        match (rows.pop(), rows.len()) {
            (Some(row), 0) => Ok(row),
            (_, more) => {
                Err(TransactionError::WrongRow(format!("{query:?} has not one row, {more} too many")))
            }
        }
    }

    /// Changes so many rows.
    async fn change(
        &self,
        query: Query,
        parameters: &[Parameter<'_>],
        rows: usize,
    ) -> Result<(), TransactionError> {
        let changed = self.client.execute(&self.statements[query as usize], parameters).await?;
        let wrong =
            || TransactionError::WrongRow(format!("{query:?} changed {changed} rows instead of {rows}"));
        if changed == rows as u64 { Ok(()) } else { Err(wrong()) }
    }

    async fn begin(&self) -> Result<(), TransactionError> {
        Ok(self.client.batch_execute("BEGIN").await?)
    }

    /// Sent behind the last statements, without waiting for their answers. If one of them fails, PostgreSQL rolls back instead, and the error is
    /// that of the statement.
    async fn commit(&self) -> Result<(), TransactionError> {
        Ok(self.client.batch_execute("COMMIT").await?)
    }

    async fn rollback(&self) -> Result<(), TransactionError> {
        Ok(self.client.batch_execute("ROLLBACK").await?)
    }

    /// The number of the customer of a choice. No transaction changes names.
    async fn customer(
        &self,
        district: DistrictKey,
        choice: &CustomerChoice,
    ) -> Result<i32, TransactionError> {
        let last = match choice {
            CustomerChoice::Number(number) => return Ok(*number as i32),
            CustomerChoice::LastName(last) => last,
        };
        let (warehouse, number) = numbers(district);
        let rows = self.query(Query::CustomersByName, &[&warehouse, &number, last]).await?;
        let mut found = Vec::new();
        for row in &rows {
            found.push(column::<i32>(row, 0)? as u32);
        }
        let absent = || TransactionError::WrongRow(format!("{district} has no customer named {last}"));
        Ok(rules::middle(&found).ok_or_else(absent)? as i32)
    }
}

/// The columns of a district.
fn numbers(district: DistrictKey) -> (i32, i16) {
    (district.warehouse as i32, i16::from(district.district))
}

/// A column of a row, by its place from zero.
fn column<V: FromSqlOwned>(row: &Row, at: usize) -> Result<V, TransactionError> {
    row.try_get(at).map_err(|error| TransactionError::WrongRow(error.to_string()))
}

/// Runs statements one behind the other on the same connection, without waiting for answers in between. The first error ends it.
async fn all<T, F: Future<Output = Result<T, TransactionError>>>(
    statements: impl Iterator<Item = F>,
) -> Result<Vec<T>, TransactionError> {
    let mut waiting: Vec<(Pin<Box<F>>, Option<T>)> = statements.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (statement, answer) in waiting.iter_mut().filter(|(_, answer)| answer.is_none()) {
            match statement.as_mut().poll(context) {
                Poll::Ready(Ok(value)) => *answer = Some(value),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => waits = true,
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await?;
    Ok(waiting.into_iter().filter_map(|(_, answer)| answer).collect())
}
