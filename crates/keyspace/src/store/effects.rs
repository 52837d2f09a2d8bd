//! Effects: the requests that repeat the changes of a command, for the write log.
//!
//! A command, or a deletion below commands (expiry, eviction), records its effects while it holds its latches; they are
//! appended to the [`WriteLog`](sync::WriteLog) before the latches are released, so the log has the order that clients
//! have observed.
//!
//! The format is that of the log: requests as RESP arrays, `SELECT` where the database changes, `MULTI` and `EXEC`
//! around the effects of a unit (a transaction, or one command with several effects).
//! Invariants:
//! 1. The sink is empty whenever its thread holds no latch.
//! 2. While the log is off, nothing is recorded.
//!
//! Start reading at [`EffectSink`].

use std::io::Write as _;
use std::ops::Range;

use base::{DbIndex, Lsn};
use sync::write_log::{Appended, Audience, LogWriter, Record};

/// An argument of an effect.
#[derive(Clone, Copy, Debug)]
pub enum EffectArg<'a> {
    /// Bytes as they are.
    Bytes(&'a [u8]),
    /// A number, in decimal.
    Int(i64),
}

impl<'a> From<&'a [u8]> for EffectArg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a str> for EffectArg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl From<i64> for EffectArg<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Whose changes a thread makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffectOrigin {
    /// Those of this server's clients.
    #[default]
    Own,
    /// Those of this server's clients, while it is a replica: they are not part of the stream.
    Local,
    /// Those of the primary: its bytes are logged as they are ([`EffectSink::forward`]), and no others.
    Primary,
}

/// The effects that a thread has recorded under its latches.
pub struct EffectSink {
    bytes: Vec<u8>,
    /// The databases of the first and of the last effect.
    databases: Option<(DbIndex, DbIndex)>,
    /// The beginning of the current unit in `bytes`, after a `SELECT` of its first effect.
    unit_at: usize,
    /// Number of effects in the current unit.
    unit_len: usize,
    /// Whether the current unit is a transaction, in which commands are not units of their own.
    is_transaction: bool,
    /// For which readers effects are (`redis.set_repl` in a script); `None`: they are dropped.
    audience: Option<Audience>,
    /// Whose changes the next effects are.
    origin: EffectOrigin,
    /// Whose changes those of the present unit are. A transaction may go on after the role of the server has changed: if it has
    /// begun, or made a change, as a primary, all of its changes belong to the stream.
    recorded: EffectOrigin,
    /// Whether effects are not appended as usual, because of `audience` or `origin`.
    is_special: bool,
    /// The ranges of `bytes` that are for some readers only.
    partial: Vec<(Range<usize>, Audience)>,
    /// Whether there are changes of data for replicas only.
    diverges: bool,
    /// The request that selects the first database of the last effects that were appended.
    select: Select,
}

/// A request that selects a database.
#[derive(Default)]
struct Select {
    /// `None`: `request` is empty.
    db: Option<DbIndex>,
    request: Vec<u8>,
}

/// The command that deletes a key. `lazy`: its value may be freed in the background.
pub(crate) const fn deletion_name(lazy: bool) -> &'static [u8] {
    if lazy { b"UNLINK" } else { b"DEL" }
}

/// The capacity that is kept for later effects, in bytes.
const KEPT_CAPACITY: usize = 64 << 10;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

impl Default for EffectSink {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            databases: None,
            unit_at: 0,
            unit_len: 0,
            is_transaction: false,
            audience: Some(Audience::All),
            origin: EffectOrigin::Own,
            recorded: EffectOrigin::Own,
            is_special: false,
            partial: Vec::new(),
            diverges: false,
            select: Select::default(),
        }
    }
}

impl EffectSink {
    /// Whether nothing is recorded.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The size of the recorded effects, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Records a request.
    pub fn record<'a, A: Into<EffectArg<'a>>>(
        &mut self,
        db: DbIndex,
        args: impl ExactSizeIterator<Item = A>,
    ) {
        let Some(audience) = self.recording() else { return };
        self.enter(db);
        let start = self.bytes.len();
        write_header(&mut self.bytes, b'*', args.len());
        for arg in args {
            match arg.into() {
                EffectArg::Bytes(bytes) => write_bulk(&mut self.bytes, bytes),
                EffectArg::Int(number) => {
                    let mut digits = [0; 20];
                    let mut rest = &mut digits[..];
                    write!(rest, "{number}").expect("a 64-bit number has at most 20 characters");
                    let unused = rest.len();
                    write_bulk(&mut self.bytes, &digits[..digits.len() - unused]);
                }
            }
        }
        self.note_audience(start, audience);
        self.unit_len += 1;
    }

    /// Records a request for replicas of this server that changes no data.
    pub(crate) fn record_for_replicas<'a>(
        &mut self,
        db: DbIndex,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        if self.origin == EffectOrigin::Own
            && matches!(self.audience, Some(Audience::All | Audience::Replicas))
        {
            let (usual, diverges) = (self.audience.replace(Audience::Replicas), self.diverges);
            self.record(db, args);
            (self.audience, self.diverges) = (usual, diverges);
        }
    }

    /// Records a request for the append-only file only.
    pub(crate) fn record_for_file<'a>(&mut self, db: DbIndex, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        let file_only = self.audience.map(|_| Audience::File);
        let usual = std::mem::replace(&mut self.audience, file_only);
        self.record(db, args);
        self.audience = usual;
    }

    /// Records a request in the format of the log.
    pub(crate) fn record_encoded(&mut self, db: DbIndex, request: &[u8]) {
        let Some(audience) = self.recording() else { return };
        self.enter(db);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(request);
        self.note_audience(start, audience);
        self.unit_len += 1;
    }

    /// For which readers the next effect is; `None`: it is dropped.
    #[inline]
    fn recording(&self) -> Option<Audience> {
        let origin = if self.is_transaction { self.recorded } else { self.origin };
        self.audience.filter(|audience| match origin {
            EffectOrigin::Own => true,
            EffectOrigin::Local => *audience != Audience::Replicas,
            EffectOrigin::Primary => false,
        })
    }

    fn note_audience(&mut self, start: usize, audience: Audience) {
        // Local effects are for the file as a whole.
        if audience != Audience::All && self.recorded == EffectOrigin::Own {
            self.partial.push((start..self.bytes.len(), audience));
            self.diverges |= audience == Audience::Replicas;
        }
    }

    /// Sets for which readers the following effects are; `None`: they are dropped.
    pub fn set_audience(&mut self, audience: Option<Audience>) {
        self.audience = audience;
        self.note_special();
    }

    /// Sets whose changes the following ones are.
    pub fn set_origin(&mut self, origin: EffectOrigin) {
        self.origin = origin;
        self.note_special();
    }

    /// Whose changes the following ones are.
    #[must_use]
    pub fn origin(&self) -> EffectOrigin {
        self.origin
    }

    fn note_special(&mut self) {
        self.is_special = self.audience != Some(Audience::All) || self.origin != EffectOrigin::Own;
    }

    /// Records bytes of the primary's stream, which were run under the latches that are held: those of requests, and those
    /// before them that changed no data. `from` is the database selected before them, `to` the one after them.
    pub fn forward(&mut self, (from, to): (DbIndex, DbIndex), bytes: &[u8]) {
        debug_assert!(self.origin == EffectOrigin::Primary);
        let first = self.databases.map_or(from, |(first, _)| first);
        self.recorded = self.origin;
        self.databases = Some((first, to));
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether the next effect can be appended to the log without being recorded first: nothing is before it, and it is a
    /// unit of its own.
    #[inline]
    pub(crate) fn appends_at_once(&self) -> bool {
        self.bytes.is_empty() && !self.is_transaction && !self.is_special
    }

    /// Appends a unit of one request in the format of the log, instead of recording it. As [`Self::drain`].
    #[inline]
    pub(crate) fn append(&mut self, db: DbIndex, request: &[u8], log: Option<&mut LogWriter>) -> Option<Lsn> {
        debug_assert!(self.appends_at_once());
        let select = self.select.of(db);
        let parts = [request];
        let record = Record { database: Some(db), leaves: Some(db), select, ..Record::new(&parts) };
        log?.append(&record).map(|appended| appended.end)
    }

    /// Selects the database of the next effect.
    fn enter(&mut self, db: DbIndex) {
        if self.databases.is_none() && !self.is_transaction || self.origin == EffectOrigin::Own {
            self.recorded = self.origin;
        }
        let first = match self.databases {
            None => db,
            Some((first, last)) => {
                if last != db {
                    write_select(&mut self.bytes, db);
                }
                first
            }
        };
        self.databases = Some((first, db));
        if self.unit_len == 0 {
            self.unit_at = self.bytes.len();
        }
    }

    /// Ends a command: its effects are a unit, unless it belongs to a transaction.
    #[inline]
    pub fn end_command(&mut self) {
        if self.unit_len > 0 && !self.is_transaction {
            self.end_unit();
        }
    }

    /// Whether a transaction has begun.
    #[must_use]
    pub fn is_transaction(&self) -> bool {
        self.is_transaction
    }

    /// Begins a transaction: the effects up to [`Self::end_transaction`] are one unit.
    pub fn begin_transaction(&mut self) {
        self.end_command();
        if self.databases.is_none() {
            self.recorded = self.origin;
        }
        self.is_transaction = true;
    }

    /// Ends a transaction.
    pub fn end_transaction(&mut self) {
        self.is_transaction = false;
        self.end_command();
    }

    /// Encloses the unit in `MULTI` and `EXEC` if it has several effects.
    fn end_unit(&mut self) {
        if self.unit_len > 1 {
            let at = self.unit_at;
            self.bytes.splice(at..at, MULTI.iter().copied());
            for (range, _) in self.partial.iter_mut().filter(|(range, _)| range.start >= at) {
                *range = range.start + MULTI.len()..range.end + MULTI.len();
            }
            self.bytes.extend_from_slice(EXEC);
        }
        self.unit_len = 0;
    }

    /// Appends the effects to the log. Returns the LSN after them; `None` if there are none, or if the log
    /// is off.
    pub(crate) fn drain(
        &mut self,
        log: Option<&mut LogWriter>,
        append: fn(&mut LogWriter, &Record<'_>) -> Option<Appended>,
    ) -> Option<Lsn> {
        debug_assert!(!self.is_transaction, "latches are released after the transaction");
        self.end_command();
        let diverges = std::mem::take(&mut self.diverges) || self.recorded == EffectOrigin::Local;
        let appended = match (self.databases.take(), log) {
            (Some((first, last)), Some(log)) => {
                if diverges {
                    log.log().note_divergence();
                }
                let select = self.select.of(first);
                let (audience, select_audience) = match self.recorded {
                    EffectOrigin::Own => (Audience::All, Audience::All),
                    EffectOrigin::Local => (Audience::File, Audience::File),
                    // The stream has its own requests that select databases.
                    EffectOrigin::Primary => (Audience::All, Audience::File),
                };
                let record = Record {
                    database: Some(first),
                    leaves: Some(last),
                    select,
                    parts: &[&self.bytes],
                    audience,
                    select_audience,
                    partial: &self.partial,
                };
                append(log, &record).map(|appended| appended.end)
            }
            _ => None,
        };
        self.bytes.clear();
        self.partial.clear();
        if self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        }
        appended
    }
}

impl Select {
    /// The request for a database; formatted where it differs from the one before.
    #[inline]
    fn of(&mut self, db: DbIndex) -> &[u8] {
        if self.db != Some(db) {
            self.db = Some(db);
            self.request.clear();
            write_select(&mut self.request, db);
        }
        &self.request
    }
}

pub(crate) fn write_select(out: &mut Vec<u8>, db: DbIndex) {
    out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n");
    write_bulk(out, db.0.to_string().as_bytes());
}

fn write_header(out: &mut Vec<u8>, kind: u8, len: usize) {
    if len < 10 {
        return out.extend_from_slice(&[kind, b'0' + len as u8, b'\r', b'\n']);
    }
    if len < 100 {
        return out.extend_from_slice(&[
            kind,
            b'0' + (len / 10) as u8,
            b'0' + (len % 10) as u8,
            b'\r',
            b'\n',
        ]);
    }
    out.push(kind);
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = len;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    write_header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sync::write_log::WriteLog;

    use super::*;

    /// The text of the log after `record`, which begins in another database than any effect.
    fn drained(record: impl FnOnce(&mut EffectSink)) -> String {
        let log = Arc::new(WriteLog::new(Lsn(0), 1 << 12, 1, |_| {}));
        let (mut reader, mut writer) =
            (log.attach(0, Audience::File).expect("the first reader"), log.writer(0));
        let mut sink = EffectSink::default();
        record(&mut sink);
        let end = sink.drain(Some(&mut writer), LogWriter::append);
        assert!(sink.is_empty());
        assert_eq!(end, Some(reader.complete_end()));
        let chunk = reader.bytes(log.end());
        String::from_utf8_lossy(&chunk.pieces.concat()).replace("\r\n", " ")
    }

    fn request(sink: &mut EffectSink, db: u16, words: &[&str]) {
        sink.record(DbIndex(db), words.iter().copied());
    }

    #[test]
    fn a_command_with_one_effect_is_one_request() {
        let text = drained(|sink| {
            sink.record(DbIndex(13), [EffectArg::from("DEL"), EffectArg::from(-12)].into_iter());
        });
        assert_eq!(text, "*2 $6 SELECT $2 13 *2 $3 DEL $3 -12 ");
    }

    #[test]
    fn a_command_with_several_effects_is_a_transaction() {
        let text = drained(|sink| {
            request(sink, 0, &["A"]);
            sink.end_command();
            request(sink, 1, &["B"]);
            request(sink, 0, &["C"]);
            sink.end_command();
        });
        assert_eq!(
            text,
            "*2 $6 SELECT $1 0 *1 $1 A *2 $6 SELECT $1 1 *1 $5 MULTI *1 $1 B *2 $6 SELECT $1 0 *1 $1 C *1 $4 EXEC "
        );
    }

    #[test]
    fn effects_for_some_readers_are_passed_over_by_the_others() {
        let log = Arc::new(WriteLog::new(Lsn(0), 1 << 12, 1, |_| {}));
        let mut file = log.attach(0, Audience::File).expect("the first reader");
        let mut replicas = log.attach(1, Audience::Replicas).expect("the second reader");
        let mut writer = log.writer(0);
        let mut sink = EffectSink::default();
        let drain = |sink: &mut EffectSink, writer: &mut LogWriter| {
            let _ = sink.drain(Some(writer), LogWriter::append);
        };
        sink.set_audience(Some(Audience::File));
        request(&mut sink, 0, &["A"]);
        sink.set_audience(None);
        request(&mut sink, 0, &["B"]);
        sink.set_audience(Some(Audience::All));
        request(&mut sink, 1, &["C"]);
        sink.record_for_replicas(DbIndex(1), [b"P".as_slice()].into_iter());
        drain(&mut sink, &mut writer);
        // A replica's own changes, and the bytes of its primary.
        sink.set_origin(EffectOrigin::Local);
        request(&mut sink, 0, &["L"]);
        sink.record_for_replicas(DbIndex(0), [b"Q".as_slice()].into_iter());
        drain(&mut sink, &mut writer);
        sink.set_audience(Some(Audience::Replicas));
        request(&mut sink, 0, &["R"]);
        sink.set_audience(Some(Audience::File));
        request(&mut sink, 0, &["F"]);
        sink.set_audience(Some(Audience::All));
        drain(&mut sink, &mut writer);
        sink.set_origin(EffectOrigin::Primary);
        request(&mut sink, 0, &["D"]);
        sink.forward((DbIndex(1), DbIndex(1)), b"<raw>");
        drain(&mut sink, &mut writer);
        let read = |reader: &mut sync::write_log::LogReader| {
            let mut all = Vec::new();
            loop {
                let chunk = reader.bytes(Lsn(u64::MAX));
                let size = chunk.len();
                if size == 0 {
                    return String::from_utf8_lossy(&all).replace("\r\n", " ");
                }
                all.extend(chunk.pieces.concat());
                reader.advance(size);
            }
        };
        let select = |db: u16| format!("*2 $6 SELECT $1 {db} ");
        let (begin, end) = ("*1 $5 MULTI ", "*1 $4 EXEC ");
        assert_eq!(
            read(&mut file),
            format!(
                "{}{begin}*1 $1 A {}*1 $1 C {end}{}*1 $1 L {}*1 $1 F {}<raw>",
                select(0),
                select(1),
                select(0),
                select(0),
                select(1)
            )
        );
        assert_eq!(
            read(&mut replicas),
            format!("{}{begin}{}*1 $1 C *1 $1 P {end}<raw>", select(0), select(1))
        );
    }

    #[test]
    fn a_unit_with_a_change_of_a_primary_is_for_all() {
        for [first, second] in
            [[EffectOrigin::Own, EffectOrigin::Local], [EffectOrigin::Local, EffectOrigin::Own]]
        {
            let log = Arc::new(WriteLog::new(Lsn(0), 1 << 12, 1, |_| {}));
            let mut replicas = log.attach(0, Audience::Replicas).expect("the first reader");
            let mut writer = log.writer(0);
            let mut sink = EffectSink::default();
            sink.set_origin(first);
            sink.begin_transaction();
            if first == EffectOrigin::Local {
                request(&mut sink, 0, &["A"]);
            }
            sink.set_origin(second);
            (first == EffectOrigin::Own).then(|| request(&mut sink, 0, &["A"]));
            request(&mut sink, 0, &["B"]);
            sink.set_origin(EffectOrigin::Local);
            sink.end_transaction();
            let _ = sink.drain(Some(&mut writer), LogWriter::append);
            request(&mut sink, 0, &["C"]);
            let _ = sink.drain(Some(&mut writer), LogWriter::append);
            let chunk = replicas.bytes(log.end());
            let text = String::from_utf8_lossy(&chunk.pieces.concat()).replace("\r\n", " ");
            assert!(text.ends_with("MULTI *1 $1 A *1 $1 B *1 $4 EXEC "), "{text}");
        }
    }

    #[test]
    fn a_transaction_is_one_unit() {
        let text = drained(|sink| {
            sink.begin_transaction();
            request(sink, 0, &["A"]);
            sink.end_command();
            request(sink, 0, &["B"]);
            sink.end_transaction();
            request(sink, 0, &["C"]);
        });
        assert_eq!(text, "*2 $6 SELECT $1 0 *1 $5 MULTI *1 $1 A *1 $1 B *1 $4 EXEC *1 $1 C ");
    }
}
