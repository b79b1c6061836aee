//! PostgreSQL: a table of keys and values, and a connection with prepared statements for each operation under way.

use std::fmt;
use std::path::{Path, PathBuf};

use bench_common::failure::Failure;
use bench_common::postgresql::{self, DATABASE, PORT, PostgresqlServer};
use bench_common::servers::Place;
use tokio_postgres::{Client, NoTls, Statement};
use zerohop_ycsb::{ScannedRecords, YcsbStore};

use crate::limits;
use crate::modes::Mode;

/// Keys are compared byte by byte.
const TABLE: &str = "CREATE TABLE ycsb (key text COLLATE \"C\" PRIMARY KEY, value bytea NOT NULL)";

const INSERT: &str = "INSERT INTO ycsb (key, value) VALUES ($1, $2)";
const READ: &str = "SELECT value FROM ycsb WHERE key = $1";
const UPDATE: &str = "UPDATE ycsb SET value = $2 WHERE key = $1";
const SCAN: &str = "SELECT key, value FROM ycsb WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3";
const REMOVE: &str = "DELETE FROM ycsb WHERE key = $1";

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum PostgresqlError {
    Client(tokio_postgres::Error),
    /// An insert or an update changed so many rows.
    Changed(u64),
}

/// A connection.
pub(crate) struct PostgresqlStore {
    client: Client,
    insert: Statement,
    read: Statement,
    update: Statement,
    scan: Statement,
    remove: Statement,
}

/// The folder of PostgreSQL's programs.
pub(crate) fn programs() -> Result<PathBuf, String> {
    postgresql::programs(crate::INSTALL)
}

/// Starts a server for so many connections. It may not answer yet.
pub(crate) fn start(place: &Place, mode: Mode, connections: u32) -> Result<PostgresqlServer, Failure> {
    let programs = programs().map_err(Failure::Usage)?;
    let commit = match mode {
        Mode::Interval => "off",
        Mode::Sync => "on",
    };
    let connections = connections + limits::POSTGRESQL_CONNECTIONS;
    let settings = format!("max_connections = {connections}\nsynchronous_commit = {commit}\n");
    PostgresqlServer::start(place, &programs, &settings)
}

/// Connects to the server with its socket in this folder, without prepared statements.
pub(crate) async fn connect(socket: &Path) -> Result<Client, PostgresqlError> {
    let mut address = tokio_postgres::Config::new();
    address.host_path(socket).port(PORT).user(DATABASE).dbname(DATABASE);
    let (client, connection) = address.connect(NoTls).await?;
    // It ends with the client; an error is the result of the client's requests.
    tokio::spawn(connection);
    Ok(client)
}

/// Creates the table.
pub(crate) async fn create(client: &Client) -> Result<(), PostgresqlError> {
    Ok(client.batch_execute(TABLE).await?)
}

/// Prepares the loaded table for the workloads. Each statement has its own transaction.
pub(crate) async fn finish_load(client: &Client) -> Result<(), PostgresqlError> {
    for statement in ["VACUUM ANALYZE ycsb", "CHECKPOINT"] {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

impl PostgresqlStore {
    /// Connects, and prepares the statements.
    pub(crate) async fn connect(socket: &Path) -> Result<PostgresqlStore, PostgresqlError> {
        let client = connect(socket).await?;
        Ok(PostgresqlStore {
            insert: client.prepare(INSERT).await?,
            read: client.prepare(READ).await?,
            update: client.prepare(UPDATE).await?,
            scan: client.prepare(SCAN).await?,
            remove: client.prepare(REMOVE).await?,
            client,
        })
    }
}

impl YcsbStore for PostgresqlStore {
    type Value = Vec<u8>;
    type Error = PostgresqlError;

    async fn insert(&mut self, key: &str, value: &[u8]) -> Result<(), PostgresqlError> {
        one_row(self.client.execute(&self.insert, &[&key, &value]).await?)
    }

    async fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>, PostgresqlError> {
        let row = self.client.query_opt(&self.read, &[&key]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn update(&mut self, key: &str, value: &[u8]) -> Result<(), PostgresqlError> {
        one_row(self.client.execute(&self.update, &[&key, &value]).await?)
    }

    async fn scan(
        &mut self,
        from: &str,
        end: &str,
        count: u64,
    ) -> Result<ScannedRecords<Vec<u8>>, PostgresqlError> {
        let rows = self.client.query(&self.scan, &[&from, &end, &(count as i64)]).await?;
        let mut records = Vec::new();
        for row in &rows {
            records.push((row.try_get::<_, String>(0)?.into_bytes(), Some(row.try_get(1)?)));
        }
        Ok(records)
    }

    async fn remove(&mut self, key: &str) -> Result<(), PostgresqlError> {
        self.client.execute(&self.remove, &[&key]).await?;
        Ok(())
    }
}

fn one_row(changed: u64) -> Result<(), PostgresqlError> {
    if changed == 1 { Ok(()) } else { Err(PostgresqlError::Changed(changed)) }
}

impl From<tokio_postgres::Error> for PostgresqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        PostgresqlError::Client(error)
    }
}

impl fmt::Display for PostgresqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostgresqlError::Client(error) => match error.as_db_error() {
                Some(answer) => write!(f, "PostgreSQL: {answer} ({})", answer.code().code()),
                None => write!(f, "PostgreSQL: {error}"),
            },
            PostgresqlError::Changed(rows) => write!(f, "PostgreSQL changed {rows} rows in place of one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_of_no_row_is_an_error() {
        assert!(one_row(1).is_ok());
        assert!(one_row(0).unwrap_err().to_string().contains("0 rows"));
    }
}
