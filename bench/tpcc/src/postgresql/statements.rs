//! The statements of the transactions, prepared once on each connection.

/// A prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    WarehouseTax,
    DistrictTax,
    TakeOrderNumber,
    Discount,
    Items,
    StocksForUpdate,
    UpdateStocks,
    InsertOrder,
    InsertNewOrder,
    InsertLines,
    Warehouse,
    District,
    CustomersByName,
    CustomerForUpdate,
    Pay,
    PayWithData,
    InsertHistory,
    AddToDistrict,
    AddToWarehouse,
    OldestForUpdate,
    ShareOrderNumber,
    RemoveNewOrders,
    SetCarriers,
    DeliverLines,
    AddToBalances,
    Balance,
    NewestOrder,
    Lines,
    NextOrder,
    CountLowStock,
}

/// All of them, in the order of the enumeration.
///
/// Several rows are given as arrays, one for each column. Locks are taken in the order of the primary key, so that transactions wait for each
/// other without a deadlock.
pub(super) const QUERIES: [(Query, &str); 30] = [
    (Query::WarehouseTax, "SELECT tax FROM warehouse WHERE w_id = $1"),
    (Query::DistrictTax, "SELECT tax FROM district WHERE w_id = $1 AND d_id = $2"),
    (
        Query::TakeOrderNumber,
        "UPDATE next_order SET next = next + 1 WHERE w_id = $1 AND d_id = $2 RETURNING next - 1",
    ),
    (
        Query::Discount,
        "SELECT discount, last, is_good FROM customer WHERE w_id = $1 AND d_id = $2 AND c_id = $3",
    ),
    (Query::Items, "SELECT i_id, price, name, data FROM item WHERE i_id = ANY($1)"),
    (
        Query::StocksForUpdate,
        "SELECT stock.w_id, stock.i_id, quantity, district_infos, ytd, orders, remote_orders, data \
         FROM unnest($1::int[], $2::int[]) AS wanted (w_id, i_id) JOIN stock USING (w_id, i_id) \
         ORDER BY stock.w_id, stock.i_id FOR UPDATE OF stock",
    ),
    (
        Query::UpdateStocks,
        "UPDATE stock SET quantity = new.quantity, ytd = new.ytd, orders = new.orders, remote_orders = new.remote_orders \
         FROM unnest($1::int[], $2::int[], $3::bigint[], $4::int[], $5::int[], $6::int[]) \
         AS new (w_id, i_id, quantity, ytd, orders, remote_orders) WHERE stock.w_id = new.w_id AND stock.i_id = new.i_id",
    ),
    (Query::InsertOrder, "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)"),
    (Query::InsertNewOrder, "INSERT INTO new_order VALUES ($1, $2, $3)"),
    (
        Query::InsertLines,
        "INSERT INTO order_line SELECT $1, $2, $3, line.number, item, supplier, NULL, quantity, amount, info \
         FROM unnest($4::smallint[], $5::int[], $6::int[], $7::smallint[], $8::bigint[], $9::text[]) \
         AS line (number, item, supplier, quantity, amount, info)",
    ),
    (Query::Warehouse, "SELECT name, street_1, street_2, city, state, zip FROM warehouse WHERE w_id = $1"),
    (
        Query::District,
        "SELECT name, street_1, street_2, city, state, zip FROM district WHERE w_id = $1 AND d_id = $2",
    ),
    (
        Query::CustomersByName,
        "SELECT c_id FROM customer WHERE w_id = $1 AND d_id = $2 AND last = $3 ORDER BY first, c_id",
    ),
    (
        Query::CustomerForUpdate,
        "SELECT is_good, credit_limit, discount, balance, ytd_payment, payments, deliveries, data, first, middle, last, \
         street_1, street_2, city, state, zip, phone, since \
         FROM customer WHERE w_id = $1 AND d_id = $2 AND c_id = $3 FOR UPDATE",
    ),
    (
        Query::Pay,
        "UPDATE customer SET balance = $4, ytd_payment = $5, payments = $6 WHERE w_id = $1 AND d_id = $2 AND c_id = $3",
    ),
    (
        Query::PayWithData,
        "UPDATE customer SET balance = $4, ytd_payment = $5, payments = $6, data = $7 \
         WHERE w_id = $1 AND d_id = $2 AND c_id = $3",
    ),
    (Query::InsertHistory, "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"),
    (Query::AddToDistrict, "UPDATE district_total SET ytd = ytd + $3 WHERE w_id = $1 AND d_id = $2"),
    (Query::AddToWarehouse, "UPDATE warehouse_total SET ytd = ytd + $2 WHERE w_id = $1"),
    (
        Query::OldestForUpdate,
        "SELECT o_id FROM new_order WHERE w_id = $1 AND d_id = $2 ORDER BY o_id LIMIT 1 FOR UPDATE",
    ),
    (Query::ShareOrderNumber, "SELECT next FROM next_order WHERE w_id = $1 AND d_id = $2 FOR SHARE"),
    (
        Query::RemoveNewOrders,
        "DELETE FROM new_order USING unnest($2::smallint[], $3::int[]) AS oldest (d_id, o_id) \
         WHERE new_order.w_id = $1 AND new_order.d_id = oldest.d_id AND new_order.o_id = oldest.o_id",
    ),
    (
        Query::SetCarriers,
        "UPDATE orders SET carrier = $4 FROM unnest($2::smallint[], $3::int[]) AS oldest (d_id, o_id) \
         WHERE orders.w_id = $1 AND orders.d_id = oldest.d_id AND orders.o_id = oldest.o_id \
         RETURNING orders.d_id, orders.c_id",
    ),
    (
        Query::DeliverLines,
        "UPDATE order_line SET delivered = $4 FROM unnest($2::smallint[], $3::int[]) AS oldest (d_id, o_id) \
         WHERE order_line.w_id = $1 AND order_line.d_id = oldest.d_id AND order_line.o_id = oldest.o_id \
         RETURNING order_line.d_id, order_line.amount",
    ),
    (
        Query::AddToBalances,
        "UPDATE customer SET balance = balance + due.amount, deliveries = deliveries + 1 \
         FROM unnest($2::smallint[], $3::int[], $4::bigint[]) AS due (d_id, c_id, amount) \
         WHERE customer.w_id = $1 AND customer.d_id = due.d_id AND customer.c_id = due.c_id",
    ),
    (
        Query::Balance,
        "SELECT balance, first, middle, last FROM customer WHERE w_id = $1 AND d_id = $2 AND c_id = $3",
    ),
    (
        Query::NewestOrder,
        "SELECT o_id, entered, carrier FROM orders WHERE w_id = $1 AND d_id = $2 AND c_id = $3 ORDER BY o_id DESC LIMIT 1",
    ),
    (
        Query::Lines,
        "SELECT item, supplier, quantity, amount, delivered FROM order_line WHERE w_id = $1 AND d_id = $2 AND o_id = $3",
    ),
    (Query::NextOrder, "SELECT next FROM next_order WHERE w_id = $1 AND d_id = $2"),
    (
        Query::CountLowStock,
        "SELECT count(DISTINCT stock.i_id) FROM order_line AS line \
         JOIN stock ON stock.w_id = $1 AND stock.i_id = line.item \
         WHERE line.w_id = $1 AND line.d_id = $2 AND line.o_id >= $3 AND line.o_id < $4 AND stock.quantity < $5",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_in_the_order_of_their_enumeration() {
        assert!(QUERIES.iter().enumerate().all(|(at, (query, _))| *query as usize == at));
    }
}
