//! The quick way through a pipeline of requests of one form.
//!
//! Requests that follow each other often differ in what is in their arguments only: the command is the same, and so is the size of
//! each argument. Then all else stands where it stood in the request before, byte for byte, and what was read from it holds.

use super::args::Span;
use super::batch::{Batch, Request};
use super::lines::{LINE_END, word};

/// Bytes that are compared at once.
const PART_SIZE: usize = 16;

/// Reads the request at `start` if it is the last one of the batch over again, but for what is in its arguments. Gives its end.
/// `None`: it may be any request, or not be there.
#[inline(always)]
pub(super) fn repeat_last(input: &[u8], start: usize, batch: &mut Batch) -> Option<usize> {
    let (&last, spans) = batch.last_multibulk()?;
    match *spans {
        [name, key] => repeat(input, start, last, [name, key], batch),
        [name, key, value] => repeat(input, start, last, [name, key, value], batch),
        [name, key, field, value] => repeat(input, start, last, [name, key, field, value], batch),
        _ => None,
    }
}

#[inline(always)]
fn repeat<const ARGC: usize>(
    input: &[u8],
    start: usize,
    last: Request,
    spans: [Span; ARGC],
    batch: &mut Batch,
) -> Option<usize> {
    let last_bytes = input.get(last.start()..last.end())?;
    let size = last_bytes.len();
    let this = input.get(start..)?.get(..size)?;
    let spans = spans.map(|span| Span { start: span.start - last.start() as u32, ..span });
    // All up to the argument behind the name, of 16 to 32 bytes: in two parts, which may overlap.
    let head_size = spans[1].start as usize;
    let second = head_size.checked_sub(PART_SIZE).filter(|second| *second <= PART_SIZE)?;
    if part(this, 0)? != part(last_bytes, 0)? || part(this, second)? != part(last_bytes, second)? {
        return None;
    }
    for pair in spans[1..].windows(2) {
        let gap = (pair[0].start + pair[0].len) as usize;
        // Of a word, which is there: behind a length line of six bytes there are at least the two of another line end.
        let unread_bits = 64_u32.checked_sub(8 * (pair[1].start - gap as u32))?;
        if (word(this, gap)? ^ word(last_bytes, gap)?) << unread_bits != 0 {
            return None;
        }
    }
    if !this.ends_with(LINE_END) {
        return None;
    }
    let first_arg = batch.spans.len();
    for span in spans {
        batch.spans.push(Span { start: start as u32 + span.start, ..span });
    }
    batch.push_repeated(first_arg, start, start + size);
    Some(start + size)
}

#[inline(always)]
fn part(bytes: &[u8], at: usize) -> Option<&[u8; PART_SIZE]> {
    bytes.get(at..)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use crate::request::{Batch, Limits, Parsed, Parser};

    fn parse(input: &[u8], batch: &mut Batch, request_count_max: usize) -> Parsed {
        Parser::new().parse(input, &Limits::default(), batch, request_count_max)
    }

    /// What is in the requests of a batch.
    fn contents(batch: &Batch, bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        batch.iter(bytes).map(|(_, args)| args.iter().map(<[u8]>::to_vec).collect()).collect()
    }

    /// The requests of `input`, each parsed by itself, and whether all of it could be read.
    fn one_by_one(input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Parsed) {
        let (mut requests, mut consumed) = (Vec::new(), 0);
        loop {
            let mut batch = Batch::new();
            let parsed = parse(&input[consumed..], &mut batch, 1);
            requests.extend(contents(&batch, &input[consumed..]));
            consumed += parsed.consumed;
            if batch.is_empty() {
                return (requests, Parsed { consumed, ..parsed });
            }
        }
    }

    fn repeated_count(input: &[u8]) -> usize {
        let mut batch = Batch::new();
        let _ = parse(input, &mut batch, usize::MAX);
        batch.iter(input).filter(|(request, _)| request.is_repeated()).count()
    }

    const PIPELINES: &[&str] = &[
        "*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:2\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:3\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n10\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2\r\n\r\n\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n1\r\n",
        "*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$10\r\n0123456789\r\n$0\r\n\r\n*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$10\r\n9876543210\r\n$0\r\n\r\n",
        "*3\r\n$6\r\nINCRBY\r\n$16\r\n0123456789abcdef\r\n$1\r\n1\r\n*3\r\n$6\r\nDECRBY\r\n$16\r\n0123456789abcdef\r\n$1\r\n1\r\n",
        "*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\nGET key:2\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:3\r\n\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:4\r\n",
    ];

    #[test]
    fn requests_of_one_form_are_repeated() {
        let counts: Vec<_> = PIPELINES.iter().map(|pipeline| repeated_count(pipeline.as_bytes())).collect();
        assert_eq!(counts, [2, 1, 1, 0, 1]);
    }

    /// Whatever byte is another one, and wherever the input ends, it reads as it does request by request.
    #[test]
    fn a_repeated_request_is_what_it_is_by_itself() {
        for pipeline in PIPELINES {
            for at in 0..pipeline.len() {
                for byte in *b"\r\n$*0129Xa\0" {
                    let mut input = pipeline.as_bytes().to_vec();
                    input[at] = byte;
                    same_both_ways(&input);
                }
                same_both_ways(&pipeline.as_bytes()[..at]);
            }
        }
    }

    fn same_both_ways(input: &[u8]) {
        let mut batch = Batch::new();
        let parsed = parse(input, &mut batch, usize::MAX);
        let (expected, expected_parsed) = one_by_one(input);
        let shown = input.escape_ascii();
        assert_eq!(contents(&batch, input), expected, "{shown}");
        assert_eq!(
            (parsed.consumed, parsed.error),
            (expected_parsed.consumed, expected_parsed.error),
            "{shown}"
        );
        for (request, args) in batch.iter(input).filter(|(request, _)| request.is_repeated()) {
            assert_eq!(request.end() - request.start(), args.wire_size(), "{shown}");
        }
    }
}
