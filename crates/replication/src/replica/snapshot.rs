//! The snapshot between the handshake and the stream: `$<size>\r\n` and its bytes, or `$EOF:<mark>\r\n`, its bytes and the
//! mark, of 40 characters, once more.

use wire::number::parse_i64_strict;

/// The number of characters of the mark.
const MARK_SIZE: usize = 40;

/// The longest first line, in bytes.
const LINE_SIZE_MAX: usize = 64 << 10;

/// Where a snapshot ends in what the primary sends.
#[derive(Debug, Default)]
pub struct SnapshotFrame {
    state: State,
}

#[derive(Debug)]
enum State {
    /// The beginning of the first line.
    Head(Vec<u8>),
    /// So many bytes are missing.
    Sized(u64),
    Delimited {
        mark: [u8; MARK_SIZE],
        /// The last bytes received, which may be the beginning of the mark.
        held: Vec<u8>,
    },
    Ended,
}

impl Default for State {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

/// What follows from received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotStep {
    /// More bytes are needed.
    Wait,
    /// The first line: the size of the snapshot in bytes, unless a mark ends it.
    Begun(Option<u64>),
    /// The snapshot is complete; the stream follows.
    Ended,
}

/// Why no snapshot follows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The primary can't send one.
    #[error("PRIMARY aborted replication with an error: {0}")]
    Refused(String),
    /// The first line has another form.
    #[error(
        "Bad protocol from PRIMARY, the first byte is not '$' (we received '{0}'), are you sure the host and port are right?"
    )]
    Syntax(String),
}

impl SnapshotFrame {
    /// Takes bytes from the beginning of `bytes`, and appends those of the snapshot to `out`. Returns how many are taken,
    /// and what follows. To be called again with the rest until it waits or the snapshot has ended.
    ///
    /// # Errors
    /// No snapshot follows.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, SnapshotStep), SnapshotError> {
        match &mut self.state {
            State::Head(_) => self.receive_head(bytes),
            State::Sized(left) => {
                let size = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                out.extend_from_slice(&bytes[..size]);
                *left -= size as u64;
                let is_complete = *left == 0;
                Ok((size, self.end_if(is_complete)))
            }
            State::Delimited { mark, held } => {
                let before = held.len();
                held.extend_from_slice(bytes);
                if let Some(at) = find(held, mark) {
                    out.extend_from_slice(&held[..at]);
                    let taken = at + MARK_SIZE - before;
                    return Ok((taken, self.end_if(true)));
                }
                let certain = held.len().saturating_sub(MARK_SIZE - 1);
                out.extend(held.drain(..certain));
                Ok((bytes.len(), SnapshotStep::Wait))
            }
            State::Ended => Ok((0, SnapshotStep::Ended)),
        }
    }

    fn end_if(&mut self, is_complete: bool) -> SnapshotStep {
        if !is_complete {
            return SnapshotStep::Wait;
        }
        self.state = State::Ended;
        SnapshotStep::Ended
    }

    fn receive_head(&mut self, bytes: &[u8]) -> Result<(usize, SnapshotStep), SnapshotError> {
        let State::Head(line) = &mut self.state else { return Ok((0, SnapshotStep::Wait)) };
        let mut taken = 0;
        while let Some(end) = bytes[taken..].iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&bytes[taken..taken + end]);
            line.pop_if(|last| *last == b'\r');
            taken += end + 1;
            // A primary that prepares the snapshot sends empty lines.
            if line.is_empty() {
                continue;
            }
            let (state, size) = begun(line)?;
            self.state = state;
            return Ok((taken, SnapshotStep::Begun(size)));
        }
        line.extend_from_slice(&bytes[taken..]);
        if line.len() > LINE_SIZE_MAX {
            return Err(SnapshotError::Syntax(String::from_utf8_lossy(&line[..MARK_SIZE]).into_owned()));
        }
        Ok((bytes.len(), SnapshotStep::Wait))
    }
}

fn begun(line: &[u8]) -> Result<(State, Option<u64>), SnapshotError> {
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    if let Some(error) = line.strip_prefix(b"-") {
        return Err(SnapshotError::Refused(text(error)));
    }
    if let Some(mark) = line.strip_prefix(b"$EOF:").and_then(|mark| mark.try_into().ok()) {
        return Ok((State::Delimited { mark, held: Vec::new() }, None));
    }
    let size = line.strip_prefix(b"$").and_then(parse_i64_strict);
    let size =
        size.and_then(|size| u64::try_from(size).ok()).ok_or_else(|| SnapshotError::Syntax(text(line)))?;
    Ok((State::Sized(size), Some(size)))
}

/// The first place of the mark. Steps by as many bytes as the last byte compared allows.
fn find(bytes: &[u8], mark: &[u8; MARK_SIZE]) -> Option<usize> {
    let mut steps = [MARK_SIZE; 256];
    for (at, byte) in mark[..MARK_SIZE - 1].iter().enumerate() {
        steps[usize::from(*byte)] = MARK_SIZE - 1 - at;
    }
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + MARK_SIZE) {
        if window == mark {
            return Some(at);
        }
        at += steps[usize::from(window[MARK_SIZE - 1])];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &[u8] = b"0123456789abcdef0123456789abcdef01234567";

    /// Passes bytes in pieces of a size. Returns the size in the first line, the snapshot and the rest.
    fn pass(bytes: &[u8], piece_size: usize) -> (Option<u64>, Vec<u8>, Vec<u8>) {
        let mut frame = SnapshotFrame::default();
        let (mut size, mut out, mut at) = (None, Vec::new(), 0);
        for piece in bytes.chunks(piece_size) {
            let mut rest = piece;
            loop {
                let (taken, step) = frame.receive(rest, &mut out).unwrap();
                (at, rest) = (at + taken, &rest[taken..]);
                match step {
                    SnapshotStep::Begun(told) => size = told,
                    SnapshotStep::Wait => break,
                    SnapshotStep::Ended => return (size, out, bytes[at..].to_vec()),
                }
            }
        }
        panic!("the snapshot has no end")
    }

    #[test]
    fn a_size_ends_it() {
        for piece_size in 1..20 {
            let (size, snapshot, rest) = pass(b"\n\n$7\r\nREDIS\r\n*1\r\n", piece_size);
            assert_eq!((size, &snapshot[..], &rest[..]), (Some(7), &b"REDIS\r\n"[..], &b"*1\r\n"[..]));
        }
        assert_eq!(pass(b"$0\r\nx", 1), (Some(0), Vec::new(), b"x".to_vec()));
    }

    #[test]
    fn a_mark_ends_it() {
        // The data has beginnings of the mark.
        let data = [b"REDIS", &MARK[..39], &MARK[..20], MARK[1..].as_ref(), b"0"].concat();
        let all = [b"$EOF:", MARK, b"\r\n", &data, MARK, b"*1\r\n"].concat();
        for piece_size in 1..all.len() + 1 {
            let (size, snapshot, rest) = pass(&all, piece_size);
            assert_eq!((size, &snapshot, &rest[..]), (None, &data, &b"*1\r\n"[..]), "{piece_size}");
        }
    }

    #[test]
    fn what_is_no_snapshot() {
        let refused = SnapshotFrame::default().receive(b"-ERR no\r\n", &mut Vec::new());
        assert_eq!(refused, Err(SnapshotError::Refused("ERR no".to_owned())));
        for line in [&b"+OK\r\n"[..], b"$x\r\n", b"$-1\r\n", b"$EOF:short\r\n"] {
            let result = SnapshotFrame::default().receive(line, &mut Vec::new());
            assert!(matches!(result, Err(SnapshotError::Syntax(_))), "{line:?}");
        }
        let endless = vec![b'x'; LINE_SIZE_MAX + 1];
        assert!(SnapshotFrame::default().receive(&endless, &mut Vec::new()).is_err());
    }
}
