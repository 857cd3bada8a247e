//! One message that is to be sent, and the body it travels in.
//!
//! **Invariant**: a body names its client, its number and both moments, so that whoever sees the
//! message, in whichever process, knows when it was meant to be sent.

use std::fmt::Write;

/// The shortest body that holds what it must name.
pub(super) const SIZE_MIN: usize = 64;

/// A message that is to be sent. Moments are microseconds since the load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    /// The client, from 0.
    pub(super) client: u32,
    /// The number among the client's orders, from 1.
    pub(super) number: u64,
    /// When it was meant to be sent.
    pub(super) intended: u64,
    /// When it was sent.
    pub(super) started: u64,
}

impl Order {
    /// The body, filled up with dots to `size` bytes.
    pub(super) fn body(&self, size: usize) -> String {
        let mut body = String::with_capacity(size.max(SIZE_MIN));
        self.write(&mut body);
        body.push(' ');
        body.extend(std::iter::repeat_n('.', size.saturating_sub(body.len())));
        body
    }

    /// Appends the four numbers, separated by blanks.
    pub(super) fn write(&self, text: &mut String) {
        let Order { client, number, intended, started } = self;
        // Writing to a string does not fail.
        write!(text, "{client} {number} {intended} {started}").unwrap_or_default();
    }

    /// The order that a body, or the numbers of one, were made from.
    pub(super) fn read(text: &str) -> Option<Order> {
        let mut words = text.split(' ');
        let client = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        Some(Order { client, number: number()?, intended: number()?, started: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_size_and_names_its_order() {
        let order =
            Order { client: 999_999, number: 1 << 40, intended: 86_400_000_000, started: 1 };
        for size in [SIZE_MIN, 256] {
            let body = order.body(size);
            assert_eq!(body.len(), size);
            assert_eq!(Order::read(&body), Some(order));
        }
        assert_eq!(Order::read("1 2 3"), None);
        assert_eq!(Order::read("one 2 3 4"), None);
    }
}
