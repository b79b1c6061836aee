//! The columns of all rows that the consistency conditions need, in memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::keys::{CustomerKey, DistrictKey, OrderKey};
use crate::population::TableRow;
use crate::rows::{Account, Order};

/// The tables after a full scan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    /// W_YTD.
    pub(crate) warehouses: BTreeMap<u32, i64>,
    /// D_YTD.
    pub(crate) district_totals: BTreeMap<DistrictKey, i64>,
    /// D_NEXT_O_ID.
    pub(crate) next_orders: BTreeMap<DistrictKey, u32>,
    pub(crate) customers: BTreeMap<CustomerKey, Account>,
    pub(crate) payments: Vec<PaymentRow>,
    pub(crate) orders: BTreeMap<OrderKey, Order>,
    pub(crate) new_orders: BTreeSet<OrderKey>,
    pub(crate) lines: BTreeMap<(OrderKey, u8), LineRow>,
    /// The index of orders by customer.
    pub(crate) customer_orders: BTreeSet<(CustomerKey, u32)>,
    /// The number of keys in the index of customers by name.
    pub(crate) names: usize,
}

/// A row of HISTORY.
#[derive(Debug, Clone)]
pub(crate) struct PaymentRow {
    pub(crate) district: DistrictKey,
    pub(crate) customer: CustomerKey,
    pub(crate) amount: i64,
}

/// A row of ORDER-LINE.
#[derive(Debug, Clone)]
pub(crate) struct LineRow {
    pub(crate) is_delivered: bool,
    pub(crate) amount: i64,
}

impl Tables {
    /// Adds a row. Of warehouses, districts, items and stock only the columns that change matter.
    pub(crate) fn add(&mut self, row: TableRow) {
        match row {
            TableRow::WarehouseTotal(warehouse, total) => {
                self.warehouses.insert(warehouse, total.ytd);
            }
            TableRow::DistrictTotal(district, total) => {
                self.district_totals.insert(district, total.ytd);
            }
            TableRow::NextOrder(district, next) => {
                self.next_orders.insert(district, next);
            }
            TableRow::Customer(key, customer) => {
                self.customers.insert(key, customer.account);
            }
            TableRow::History(district, _, payment) => {
                let of = payment.customer;
                let home = DistrictKey { warehouse: of.warehouse, district: of.district };
                let customer = home.customer(of.customer);
                self.payments.push(PaymentRow { district, customer, amount: payment.amount });
            }
            TableRow::Order(key, order) => {
                self.orders.insert(key, order);
            }
            TableRow::NewOrder(key) => {
                self.new_orders.insert(key);
            }
            TableRow::OrderLine(key, number, line) => {
                let line = LineRow { is_delivered: line.delivered.is_some(), amount: line.amount };
                self.lines.insert((key, number), line);
            }
            TableRow::Warehouse(..) | TableRow::District(..) | TableRow::Item(..) | TableRow::Stock(..) => {}
        }
    }
}
