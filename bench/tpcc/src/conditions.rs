//! The consistency conditions of clauses 3.3.2.1 to 3.3.2.12, over all rows.
//!
//! The first twelve have the numbers of their clauses. Condition 11 holds of the initial population in the specification; here the deliveries that
//! the terminals know to be committed are added. Two conditions are not of the specification: 13, the indexes have exactly the keys of the rows, and 14,
//! the rows are those of the acknowledged transactions.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;

use crate::keys::{CustomerKey, DistrictKey, OrderKey};
use crate::population::Scale;
use crate::tables::Tables;

/// The numbers of rows of the initial population and of the transactions that are acknowledged as committed.
#[derive(Debug, Clone, Default)]
pub(crate) struct AcknowledgedRows {
    /// Delivered orders of each district.
    pub(crate) delivered: BTreeMap<DistrictKey, u64>,
    pub(crate) orders: u64,
    /// Rows of HISTORY.
    pub(crate) payments: u64,
}

impl AcknowledgedRows {
    /// Those of the initial population.
    pub(crate) fn of(scale: Scale) -> AcknowledgedRows {
        let delivered = scale.districts().map(|district| (district, u64::from(scale.delivered()))).collect();
        let customers = scale.districts().count() as u64 * u64::from(scale.customers);
        AcknowledgedRows { delivered, orders: customers, payments: customers }
    }
}

/// One condition after its check.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ConditionResult {
    pub(crate) number: u8,
    pub(crate) about: &'static str,
    /// Districts, orders, lines or customers that violate it.
    pub(crate) violations: u64,
    /// The first of them.
    pub(crate) examples: Vec<String>,
}

/// Violations that are described; the others are counted.
const EXAMPLES: usize = 5;

/// One condition: it calls its argument with every violation.
type ConditionCheck = fn(&Tables, Option<&AcknowledgedRows>, &mut dyn FnMut(String));

const CONDITIONS: [(&str, ConditionCheck); 14] = [
    ("W_YTD = sum(D_YTD)", warehouse_totals),
    ("D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", next_orders),
    ("max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER", new_order_numbers),
    ("sum(O_OL_CNT) = rows of ORDER-LINE", lines_of_districts),
    ("O_CARRIER_ID is null if and only if NEW-ORDER has the order", carriers),
    ("O_OL_CNT = rows of ORDER-LINE of the order", lines_of_orders),
    ("OL_DELIVERY_D is null if and only if O_CARRIER_ID is null", delivery_dates),
    ("W_YTD = sum(H_AMOUNT)", warehouse_payments),
    ("D_YTD = sum(H_AMOUNT)", district_payments),
    ("C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)", balances),
    ("rows of ORDER - rows of NEW-ORDER = delivered orders", delivered_orders),
    ("C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)", balances_and_payments),
    ("the indexes have the keys of the rows", indexes),
    ("every acknowledged order and payment is there, and no other", acknowledged_rows),
];

/// Checks all conditions; without `expected`, which is unknown if an outcome is, not the conditions 11 and 14.
pub(crate) fn check(tables: &Tables, expected: Option<&AcknowledgedRows>) -> Vec<ConditionResult> {
    let checked = (1..).zip(CONDITIONS).map(|(number, (about, check))| {
        let mut result = ConditionResult { number, about, violations: 0, examples: Vec::new() };
        check(tables, expected, &mut |violation| {
            result.violations += 1;
            if result.examples.len() < EXAMPLES {
                result.examples.push(violation);
            }
        });
        result
    });
    checked.collect()
}

impl Display for DistrictKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "district {}.{}", self.warehouse, self.district)
    }
}

impl Display for OrderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "order {} of {}", self.order, self.district)
    }
}

impl Display for CustomerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "customer {} of {}", self.customer, self.district)
    }
}

fn sums<K: Ord, N: std::ops::AddAssign + Default>(values: impl Iterator<Item = (K, N)>) -> BTreeMap<K, N> {
    let mut sums = BTreeMap::new();
    for (key, value) in values {
        *sums.entry(key).or_default() += value;
    }
    sums
}

/// Reports every key whose values differ; an absent value counts as zero.
fn compare<K: Ord + Display, N: PartialEq + Default + Display + Copy>(
    (left_name, left): (&str, &BTreeMap<K, N>),
    (right_name, right): (&str, &BTreeMap<K, N>),
    report: &mut dyn FnMut(String),
) {
    let only_right = right.keys().filter(|key| !left.contains_key(key));
    for key in left.keys().chain(only_right) {
        let value = |of: &BTreeMap<K, N>| of.get(key).copied().unwrap_or_default();
        let (left, right) = (value(left), value(right));
        if left != right {
            report(format!("{key}: {left_name} {left}, {right_name} {right}"));
        }
    }
}

fn warehouse_totals(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let districts = sums(tables.district_totals.iter().map(|(district, ytd)| (district.warehouse, *ytd)));
    compare(("W_YTD", &tables.warehouses), ("sum(D_YTD)", &districts), report);
}

fn next_orders(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    for (district, next) in &tables.next_orders {
        let range = district.order(0)..=district.order(u32::MAX);
        let newest = tables.orders.range(range.clone()).next_back().map_or(0, |(order, _)| order.order);
        // If all orders of the district are delivered, it has none in NEW-ORDER.
        let newest_new = tables.new_orders.range(range).next_back().map_or(newest, |order| order.order);
        if [newest, newest_new] != [next.wrapping_sub(1); 2] {
            report(format!("{district}: D_NEXT_O_ID {next}, max(O_ID) {newest}, max(NO_O_ID) {newest_new}"));
        }
    }
}

fn new_order_numbers(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    for district in tables.next_orders.keys() {
        let mut orders = tables.new_orders.range(district.order(0)..=district.order(u32::MAX));
        let Some(first) = orders.next().map(|order| order.order) else { continue };
        let (behind, last) = orders.fold((0, first), |(count, _), order| (count + 1, order.order));
        if last - first != behind {
            let rows = behind + 1;
            report(format!("{district}: NEW-ORDER has {rows} rows from {first} to {last}"));
        }
    }
}

fn lines_of_districts(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let declared = sums(tables.orders.iter().map(|(key, order)| (key.district, u64::from(order.lines))));
    let present = sums(tables.lines.keys().map(|(order, _)| (order.district, 1)));
    compare(("sum(O_OL_CNT)", &declared), ("rows of ORDER-LINE", &present), report);
}

fn carriers(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    for (key, order) in &tables.orders {
        if order.carrier.is_none() != tables.new_orders.contains(key) {
            report(format!("{key}: carrier {:?}", order.carrier));
        }
    }
    for key in tables.new_orders.iter().filter(|key| !tables.orders.contains_key(key)) {
        report(format!("{key} is in NEW-ORDER alone"));
    }
}

fn lines_of_orders(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let declared = tables.orders.iter().map(|(key, order)| (*key, u64::from(order.lines))).collect();
    let present = sums(tables.lines.keys().map(|(order, _)| (*order, 1)));
    compare(("O_OL_CNT", &declared), ("rows of ORDER-LINE", &present), report);
}

fn delivery_dates(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    for ((key, number), line) in &tables.lines {
        let carrier = tables.orders.get(key).and_then(|order| order.carrier);
        if line.is_delivered != carrier.is_some() {
            report(format!("line {number} of {key}: delivered {}, carrier {carrier:?}", line.is_delivered));
        }
    }
}

fn warehouse_payments(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let paid = sums(tables.payments.iter().map(|payment| (payment.district.warehouse, payment.amount)));
    compare(("W_YTD", &tables.warehouses), ("sum(H_AMOUNT)", &paid), report);
}

fn district_payments(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let paid = sums(tables.payments.iter().map(|payment| (payment.district, payment.amount)));
    compare(("D_YTD", &tables.district_totals), ("sum(H_AMOUNT)", &paid), report);
}

/// The amounts of delivered lines by customer, as an iterator.
fn delivered_amounts(tables: &Tables) -> impl Iterator<Item = (CustomerKey, i64)> {
    tables.lines.iter().filter(|(_, line)| line.is_delivered).filter_map(|((key, _), line)| {
        let customer = key.district.customer(tables.orders.get(key)?.customer);
        Some((customer, line.amount))
    })
}

fn balances(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let paid = tables.payments.iter().map(|payment| (payment.customer, -payment.amount));
    let due = sums(delivered_amounts(tables).chain(paid));
    let balances = tables.customers.iter().map(|(key, account)| (*key, account.balance)).collect();
    compare(("C_BALANCE", &balances), ("sum(OL_AMOUNT) - sum(H_AMOUNT)", &due), report);
}

fn delivered_orders(tables: &Tables, expected: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let Some(expected) = expected else { return };
    let orders = tables.orders.keys().map(|key| (key.district, 1_i64));
    let delivered = sums(orders.chain(tables.new_orders.iter().map(|key| (key.district, -1))));
    let expected = expected.delivered.iter().map(|(district, count)| (*district, *count as i64)).collect();
    compare(("rows of ORDER - NEW-ORDER", &delivered), ("delivered orders", &expected), report);
}

fn balances_and_payments(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let delivered = sums(delivered_amounts(tables));
    let due = |account: &crate::rows::Account| account.balance + account.ytd_payment;
    let accounts = tables.customers.iter().map(|(key, account)| (*key, due(account))).collect();
    compare(("C_BALANCE + C_YTD_PAYMENT", &accounts), ("sum(OL_AMOUNT)", &delivered), report);
}

fn indexes(tables: &Tables, _: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    if tables.names != tables.customers.len() {
        report(format!("{} names of {} customers", tables.names, tables.customers.len()));
    }
    for (key, order) in &tables.orders {
        if !tables.customer_orders.contains(&(key.district.customer(order.customer), key.order)) {
            report(format!("{key} is not in the index of its customer {}", order.customer));
        }
    }
    if tables.customer_orders.len() != tables.orders.len() {
        report(format!("{} keys of {} orders", tables.customer_orders.len(), tables.orders.len()));
    }
}

fn acknowledged_rows(tables: &Tables, expected: Option<&AcknowledgedRows>, report: &mut dyn FnMut(String)) {
    let Some(expected) = expected else { return };
    let (orders, payments) = (tables.orders.len() as u64, tables.payments.len() as u64);
    if (orders, payments) != (expected.orders, expected.payments) {
        let AcknowledgedRows { orders: more, payments: paid, .. } = expected;
        report(format!("{orders} orders and {payments} payments, acknowledged {more} and {paid}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::TableRow;
    use crate::random::Random;
    use crate::tables::PaymentRow;

    const SCALE: Scale = Scale { warehouses: 2, customers: 20, items: 10 };
    const DISTRICT: DistrictKey = DistrictKey { warehouse: 1, district: 3 };

    fn populated() -> (Tables, AcknowledgedRows) {
        let (mut tables, mut random) = (Tables::default(), Random::new(5));
        let mut add = |row: TableRow| {
            match &row {
                TableRow::Order(key, order) => {
                    tables.customer_orders.insert((key.district.customer(order.customer), key.order));
                }
                TableRow::Customer(..) => tables.names += 1,
                _ => {}
            }
            tables.add(row);
        };
        (1..=SCALE.warehouses).for_each(|warehouse| SCALE.warehouse(warehouse, &mut random, &mut add));
        SCALE.districts().for_each(|district| SCALE.district(district, 1, &mut random, &mut add));
        (tables, AcknowledgedRows::of(SCALE))
    }

    /// The conditions that are violated after a change of the initial population.
    fn violated(change: impl FnOnce(&mut Tables)) -> Vec<u8> {
        let (mut tables, expected) = populated();
        change(&mut tables);
        let results = check(&tables, Some(&expected));
        results.iter().filter(|result| result.violations > 0).map(|result| result.number).collect()
    }

    /// An undelivered order, and a customer.
    fn undelivered() -> OrderKey {
        DISTRICT.order(SCALE.delivered() + 2)
    }

    #[test]
    fn initial_population_meets_all_conditions() {
        assert_eq!(violated(|_| {}), [0_u8; 0]);
    }

    #[test]
    fn wrong_sum_of_districts_violates_the_first_condition() {
        // The conditions 8 and 9 together imply the first one.
        let broken = violated(|tables| *tables.district_totals.get_mut(&DISTRICT).unwrap() += 5);
        assert_eq!(broken, [1, 9]);
    }

    #[test]
    fn skipped_order_number_violates_the_second_condition() {
        assert_eq!(violated(|tables| *tables.next_orders.get_mut(&DISTRICT).unwrap() += 1), [2]);
    }

    #[test]
    fn gap_in_new_orders_violates_the_third_condition() {
        // The order within the gap is gone completely, also from the sums.
        let broken = violated(|tables| {
            let gap = undelivered();
            tables.new_orders.remove(&gap);
            let order = tables.orders.remove(&gap).unwrap();
            tables.lines.retain(|(key, _), _| *key != gap);
            tables.customer_orders.remove(&(DISTRICT.customer(order.customer), gap.order));
        });
        // The last condition counts the rows.
        assert_eq!(broken, [3, 14]);
    }

    #[test]
    fn lost_line_violates_the_fourth_and_sixth_condition() {
        // The sixth condition implies the fourth one.
        assert_eq!(violated(|tables| assert!(tables.lines.remove(&(undelivered(), 1)).is_some())), [4, 6]);
    }

    #[test]
    fn order_without_carrier_outside_of_new_orders_violates_the_fifth_condition() {
        // The delivered order with the highest number: no gap arises.
        let broken = violated(|tables| {
            let newest = DISTRICT.order(SCALE.delivered());
            tables.orders.get_mut(&newest).unwrap().carrier = None;
            tables.lines.iter_mut().filter(|((key, _), _)| *key == newest).for_each(|(_, line)| {
                line.is_delivered = false;
            });
        });
        assert_eq!(broken, [5]);
    }

    #[test]
    fn line_in_the_wrong_order_violates_the_sixth_condition() {
        let broken = violated(|tables| {
            let line = tables.lines.remove(&(undelivered(), 1)).unwrap();
            tables.lines.insert((DISTRICT.order(undelivered().order + 1), 99), line);
        });
        assert_eq!(broken, [6]);
    }

    #[test]
    fn delivered_line_of_new_order_violates_the_seventh_condition() {
        let broken = violated(|tables| {
            let line = tables.lines.get_mut(&(undelivered(), 1)).unwrap();
            (line.is_delivered, line.amount) = (true, 0);
        });
        assert_eq!(broken, [7]);
    }

    #[test]
    fn wrong_warehouse_of_payment_violates_the_eighth_condition() {
        // The conditions 1 and 9 together imply this one.
        let broken = violated(|tables| {
            *tables.warehouses.get_mut(&1).unwrap() += 5;
            *tables.district_totals.get_mut(&DISTRICT).unwrap() += 5;
        });
        assert_eq!(broken, [8, 9]);
    }

    #[test]
    fn wrong_district_of_payment_violates_the_ninth_condition() {
        let broken = violated(|tables| tables.payments[0].district.district = 2);
        assert_eq!(broken, [9]);
    }

    #[test]
    fn payment_of_another_customer_violates_the_tenth_condition() {
        let broken = violated(|tables| tables.payments[0].customer.customer += 1);
        assert_eq!(broken, [10]);
    }

    #[test]
    fn unreported_delivery_violates_the_eleventh_condition() {
        let (tables, mut expected) = populated();
        *expected.delivered.get_mut(&DISTRICT).unwrap() += 1;
        let results = check(&tables, Some(&expected));
        let violated: Vec<u8> =
            results.iter().filter(|one| one.violations > 0).map(|one| one.number).collect();
        assert_eq!(violated, [11]);
        assert!(results[10].examples[0].contains("district 1.3"), "{results:?}");
    }

    #[test]
    fn wrong_sum_of_payments_violates_the_twelfth_condition() {
        let broken = violated(|tables| {
            tables.customers.get_mut(&DISTRICT.customer(4)).unwrap().ytd_payment += 1;
        });
        assert_eq!(broken, [12]);
    }

    #[test]
    fn missing_key_of_index_violates_the_thirteenth_condition() {
        assert_eq!(violated(|tables| assert!(tables.customer_orders.pop_first().is_some())), [13]);
        assert_eq!(violated(|tables| tables.names -= 1), [13]);
    }

    #[test]
    fn payment_that_none_acknowledged_violates_the_last_condition() {
        // Its amount is nothing, so that no sum shows it.
        let broken =
            violated(|tables| tables.payments.push(PaymentRow { amount: 0, ..tables.payments[0].clone() }));
        assert_eq!(broken, [14]);
    }
}
