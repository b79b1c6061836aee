//! The rows of the nine tables (clause 1.3). Money is in cents, a rate in ten-thousandths, a time in milliseconds since 1970.
//!
//! The columns that a transaction only adds to, or that alone change often, are records of their own (vertical partitioning, clause 1.4.5):
//! W_YTD, D_YTD and D_NEXT_O_ID. The identifiers of a row are in its key: see `keys`.

use crate::codec::columns;

columns! {
    /// Where a warehouse, district or customer is.
    Address {
        streets: [String; 2],
        city: String,
        state: String,
        zip: String,
    }
}

columns! {
    /// WAREHOUSE and DISTRICT, without the columns that change.
    Site {
        name: String,
        address: Address,
        /// W_TAX or D_TAX.
        tax: u16,
    }
}

columns! {
    /// CUSTOMER.
    Customer {
        name: CustomerName,
        address: Address,
        phone: String,
        since: u64,
        credit: Credit,
        account: Account,
        data: String,
    }
}

columns! {
    /// The name of a customer.
    CustomerName {
        first: String,
        middle: String,
        last: String,
    }
}

columns! {
    /// C_CREDIT, C_CREDIT_LIM and C_DISCOUNT.
    Credit {
        /// C_CREDIT is "GC", not "BC".
        is_good: bool,
        limit: i64,
        discount: u16,
    }
}

columns! {
    /// The columns of a customer that transactions change.
    Account {
        balance: i64,
        ytd_payment: i64,
        payments: u32,
        deliveries: u32,
    }
}

columns! {
    /// HISTORY. It has no primary key: the record's key is of warehouse, district and a number that the terminal makes unique.
    History {
        /// H_C_W_ID, H_C_D_ID and H_C_ID.
        customer: CustomerColumns,
        date: u64,
        amount: i64,
        data: String,
    }
}

columns! {
    /// The identifiers of a customer as columns of another row.
    CustomerColumns {
        warehouse: u32,
        district: u8,
        customer: u32,
    }
}

columns! {
    /// ORDER.
    Order {
        customer: u32,
        entered: u64,
        carrier: Option<u8>,
        lines: u8,
        is_local: bool,
    }
}

columns! {
    /// ORDER-LINE.
    OrderLine {
        item: u32,
        supplier: u32,
        delivered: Option<u64>,
        quantity: u8,
        amount: i64,
        district_info: String,
    }
}

columns! {
    /// ITEM.
    Item {
        image: u32,
        name: String,
        price: i64,
        data: String,
    }
}

columns! {
    /// STOCK.
    Stock {
        quantity: i64,
        /// S_DIST_01 to S_DIST_10.
        district_infos: [String; 10],
        ytd: u32,
        orders: u32,
        remote_orders: u32,
        data: String,
    }
}

columns! {
    /// W_YTD or D_YTD.
    Total {
        ytd: i64,
    }
}

/// Where the sum of a [`Total`] begins: behind the version of the row.
pub(crate) const TOTAL_OFFSET: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};

    #[test]
    fn sum_of_total_is_little_endian_at_its_offset() {
        let mut bytes = encode(&Total { ytd: 5 });
        let at = TOTAL_OFFSET as usize;
        bytes[at..at + 8].copy_from_slice(&(-3_i64).to_le_bytes());
        assert_eq!(decode(&bytes), Ok(Total { ytd: -3 }));
    }
}
