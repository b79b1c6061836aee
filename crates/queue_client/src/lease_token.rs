//! The text of a lease, with which any process may settle it.

use std::fmt;
use std::str::FromStr;

use zerohop_layer_queue::{ConsumerId, MessageId, ProducerId, Receipt};

/// A lease of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseToken {
    /// The first bytes of the id of the queue.
    pub queue: u32,
    /// The partition.
    pub partition: u32,
    /// The consumer that has popped the message.
    pub consumer: ConsumerId,
    /// The lease.
    pub receipt: Receipt,
}

/// A text is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLeaseToken;

impl fmt::Display for BadLeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no receipt: a pop prints one with each message")
    }
}

impl std::error::Error for BadLeaseToken {}

/// Queue, partition, number of the message, end and number of the lease, producer, consumer.
impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, partition, consumer, receipt: Receipt { message, due, tries } } = self;
        write!(f, "{queue:08x}.{partition}.{}.{due}.{tries}.", message.number)?;
        message.producer.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(".")?;
        consumer.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for LeaseToken {
    type Err = BadLeaseToken;

    fn from_str(text: &str) -> Result<Self, BadLeaseToken> {
        parse(text).ok_or(BadLeaseToken)
    }
}

fn parse(text: &str) -> Option<LeaseToken> {
    let mut parts = text.split('.');
    let is_tag = |queue: &&str| queue.len() == 8 && queue.bytes().all(|byte| byte.is_ascii_hexdigit());
    let queue = u32::from_str_radix(parts.next().filter(is_tag)?, 16).ok()?;
    let partition = number(parts.next()?)?.try_into().ok()?;
    let message = number(parts.next()?)?;
    let due = number(parts.next()?)?;
    let tries = number(parts.next()?)?.try_into().ok()?;
    let (producer, consumer) = (ProducerId(id(parts.next()?)?), ConsumerId(id(parts.next()?)?));
    let receipt = Receipt { message: MessageId { producer, number: message }, due, tries };
    parts.next().is_none().then_some(LeaseToken { queue, partition, consumer, receipt })
}

/// A number in digits only.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn id(text: &str) -> Option<[u8; 16]> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_back_and_other_texts_are_refused() {
        let message = MessageId { producer: ProducerId([0xa5; 16]), number: 7 };
        let receipt = Receipt { message, due: 1_790_000_000_000, tries: 2 };
        let token = LeaseToken { queue: 0xabc, partition: 3, consumer: ConsumerId([1; 16]), receipt };
        let text = token.to_string();
        let (producer, consumer) = ("a5".repeat(16), "01".repeat(16));
        assert_eq!(text, format!("00000abc.3.7.1790000000000.2.{producer}.{consumer}"));
        assert_eq!(text.parse(), Ok(token));
        for bad in
            ["", "3", &text[1..], &text[..text.len() - 1], &format!("{text}.1"), &text.replace(".7.", ".+7.")]
        {
            assert_eq!(bad.parse::<LeaseToken>(), Err(BadLeaseToken), "{bad}");
        }
    }
}
