//! The inputs of the transactions (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1), and their mix (clause 5.2.3).

use crate::keys::DistrictKey;
use crate::population::{DISTRICTS, Scale};
use crate::random::Random;

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TransactionKind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl TransactionKind {
    /// All of them with their shares in percent.
    pub(crate) const MIX: [(TransactionKind, usize); 5] = [
        (TransactionKind::NewOrder, 45),
        (TransactionKind::Payment, 43),
        (TransactionKind::OrderStatus, 4),
        (TransactionKind::Delivery, 4),
        (TransactionKind::StockLevel, 4),
    ];

    /// The name in the specification.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TransactionKind::NewOrder => "New-Order",
            TransactionKind::Payment => "Payment",
            TransactionKind::OrderStatus => "Order-Status",
            TransactionKind::Delivery => "Delivery",
            TransactionKind::StockLevel => "Stock-Level",
        }
    }
}

/// The input of one transaction.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    NewOrder(NewOrderInput),
    Payment(PaymentInput),
    OrderStatus { district: DistrictKey, customer: CustomerChoice },
    Delivery { warehouse: u32, carrier: u8 },
    StockLevel { district: DistrictKey, threshold: i64 },
}

/// The input of New-Order.
#[derive(Debug, Clone)]
pub(crate) struct NewOrderInput {
    pub(crate) district: DistrictKey,
    pub(crate) customer: u32,
    pub(crate) lines: Vec<OrderedItem>,
}

/// A line of New-Order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderedItem {
    pub(crate) item: u32,
    pub(crate) supplier: u32,
    pub(crate) quantity: u8,
}

/// The input of Payment.
#[derive(Debug, Clone)]
pub(crate) struct PaymentInput {
    /// Where it is paid.
    pub(crate) district: DistrictKey,
    /// The district of the customer.
    pub(crate) home: DistrictKey,
    pub(crate) customer: CustomerChoice,
    pub(crate) amount: i64,
}

/// How a customer is selected.
#[derive(Debug, Clone)]
pub(crate) enum CustomerChoice {
    Number(u32),
    LastName(String),
}

/// A terminal: it draws transactions of its warehouse.
pub(crate) struct InputSource {
    scale: Scale,
    /// The warehouse, and the district of Stock-Level.
    home: DistrictKey,
    random: Random,
    /// A deck of 100 cards in the proportions of the mix (clause 5.2.4.2).
    deck: Vec<TransactionKind>,
}

impl InputSource {
    pub(crate) fn new(scale: Scale, home: DistrictKey, seed: u64) -> InputSource {
        InputSource { scale, home, random: Random::new(seed), deck: Vec::new() }
    }

    /// The next transaction.
    pub(crate) fn next(&mut self) -> (TransactionKind, Input) {
        let kind = match self.deck.pop() {
            Some(kind) => kind,
            None => {
                let cards = TransactionKind::MIX.iter();
                self.deck = cards.flat_map(|(kind, share)| std::iter::repeat_n(*kind, *share)).collect();
                self.random.shuffle(&mut self.deck);
                self.deck.pop().unwrap_or(TransactionKind::NewOrder)
            }
        };
        let input = match kind {
            TransactionKind::NewOrder => Input::NewOrder(self.new_order()),
            TransactionKind::Payment => Input::Payment(self.payment()),
            TransactionKind::OrderStatus => {
                Input::OrderStatus { district: self.district(), customer: self.customer() }
            }
            TransactionKind::Delivery => {
                Input::Delivery { warehouse: self.home.warehouse, carrier: self.random.within(1, 10) as u8 }
            }
            TransactionKind::StockLevel => {
                Input::StockLevel { district: self.home, threshold: self.random.within(10, 20) as i64 }
            }
        };
        (kind, input)
    }

    fn new_order(&mut self) -> NewOrderInput {
        let district = self.district();
        let customer = self.random.customer(self.scale.customers);
        let count = self.random.within(5, 15);
        let mut lines: Vec<OrderedItem> = (0..count)
            .map(|_| OrderedItem {
                item: self.random.item(self.scale.items),
                supplier: if self.random.percent(1) { self.other_warehouse() } else { self.home.warehouse },
                quantity: self.random.within(1, 10) as u8,
            })
            .collect();
        // One in a hundred has an unused item at the end, and is rolled back (clause 2.4.1.4).
        if let (true, Some(last)) = (self.random.percent(1), lines.last_mut()) {
            last.item = self.scale.items + 1;
        }
        NewOrderInput { district, customer, lines }
    }

    fn payment(&mut self) -> PaymentInput {
        let district = self.district();
        let is_remote = self.random.percent(15) && self.scale.warehouses > 1;
        let home = match is_remote {
            true => DistrictKey { warehouse: self.other_warehouse(), ..self.district() },
            false => district,
        };
        PaymentInput {
            district,
            home,
            customer: self.customer(),
            amount: self.random.within(100, 500_000) as i64,
        }
    }

    fn district(&mut self) -> DistrictKey {
        DistrictKey { district: self.random.within(1, u64::from(DISTRICTS)) as u8, ..self.home }
    }

    /// By last name in 60 of 100 cases.
    fn customer(&mut self) -> CustomerChoice {
        match self.random.percent(60) {
            true => CustomerChoice::LastName(self.random.last_name_of_run(self.scale.customers)),
            false => CustomerChoice::Number(self.random.customer(self.scale.customers)),
        }
    }

    /// Another warehouse than the home one, if there is one.
    fn other_warehouse(&mut self) -> u32 {
        if self.scale.warehouses == 1 {
            return self.home.warehouse;
        }
        let drawn = self.random.within(1, u64::from(self.scale.warehouses) - 1) as u32;
        if drawn < self.home.warehouse { drawn } else { drawn + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_and_choices_have_their_shares() {
        let scale = Scale { warehouses: 3, customers: 3000, items: 100_000 };
        let home = DistrictKey { warehouse: 2, district: 4 };
        let mut source = InputSource::new(scale, home, 1);
        let (mut orders, mut rolled_back, mut payments, mut remote, mut by_name) = (0, 0, 0, 0, 0);
        for _ in 0..20_000 {
            match source.next().1 {
                Input::NewOrder(order) => {
                    orders += 1;
                    assert!((5..=15).contains(&order.lines.len()));
                    rolled_back += u32::from(order.lines.iter().any(|line| line.item > scale.items));
                }
                Input::Payment(payment) => {
                    payments += 1;
                    remote += u32::from(payment.home.warehouse != 2);
                    by_name += u32::from(matches!(payment.customer, CustomerChoice::LastName(_)));
                }
                _ => {}
            }
        }
        assert_eq!((orders, payments), (9000, 8600));
        assert!((50..150).contains(&rolled_back), "{rolled_back}");
        assert!((1100..1500).contains(&remote), "{remote}");
        assert!((4900..5400).contains(&by_name), "{by_name}");
    }

    #[test]
    fn single_warehouse_has_no_remote_one() {
        let scale = Scale { warehouses: 1, customers: 30, items: 100 };
        let mut source = InputSource::new(scale, DistrictKey { warehouse: 1, district: 1 }, 1);
        for _ in 0..2000 {
            match source.next().1 {
                Input::Payment(payment) => assert_eq!(payment.home, payment.district),
                Input::NewOrder(order) => assert!(order.lines.iter().all(|line| line.supplier == 1)),
                _ => {}
            }
        }
    }
}
