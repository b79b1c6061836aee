//! The computations of the transactions that are the same for every database.

use crate::keys::{CustomerKey, DistrictKey};
use crate::rows::{Account, Credit, Stock};

/// The longest C_DATA.
const DATA_CHARACTERS: usize = 500;

/// The newest orders of a district whose items Stock-Level counts.
pub(crate) const STOCK_LEVEL_ORDERS: u32 = 20;

/// sum(OL_AMOUNT) * (1 - C_DISCOUNT) * (1 + W_TAX + D_TAX), in cents.
pub(crate) fn total(sum: i64, discount: u16, warehouse_tax: u16, district_tax: u16) -> i64 {
    let discounted = sum * (10_000 - i64::from(discount)) / 10_000;
    discounted * (10_000 + i64::from(warehouse_tax) + i64::from(district_tax)) / 10_000
}

/// The middle one of the customers with a last name, in the order of first names (clause 2.5.2.2).
pub(crate) fn middle(customers: &[u32]) -> Option<u32> {
    customers.len().div_ceil(2).checked_sub(1).map(|at| customers[at])
}

/// H_DATA (clause 2.5.2.2).
pub(crate) fn payment_data(warehouse_name: &str, district_name: &str) -> String {
    format!("{warehouse_name}    {district_name}")
}

/// Takes a payment at a district. The data of a customer with bad credit begins with it (clause 2.5.2.2).
pub(crate) fn pay(
    (account, credit, data): (&mut Account, &Credit, &mut String),
    key: CustomerKey,
    at: DistrictKey,
    amount: i64,
) {
    account.balance -= amount;
    account.ytd_payment += amount;
    account.payments += 1;
    if !credit.is_good {
        let CustomerKey { customer, district: home } = key;
        let (home_warehouse, home_district) = (home.warehouse, home.district);
        let entry =
            format!("{customer} {home_district} {home_warehouse} {} {} {amount}|", at.district, at.warehouse);
        data.insert_str(0, &entry);
        data.truncate(DATA_CHARACTERS);
    }
}

impl Stock {
    /// Takes a quantity out of the stock, which is filled up when fewer than ten would remain (clause 2.4.2.2).
    pub(crate) fn order(&mut self, quantity: u8, is_remote: bool) {
        let ordered = i64::from(quantity);
        let refill = if self.quantity >= ordered + 10 { 0 } else { 91 };
        self.quantity += refill - ordered;
        self.ytd += u32::from(quantity);
        self.orders += 1;
        self.remote_orders += u32::from(is_remote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_filled_up_before_fewer_than_ten_remain() {
        let mut stock = Stock {
            quantity: 20,
            district_infos: std::array::from_fn(|_| String::new()),
            ytd: 0,
            orders: 0,
            remote_orders: 0,
            data: String::new(),
        };
        stock.order(10, false);
        assert_eq!((stock.quantity, stock.ytd, stock.orders, stock.remote_orders), (10, 10, 1, 0));
        stock.order(5, true);
        assert_eq!((stock.quantity, stock.ytd, stock.orders, stock.remote_orders), (96, 15, 2, 1));
    }

    #[test]
    fn middle_customer_is_at_half_rounded_up() {
        assert_eq!(
            [middle(&[]), middle(&[7]), middle(&[7, 8]), middle(&[7, 8, 9])],
            [None, Some(7), Some(7), Some(8)]
        );
    }

    #[test]
    fn data_of_bad_credit_begins_with_the_payment_and_stays_short() {
        let at = DistrictKey { warehouse: 2, district: 3 };
        let key = DistrictKey { warehouse: 1, district: 9 }.customer(44);
        let mut account = Account { balance: -1000, ytd_payment: 1000, payments: 1, deliveries: 0 };
        let mut data = "x".repeat(DATA_CHARACTERS);
        let credit = |is_good| Credit { is_good, limit: 1, discount: 0 };
        pay((&mut account, &credit(true), &mut data), key, at, 50);
        assert!(data.starts_with('x'));
        pay((&mut account, &credit(false), &mut data), key, at, 50);
        assert!(data.starts_with("44 9 1 3 2 50|x") && data.len() == DATA_CHARACTERS, "{data}");
        assert_eq!(account, Account { balance: -1100, ytd_payment: 1100, payments: 3, deliveries: 0 });
    }
}
