//! The server of the tests.

use script::{LogLevel, Server, Verdict};
use wire::request::Args;

/// The memory that scripts of the tests may use, in bytes.
pub const MEMORY_MAX: usize = 64 << 20;

/// A server that allows every command, and runs it by this function. The function returns false if the script must run
/// again.
pub struct TestServer(pub fn(Args<'_>, &mut Vec<u8>) -> bool);

impl Server for TestServer {
    fn call(&mut self, args: Args<'_>, _: bool, out: &mut Vec<u8>) -> bool {
        (self.0)(args, out)
    }

    fn is_allowed(&mut self, _: Args<'_>) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) -> bool {
        true
    }

    fn set_propagation(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        Verdict::Continue
    }

    fn memory_max(&mut self, _: usize) -> usize {
        MEMORY_MAX
    }
}
