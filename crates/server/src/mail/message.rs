//! A published message: one buffer with the bytes for all its receivers, made once by the publisher.
//!
//! RESP2 and RESP3 differ in the first byte only, and subscribers of a pattern get another head before the same
//! tail. So each receiver copies two slices. A long text is not copied: the receivers' output refers to it.

use std::ops::Range;
use std::sync::Arc;

use commands::subscriptions::{Name, SubscriptionKind};
use wire::reply::{Protocol, ReplyBuffer};

/// The fixed part of a message's size in the mail, besides its text, in bytes.
const OVERHEAD: usize = 256;

/// The size from which on receivers share a text, in bytes: below, a reference costs more than a copy.
pub const SHARED_TEXT_SIZE_MIN: usize = 4 << 10;

/// A published message, as mail to the workers.
pub struct Message {
    /// Its audiences.
    pub heading: Heading,
    /// The head for subscribers of the channel, without its first byte, and the tail.
    frame: Vec<u8>,
    /// The offset of the tail: channel and text as bulk strings. A shared text is not in it.
    tail_at: usize,
    /// The text as a bulk string, if it is long.
    shared_text: Option<Arc<Vec<u8>>>,
    channel: Range<usize>,
}

/// The audiences of a message.
pub struct Heading {
    /// The kind of its channel.
    pub kind: SubscriptionKind,
    /// The stamp of the channel's audience; 0 if it has none.
    pub stamp: u64,
    /// The patterns that the channel matches, each with the stamp of its audience.
    pub patterns: Vec<(Name, u64)>,
}

impl Message {
    /// Returns a message to a channel. Its receivers share a text of at least `shared_size_min` bytes.
    #[must_use]
    pub fn new(heading: Heading, channel: &[u8], text: &[u8], shared_size_min: usize) -> Self {
        let is_shared = text.len() >= shared_size_min;
        let copied_size = if is_shared { 0 } else { text.len() };
        let mut frame = Vec::with_capacity(channel.len() + copied_size + 64);
        frame.extend_from_slice(match heading.kind {
            SubscriptionKind::ShardChannel => b"3\r\n$8\r\nsmessage\r\n",
            SubscriptionKind::Channel | SubscriptionKind::Pattern | SubscriptionKind::Prefix => {
                b"3\r\n$7\r\nmessage\r\n"
            }
        });
        let tail_at = frame.len();
        let mut out = ReplyBuffer::new(&mut frame, Protocol::Resp2);
        out.bulk(channel);
        let end = frame.len() - b"\r\n".len();
        let shared_text = is_shared.then(|| {
            let mut shared = Vec::with_capacity(text.len() + 32);
            ReplyBuffer::new(&mut shared, Protocol::Resp2).bulk(text);
            Arc::new(shared)
        });
        if !is_shared {
            ReplyBuffer::new(&mut frame, Protocol::Resp2).bulk(text);
        }
        Self { heading, frame, tail_at, shared_text, channel: end - channel.len()..end }
    }

    /// The channel it was published to.
    #[must_use]
    pub fn channel(&self) -> &[u8] {
        &self.frame[self.channel.clone()]
    }

    /// The bytes that it counts in transit.
    #[must_use]
    pub fn size(&self) -> u64 {
        let shared_size = self.shared_text.as_ref().map_or(0, |text| text.len());
        (self.frame.len() + shared_size + OVERHEAD) as u64
    }

    /// The form for subscribers of its channel.
    #[must_use]
    pub fn to_channel(&self) -> MessageForm<'_> {
        self.form(&self.frame[..self.tail_at])
    }

    /// The form for subscribers of a pattern; `head` is the buffer for their head.
    #[must_use]
    pub fn to_pattern<'a>(&'a self, pattern: &[u8], head: &'a mut Vec<u8>) -> MessageForm<'a> {
        head.clear();
        head.extend_from_slice(b"4\r\n$8\r\npmessage\r\n");
        ReplyBuffer::new(head, Protocol::Resp2).bulk(pattern);
        self.form(head)
    }

    fn form<'a>(&'a self, head: &'a [u8]) -> MessageForm<'a> {
        MessageForm { head, tail: &self.frame[self.tail_at..], shared_text: self.shared_text.as_ref() }
    }
}

/// A message in the form for one kind of receiver.
#[derive(Clone, Copy)]
pub struct MessageForm<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    shared_text: Option<&'a Arc<Vec<u8>>>,
}

impl<'a> MessageForm<'a> {
    /// Its text as a bulk string, if it is to be shared.
    #[must_use]
    pub fn shared_text(&self) -> Option<&'a Arc<Vec<u8>>> {
        self.shared_text
    }

    /// Appends all of it to a connection's output.
    pub fn write(self, out: &mut Vec<u8>, protocol: Protocol) {
        self.write_without_text(out, protocol);
        if let Some(text) = self.shared_text {
            out.extend_from_slice(text);
        }
    }

    /// Appends it without a shared text.
    pub fn write_without_text(self, out: &mut Vec<u8>, protocol: Protocol) {
        out.reserve(1 + self.head.len() + self.tail.len());
        out.push(match protocol {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => b'>',
        });
        out.extend_from_slice(self.head);
        out.extend_from_slice(self.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: MessageForm<'_>, protocol: Protocol) -> String {
        let mut out = Vec::new();
        form.write(&mut out, protocol);
        out.escape_ascii().to_string()
    }

    #[test]
    fn forms() {
        let heading = |kind, patterns| Heading { kind, stamp: 0, patterns };
        let message = Message::new(
            heading(SubscriptionKind::Channel, vec![(Name::new(0, b"n*"), 0)]),
            b"news",
            b"hi",
            4096,
        );
        assert_eq!(message.channel(), b"news");
        let plain = r"3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(written(message.to_channel(), Protocol::Resp2), format!("*{plain}"));
        assert_eq!(written(message.to_channel(), Protocol::Resp3), format!(">{plain}"));
        let mut head = Vec::new();
        let by_pattern = message.to_pattern(b"n*", &mut head);
        let expected = r">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(written(by_pattern, Protocol::Resp3), expected);
        let long = "l".repeat(SHARED_TEXT_SIZE_MIN);
        let message =
            Message::new(heading(SubscriptionKind::Channel, Vec::new()), b"news", long.as_bytes(), 4096);
        assert_eq!(message.channel(), b"news");
        assert_eq!(
            written(message.to_channel(), Protocol::Resp2),
            format!(r"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4096\r\n{long}\r\n")
        );
        assert!(message.size() as usize > long.len());
        let shard = Message::new(heading(SubscriptionKind::ShardChannel, Vec::new()), b"", b"", 4096);
        assert_eq!(
            written(shard.to_channel(), Protocol::Resp2),
            r"*3\r\n$8\r\nsmessage\r\n$0\r\n\r\n$0\r\n\r\n"
        );
    }
}
