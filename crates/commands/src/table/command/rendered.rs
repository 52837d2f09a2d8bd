//! Replies about all commands. They are long and constant: generated at the first request, once for each
//! protocol, and then shared with connections.

use std::sync::{Arc, OnceLock};

use wire::reply::{Protocol, ReplyBuffer};

use crate::context::Ctx;
use crate::reply::{Replied, Reply};

/// A constant reply.
pub(super) struct Rendered {
    write: fn(&mut ReplyBuffer<'_>),
    resp2: OnceLock<Text>,
    resp3: OnceLock<Text>,
}

/// The reply in one protocol. A shared buffer must lie between other bytes of the reply, so only the middle is
/// shared.
struct Text {
    first_line: Vec<u8>,
    middle: Arc<Vec<u8>>,
}

const LINE_END: &[u8] = b"\r\n";

impl Rendered {
    /// Creates the reply that `write` writes.
    pub(super) const fn new(write: fn(&mut ReplyBuffer<'_>)) -> Self {
        Self { write, resp2: OnceLock::new(), resp3: OnceLock::new() }
    }

    /// Writes the reply.
    pub(super) fn answer(&self, ctx: &Ctx<'_>, reply: Reply<'_>) -> Replied {
        let mut out = reply.parts();
        let protocol = out.protocol();
        let kept = match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => &self.resp3,
        };
        let text = kept.get_or_init(|| Text::new(self.write, protocol));
        out.raw(&text.first_line);
        if ctx.report.shared_replies.is_accepted() {
            ctx.report.shared_replies.share(out.mark().position(), Arc::clone(&text.middle));
        } else {
            out.raw(&text.middle);
        }
        out.raw(LINE_END);
        out.done()
    }
}

impl Text {
    fn new(write: fn(&mut ReplyBuffer<'_>), protocol: Protocol) -> Self {
        let mut text = Vec::new();
        write(&mut ReplyBuffer::new(&mut text, protocol));
        let after_first_line = text.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut middle = text.split_off(after_first_line);
        debug_assert!(middle.ends_with(LINE_END));
        middle.truncate(middle.len() - LINE_END.len());
        middle.shrink_to_fit();
        Self { first_line: text, middle: Arc::new(middle) }
    }
}
