//! Lines of a primary, from bytes that arrive in pieces.

/// The longest line, in bytes.
const LINE_SIZE_MAX: usize = 64 << 10;

/// The beginning of the next line.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

/// A line is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The primary has sent a line that is too long")]
pub struct LineTooLong;

impl Lines {
    /// Takes bytes up to the end of the next line that has characters. Returns how many, and the line, if it is complete. A
    /// primary that is still working on its answer sends lines without characters.
    ///
    /// # Errors
    /// The line is too long.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), LineTooLong> {
        let mut taken = 0;
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let size = end.map_or(rest.len(), |end| end + 1);
            if self.0.len() + size > LINE_SIZE_MAX {
                return Err(LineTooLong);
            }
            self.0.extend_from_slice(&rest[..size]);
            taken += size;
            if end.is_none() {
                break;
            }
            let mut line = std::mem::take(&mut self.0);
            line.pop();
            line.pop_if(|last| *last == b'\r');
            if !line.is_empty() {
                return Ok((taken, Some(line)));
            }
        }
        Ok((taken, None))
    }
}
