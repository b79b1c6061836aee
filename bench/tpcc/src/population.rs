//! The initial population of the tables (clause 4.3.3.1), possibly scaled down: fewer customers and orders per district, and fewer items.

use crate::keys::{CustomerKey, DistrictKey, OrderKey};
use crate::random::{Random, last_name};
use crate::rows::{
    Account, Address, Credit, Customer, CustomerColumns, CustomerName, History, Item, Order, OrderLine, Site,
    Stock, Total,
};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u8 = 10;

/// The size of the population.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) warehouses: u32,
    /// Customers per district, and as many orders.
    pub(crate) customers: u32,
    pub(crate) items: u32,
}

/// A row of the population with its identifiers.
#[derive(Debug, Clone)]
pub(crate) enum TableRow {
    Warehouse(u32, Site),
    WarehouseTotal(u32, Total),
    District(DistrictKey, Site),
    DistrictTotal(DistrictKey, Total),
    NextOrder(DistrictKey, u32),
    Customer(CustomerKey, Customer),
    History(DistrictKey, u64, History),
    Order(OrderKey, Order),
    NewOrder(OrderKey),
    OrderLine(OrderKey, u8, OrderLine),
    Item(u32, Item),
    Stock(u32, u32, Stock),
}

/// The first payment of every customer, in cents.
const FIRST_PAYMENT: i64 = 1000;
/// The limit of every customer's credit, in cents.
const CREDIT_LIMIT: i64 = 5_000_000;

impl Scale {
    /// Orders of each district that are delivered in the initial population: 2,100 of 3,000.
    pub(crate) fn delivered(self) -> u32 {
        self.customers * 7 / 10
    }

    /// All districts.
    pub(crate) fn districts(self) -> impl Iterator<Item = DistrictKey> {
        (1..=self.warehouses)
            .flat_map(|warehouse| (1..=DISTRICTS).map(move |district| DistrictKey { warehouse, district }))
    }

    /// The number of records, about: an order counts with its mean of ten lines.
    pub(crate) fn records(self) -> u64 {
        let (customers, items) = (u64::from(self.customers), u64::from(self.items));
        // Customer, name, payment, order, customer of the order, ten lines.
        let of_district = 3 + 15 * customers + customers - u64::from(self.delivered());
        items + u64::from(self.warehouses) * (2 + items + u64::from(DISTRICTS) * of_district)
    }

    /// Generates the items.
    pub(crate) fn items(self, random: &mut Random, add: &mut impl FnMut(TableRow)) {
        for number in 1..=self.items {
            let item = Item {
                image: random.within(1, 10_000) as u32,
                name: random.text(14, 24),
                price: random.within(100, 10_000) as i64,
                data: random.data(),
            };
            add(TableRow::Item(number, item));
        }
    }

    /// Generates a warehouse, without its districts.
    pub(crate) fn warehouse(self, warehouse: u32, random: &mut Random, add: &mut impl FnMut(TableRow)) {
        add(TableRow::Warehouse(warehouse, site(random)));
        let ytd = FIRST_PAYMENT * i64::from(self.customers) * i64::from(DISTRICTS);
        add(TableRow::WarehouseTotal(warehouse, Total { ytd }));
        for item in 1..=self.items {
            let stock = Stock {
                quantity: random.within(10, 100) as i64,
                district_infos: std::array::from_fn(|_| random.text(24, 24)),
                ytd: 0,
                orders: 0,
                remote_orders: 0,
                data: random.data(),
            };
            add(TableRow::Stock(warehouse, item, stock));
        }
    }

    /// Generates a district with its customers and orders, at this time.
    pub(crate) fn district(
        self,
        district: DistrictKey,
        time: u64,
        random: &mut Random,
        add: &mut impl FnMut(TableRow),
    ) {
        add(TableRow::District(district, site(random)));
        add(TableRow::DistrictTotal(district, Total { ytd: FIRST_PAYMENT * i64::from(self.customers) }));
        add(TableRow::NextOrder(district, self.customers + 1));
        for number in 1..=self.customers {
            add(TableRow::Customer(district.customer(number), customer(number, time, random)));
            let customer = CustomerColumns {
                warehouse: district.warehouse,
                district: district.district,
                customer: number,
            };
            let payment = History { customer, date: time, amount: FIRST_PAYMENT, data: random.text(12, 24) };
            add(TableRow::History(district, u64::from(number), payment));
        }
        let mut customers: Vec<u32> = (1..=self.customers).collect();
        random.shuffle(&mut customers);
        for (number, customer) in (1..).zip(customers) {
            self.order(district.order(number), customer, time, random, add);
        }
    }

    fn order(
        self,
        key: OrderKey,
        customer: u32,
        time: u64,
        random: &mut Random,
        add: &mut impl FnMut(TableRow),
    ) {
        let is_delivered = key.order <= self.delivered();
        let order = Order {
            customer,
            entered: time,
            carrier: is_delivered.then(|| random.within(1, 10) as u8),
            lines: random.within(5, 15) as u8,
            is_local: true,
        };
        for number in 1..=order.lines {
            let line = OrderLine {
                item: random.within(1, u64::from(self.items)) as u32,
                supplier: key.district.warehouse,
                delivered: is_delivered.then_some(time),
                quantity: 5,
                amount: if is_delivered { 0 } else { random.within(1, 999_999) as i64 },
                district_info: random.text(24, 24),
            };
            add(TableRow::OrderLine(key, number, line));
        }
        add(TableRow::Order(key, order));
        if !is_delivered {
            add(TableRow::NewOrder(key));
        }
    }
}

fn address(random: &mut Random) -> Address {
    Address {
        streets: [random.text(10, 20), random.text(10, 20)],
        city: random.text(10, 20),
        state: random.text(2, 2),
        zip: random.zip(),
    }
}

fn site(random: &mut Random) -> Site {
    Site { name: random.text(6, 10), address: address(random), tax: random.within(0, 2000) as u16 }
}

fn customer(number: u32, time: u64, random: &mut Random) -> Customer {
    let last = match number {
        1..=1000 => last_name(u64::from(number) - 1),
        _ => random.last_name_of_population(),
    };
    Customer {
        name: CustomerName { first: random.text(8, 16), middle: "OE".to_owned(), last },
        address: address(random),
        phone: random.digits(16),
        since: time,
        credit: Credit {
            is_good: !random.percent(10),
            limit: CREDIT_LIMIT,
            discount: random.within(0, 5000) as u16,
        },
        account: Account { balance: -FIRST_PAYMENT, ytd_payment: FIRST_PAYMENT, payments: 1, deliveries: 0 },
        data: random.text(300, 500),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn population_has_the_proportions_of_the_specification() {
        let scale = Scale { warehouses: 1, customers: 3000, items: 100 };
        let district = DistrictKey { warehouse: 1, district: 1 };
        let (mut bad, mut undelivered, mut new_orders, mut lines) = (0, 0, 0, 0);
        scale.district(district, 5, &mut Random::new(1), &mut |row| match row {
            TableRow::Customer(_, customer) => bad += u32::from(!customer.credit.is_good),
            TableRow::Order(_, order) => undelivered += u32::from(order.carrier.is_none()),
            TableRow::NewOrder(order) => {
                assert!(order.order > 2100);
                new_orders += 1;
            }
            TableRow::OrderLine(_, _, line) => {
                assert_eq!(line.delivered.is_some(), line.amount == 0);
                lines += 1;
            }
            _ => {}
        });
        assert_eq!((undelivered, new_orders), (900, 900));
        assert!((240..360).contains(&bad), "{bad}");
        assert!((29_000..31_000).contains(&lines), "{lines}");
    }
}
