//! TPC-C on zerohop: a table is an ordered keyspace, a transaction is one of the client.
//!
//! The client's transactions check every record that they read, but they have no scans. So a range is scanned before the records in it are read, and
//! each transaction says why no row can have been added to the range in between:
//!
//! ```text
//!   New-Order      reads by key alone; D_NEXT_O_ID is one record, which orders the transactions of a district
//!   Payment        customers by last name: no transaction changes the index
//!   Order-Status   the newest order of a customer: see order_status
//!   Delivery       the oldest order of a district in NEW-ORDER: see delivery
//!   Stock-Level    committed rows, without a check (isolation level 1, clause 3.4.1)
//! ```

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod population;
mod scan;
mod stock_level;

use std::net::SocketAddr;

use bench_common::failure::Failure;
use bench_common::servers::Cluster;
use zerohop_client::{Client, ClientOptions, Keyspace, Record, Transaction};

use crate::codec::{self, Column, RowError};
use crate::database::{DatabaseConnection, Outcome, TransactionError};
use crate::inputs::{CustomerChoice, Input};
use crate::keys::{self, CustomerKey, DistrictKey};
use crate::limits;
use crate::rules;
use crate::tables::Tables;

/// The keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Warehouse,
    District,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
    Stock,
    Item,
    CustomerByName,
    OrdersByCustomer,
}

/// All of them, with their names, in the order of the enumeration.
const TABLES: [(Table, &str); 11] = [
    (Table::Warehouse, "warehouse"),
    (Table::District, "district"),
    (Table::Customer, "customer"),
    (Table::History, "history"),
    (Table::Orders, "orders"),
    (Table::NewOrder, "new_order"),
    (Table::OrderLine, "order_line"),
    (Table::Stock, "stock"),
    (Table::Item, "item"),
    (Table::CustomerByName, "customer_by_name"),
    (Table::OrdersByCustomer, "orders_by_customer"),
];

/// The value of a key whose row has no other columns.
const KEY_ONLY: &[u8] = &[codec::VERSION];

/// Creates the keyspaces, divided between warehouses.
pub(crate) fn create(
    cluster: &mut Cluster,
    warehouses: u32,
    copies: u16,
    durability: &str,
) -> Result<(), Failure> {
    let min_in_sync = if copies > 1 { 2 } else { 1 };
    let setting =
        format!("--ordered --replicas {copies} --min-in-sync {min_in_sync} --durability {durability}");
    let text = |warehouse: u32| -> String {
        warehouse.to_be_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect()
    };
    let separators: Vec<String> = (2..=warehouses).map(text).collect();
    let divided = match separators.is_empty() {
        true => setting.clone(),
        false => format!("{setting} --split-at {}", separators.join(",")),
    };
    let by_warehouse: Vec<&str> =
        TABLES.iter().filter(|(table, _)| *table != Table::Item).map(|(_, name)| *name).collect();
    cluster.create_keyspaces(&by_warehouse, &divided)?;
    cluster.create_keyspaces(&["item"], &setting)
}

/// A client with its keyspaces. Clones share it.
#[derive(Clone)]
pub(crate) struct Database {
    client: Client,
    /// In the order of [`TABLES`].
    keyspaces: Vec<Keyspace>,
}

/// The records that a transaction has read in one round, in the order of their keys.
struct RecordsRead {
    records: std::vec::IntoIter<Option<Record>>,
}

impl DatabaseConnection for Database {
    async fn attempt(&self, input: &Input, time: u64, payment: u64) -> Result<Outcome, TransactionError> {
        match input {
            Input::NewOrder(order) => new_order::run(self, order, time).await,
            Input::Payment(input) => payment::run(self, input, time, payment).await,
            Input::OrderStatus { district, customer } => order_status::run(self, *district, customer).await,
            Input::Delivery { warehouse, carrier } => delivery::run(self, *warehouse, *carrier, time).await,
            Input::StockLevel { district, threshold } => stock_level::run(self, *district, *threshold).await,
        }
    }
}

impl Database {
    /// Connects to these managers.
    pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<Database, TransactionError> {
        let endpoints: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        let options = ClientOptions { deadline: limits::OPERATION, ..ClientOptions::default() };
        let client = Client::connect_with(&endpoints, options).await?;
        let mut keyspaces = Vec::new();
        for (_, name) in TABLES {
            keyspaces.push(client.keyspace(name).await?);
        }
        Ok(Database { client, keyspaces })
    }

    /// Reads all tables whose rows the conditions need.
    pub(crate) async fn read_tables(&self) -> Result<Tables, TransactionError> {
        scan::read_tables(self).await
    }

    fn keyspace(&self, table: Table) -> &Keyspace {
        &self.keyspaces[table as usize]
    }

    /// Reads records in one round.
    async fn read(
        &self,
        transaction: &Transaction,
        records: &[(Table, Vec<u8>)],
    ) -> Result<RecordsRead, TransactionError> {
        let keys: Vec<(&Keyspace, &[u8])> =
            records.iter().map(|(table, key)| (self.keyspace(*table), key.as_slice())).collect();
        Ok(RecordsRead { records: transaction.read_many(&keys).await?.into_iter() })
    }

    fn write(
        &self,
        transaction: &Transaction,
        table: Table,
        key: &[u8],
        row: &impl Column,
    ) -> Result<(), TransactionError> {
        Ok(transaction.insert(self.keyspace(table), key, &codec::encode(row))?)
    }

    /// The customer of a choice (clause 2.5.2.2): of those with the last name, in the order of first names, the middle one.
    async fn customer(
        &self,
        district: DistrictKey,
        choice: &CustomerChoice,
    ) -> Result<CustomerKey, TransactionError> {
        let last = match choice {
            CustomerChoice::Number(number) => return Ok(district.customer(*number)),
            CustomerChoice::LastName(last) => last,
        };
        let names = self.keyspace(Table::CustomerByName);
        let mut scan = names.scan_range::<&str>(..).prefix(district.last_name(last));
        let mut found = Vec::new();
        while let Some(page) = scan.next_page().await? {
            found.extend(page.into_iter().filter_map(|listed| keys::last_number(&listed.key)));
        }
        let absent = || TransactionError::WrongRow(format!("{district} has no customer named {last}"));
        Ok(district.customer(rules::middle(&found).ok_or_else(absent)?))
    }
}

impl RecordsRead {
    /// The next row; `None` if it is absent.
    fn find<R: Column>(&mut self) -> Result<Option<R>, TransactionError> {
        match self.records.next().flatten() {
            Some(Record::Bytes { bytes, .. }) => Ok(Some(row(&bytes)?)),
            Some(Record::List { .. }) => Err(TransactionError::WrongRow("a row is a list".to_owned())),
            None => Ok(None),
        }
    }

    /// The next row, which must exist.
    fn next<R: Column>(&mut self) -> Result<R, TransactionError> {
        let absent = || TransactionError::WrongRow(format!("no {}", std::any::type_name::<R>()));
        self.find()?.ok_or_else(absent)
    }
}

fn row<R: Column>(bytes: &[u8]) -> Result<R, TransactionError> {
    codec::decode(bytes).map_err(|error: RowError| TransactionError::WrongRow(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_their_enumeration() {
        assert!(TABLES.iter().enumerate().all(|(at, (table, _))| *table as usize == at));
    }
}
