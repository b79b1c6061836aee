//! The keys of the records. Numbers are big-endian, so that the keys of a table are in the order of its primary key (clause 1.3).
//!
//! ```text
//!   warehouse           W part            part 0: Site, part 1: Total
//!   district            W D part          part 0: Site, part 1: Total, part 2: D_NEXT_O_ID
//!   customer            W D C
//!   history             W D number
//!   orders, new_order   W D O
//!   order_line          W D O line
//!   stock               W I
//!   item                I
//!   customer_by_name    W D C_LAST 0 C_FIRST 0 C      no value
//!   orders_by_customer  W D C O                       no value
//! ```
//!
//! W, C, O and I have four bytes, D, part and line one, the number of a payment eight.

/// A district of a warehouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DistrictKey {
    pub(crate) warehouse: u32,
    pub(crate) district: u8,
}

/// A customer of a district.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CustomerKey {
    pub(crate) district: DistrictKey,
    pub(crate) customer: u32,
}

/// An order of a district.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    pub(crate) district: DistrictKey,
    pub(crate) order: u32,
}

/// The record of the columns that do not change.
pub(crate) const SITE: u8 = 0;
/// The record of W_YTD or D_YTD.
pub(crate) const TOTAL: u8 = 1;
/// The record of D_NEXT_O_ID.
pub(crate) const NEXT_ORDER: u8 = 2;
/// The key by whose update lock the deliveries of a warehouse follow each other. It has no record.
pub(crate) const DELIVERY: u8 = 3;

/// The key of a part of a warehouse.
pub(crate) fn warehouse(warehouse: u32, part: u8) -> Vec<u8> {
    [&warehouse.to_be_bytes()[..], &[part]].concat()
}

/// The key of a stock row.
pub(crate) fn stock(warehouse: u32, item: u32) -> Vec<u8> {
    [warehouse.to_be_bytes(), item.to_be_bytes()].concat()
}

/// The key of an item.
pub(crate) fn item(item: u32) -> Vec<u8> {
    item.to_be_bytes().to_vec()
}

impl DistrictKey {
    /// The prefix of all keys of the district.
    pub(crate) fn prefix(self) -> Vec<u8> {
        [&self.warehouse.to_be_bytes()[..], &[self.district]].concat()
    }

    /// The key of a part of the district.
    pub(crate) fn part(self, part: u8) -> Vec<u8> {
        self.with(&[part])
    }

    /// The key of a payment.
    pub(crate) fn history(self, number: u64) -> Vec<u8> {
        self.with(&number.to_be_bytes())
    }

    /// A customer of it.
    pub(crate) fn customer(self, customer: u32) -> CustomerKey {
        CustomerKey { district: self, customer }
    }

    /// An order of it.
    pub(crate) fn order(self, order: u32) -> OrderKey {
        OrderKey { district: self, order }
    }

    /// The prefix of the names of its customers with this last name.
    pub(crate) fn last_name(self, last: &str) -> Vec<u8> {
        self.with(&[last.as_bytes(), &[0]].concat())
    }

    /// The key of a customer in the index of names.
    pub(crate) fn name(self, last: &str, first: &str, customer: u32) -> Vec<u8> {
        [&self.last_name(last), first.as_bytes(), &[0], &customer.to_be_bytes()].concat()
    }

    fn with(self, behind: &[u8]) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(behind);
        key
    }

    fn parse(key: &[u8]) -> Option<(DistrictKey, &[u8])> {
        let (warehouse, rest) = key.split_first_chunk()?;
        let (district, rest) = rest.split_first()?;
        Some((DistrictKey { warehouse: u32::from_be_bytes(*warehouse), district: *district }, rest))
    }
}

impl CustomerKey {
    /// The key of the customer's row.
    pub(crate) fn row(self) -> Vec<u8> {
        self.district.with(&self.customer.to_be_bytes())
    }

    /// The key of an order in the index of customers.
    pub(crate) fn order(self, order: u32) -> Vec<u8> {
        [self.row(), order.to_be_bytes().to_vec()].concat()
    }
}

impl OrderKey {
    /// The key of the order in ORDER and NEW-ORDER.
    pub(crate) fn row(self) -> Vec<u8> {
        self.district.with(&self.order.to_be_bytes())
    }

    /// The key of a line of the order.
    pub(crate) fn line(self, line: u8) -> Vec<u8> {
        [&self.row()[..], &[line]].concat()
    }
}

/// The warehouse and part of a key.
pub(crate) fn parse_warehouse(key: &[u8]) -> Option<(u32, u8)> {
    match key.split_first_chunk()? {
        (warehouse, [part]) => Some((u32::from_be_bytes(*warehouse), *part)),
        _ => None,
    }
}

/// The district and part of a key.
pub(crate) fn parse_district(key: &[u8]) -> Option<(DistrictKey, u8)> {
    match DistrictKey::parse(key)? {
        (district, [part]) => Some((district, *part)),
        _ => None,
    }
}

/// The district and number of a payment.
pub(crate) fn parse_history(key: &[u8]) -> Option<(DistrictKey, u64)> {
    let (district, rest) = DistrictKey::parse(key)?;
    Some((district, u64::from_be_bytes(rest.try_into().ok()?)))
}

/// The customer of a key.
pub(crate) fn parse_customer(key: &[u8]) -> Option<CustomerKey> {
    let (district, rest) = DistrictKey::parse(key)?;
    Some(district.customer(u32::from_be_bytes(rest.try_into().ok()?)))
}

/// The order of a key.
pub(crate) fn parse_order(key: &[u8]) -> Option<OrderKey> {
    let (district, rest) = DistrictKey::parse(key)?;
    Some(district.order(u32::from_be_bytes(rest.try_into().ok()?)))
}

/// The order and line of a key.
pub(crate) fn parse_line(key: &[u8]) -> Option<(OrderKey, u8)> {
    let (line, order) = key.split_last()?;
    Some((parse_order(order)?, *line))
}

/// The number at the end of a key of an index: of the customer, or of the order.
pub(crate) fn last_number(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|number| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn district_key() -> impl Strategy<Value = DistrictKey> {
        (any::<u32>(), any::<u8>()).prop_map(|(warehouse, district)| DistrictKey { warehouse, district })
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_their_numbers(
            a in (district_key(), any::<u32>(), any::<u8>()),
            b in (district_key(), any::<u32>(), any::<u8>()),
        ) {
            let line = |(district, order, line): (DistrictKey, u32, u8)| district.order(order).line(line);
            prop_assert_eq!(line(a).cmp(&line(b)), a.cmp(&b));
        }

        #[test]
        fn parsed_keys_have_the_numbers_they_were_made_of(
            district in district_key(),
            number in any::<u32>(),
            payment in any::<u64>(),
            part in any::<u8>(),
        ) {
            let order = district.order(number);
            prop_assert_eq!(parse_order(&order.row()), Some(order));
            prop_assert_eq!(parse_line(&order.line(part)), Some((order, part)));
            prop_assert_eq!(parse_customer(&district.customer(number).row()), Some(district.customer(number)));
            prop_assert_eq!(parse_history(&district.history(payment)), Some((district, payment)));
            prop_assert_eq!(parse_district(&district.part(part)), Some((district, part)));
            prop_assert_eq!(parse_warehouse(&warehouse(number, part)), Some((number, part)));
            prop_assert_eq!(last_number(&district.name("BAR", "ann", number)), Some(number));
            prop_assert_eq!(last_number(&district.customer(7).order(number)), Some(number));
            prop_assert_eq!(parse_order(&order.line(part)), None);
        }
    }

    #[test]
    fn names_are_in_the_order_of_first_names_within_a_last_name() {
        let district = DistrictKey { warehouse: 1, district: 2 };
        let mut keys = [("BARBAR", "a", 4), ("BAR", "z", 1), ("BAR", "b", 3), ("BAR", "ab", 2)]
            .map(|(last, first, customer)| district.name(last, first, customer));
        keys.sort();
        assert_eq!(keys.map(|key| last_number(&key)), [Some(2), Some(3), Some(1), Some(4)]);
        assert!(district.name("BAR", "b", 3).starts_with(&district.last_name("BAR")));
        assert!(!district.name("BARBAR", "b", 3).starts_with(&district.last_name("BAR")));
    }
}
