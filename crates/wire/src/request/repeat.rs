//! The fast path for a pipeline of requests of one form.
//!
//! Consecutive requests often differ in the contents of their arguments only: the command and the size of each
//! argument are equal. Then all other bytes are equal, too, at equal positions, and the first request's parse
//! is valid for all.

use super::args::Span;
use super::lines::{LINE_END, word};

/// Bytes that are compared at once.
const PART_SIZE: usize = 16;

/// The number of requests at the front of `input` that equal the first one except for the contents of their
/// arguments. The size and arguments of the first one are given. At least 1, at most `count_max`.
#[inline(always)]
pub(super) fn count_repeats(input: &[u8], size: usize, spans: &[Span], count_max: usize) -> usize {
    let Some((model, rest)) = input.split_at_checked(size) else { return 1 };
    let Some(form) = RequestForm::of(model, spans) else { return 1 };
    1 + match *spans {
        [_, first] => form.count(&[first], rest, count_max - 1),
        [_, first, second] => form.count(&[first, second], rest, count_max - 1),
        _ => form.count(&spans[1..], rest, count_max - 1),
    }
}

/// The common bytes of requests of one form.
struct RequestForm<'a> {
    /// The reference request.
    model: &'a [u8],
    /// All bytes up to the argument after the name, in two parts, which may overlap.
    head: [&'a [u8; PART_SIZE]; 2],
    second_at: usize,
}

impl<'a> RequestForm<'a> {
    /// The form of a request with these arguments; `None` if it cannot be compared in this way.
    #[inline(always)]
    fn of(model: &'a [u8], spans: &[Span]) -> Option<Self> {
        // Of 16 to 32 bytes.
        let head_size = spans.get(1)?.start as usize;
        let second_at = head_size.checked_sub(PART_SIZE).filter(|second| *second <= PART_SIZE)?;
        Some(Self { model, head: [part(model, 0)?, part(model, second_at)?], second_at })
    }

    /// The number of requests of this form at the front of `rest`. `args` are the arguments after the name.
    #[inline(always)]
    fn count(&self, args: &[Span], mut rest: &[u8], count_max: usize) -> usize {
        let mut count = 0;
        while count < count_max
            && let Some((request, after)) = rest.split_at_checked(self.model.len())
            && self.is_of(args, request).is_some()
        {
            (rest, count) = (after, count + 1);
        }
        count
    }

    /// Compares a request of the right size with the form.
    #[inline(always)]
    fn is_of(&self, args: &[Span], request: &[u8]) -> Option<()> {
        if part(request, 0)? != self.head[0] || part(request, self.second_at)? != self.head[1] {
            return None;
        }
        for pair in args.windows(2) {
            let gap = (pair[0].start + pair[0].len) as usize;
            // Part of a word, which is available: a length line of six bytes is followed by at least the two
            // bytes of another line end.
            let unread_bits = 64_u32.checked_sub(8 * (pair[1].start - gap as u32))?;
            if (word(request, gap)? ^ word(self.model, gap)?) << unread_bits != 0 {
                return None;
            }
        }
        request.ends_with(LINE_END).then_some(())
    }
}

#[inline(always)]
fn part(bytes: &[u8], at: usize) -> Option<&[u8; PART_SIZE]> {
    bytes.get(at..)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use crate::request::{Batch, Parsed, Parser, RequestLimits, Series};

    fn parse(input: &[u8], batch: &mut Batch, request_count_max: usize) -> Parsed {
        Parser::new().parse(input, &RequestLimits::default(), batch, request_count_max)
    }

    /// The requests of a batch.
    fn contents(batch: &Batch, bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        batch.requests(bytes).map(|args| args.iter().map(<[u8]>::to_vec).collect()).collect()
    }

    /// The requests of `input`, each parsed separately, and whether all input was read.
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

    fn counts(input: &[u8]) -> Vec<usize> {
        let mut batch = Batch::new();
        let _ = parse(input, &mut batch, usize::MAX);
        batch.series().iter().map(Series::count).collect()
    }

    const PIPELINES: &[&str] = &[
        "*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:2\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:3\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n10\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2\r\n\r\n\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n1\r\n",
        "*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$10\r\n0123456789\r\n$0\r\n\r\n*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$10\r\n9876543210\r\n$0\r\n\r\n",
        "*3\r\n$6\r\nINCRBY\r\n$16\r\n0123456789abcdef\r\n$1\r\n1\r\n*3\r\n$6\r\nDECRBY\r\n$16\r\n0123456789abcdef\r\n$1\r\n1\r\n",
        "*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\nGET key:2\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:3\r\n\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:4\r\n",
        "*5\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbb\r\n$3\r\nccc\r\n$1\r\nd\r\n*5\r\n$4\r\nMGET\r\n$1\r\ne\r\n$2\r\nff\r\n$3\r\n\r\n\r\r\n$1\r\nh\r\n*5\r\n$4\r\nMGET\r\n$1\r\ni\r\n$2\r\njj\r\n$3\r\nkkk\r\n$1\r\nl\r\n*5\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbb\r\n$2\r\ncc\r\n$1\r\nd\r\n",
    ];

    #[test]
    fn requests_of_one_form_are_repeated() {
        let counts: Vec<_> = PIPELINES.iter().map(|pipeline| counts(pipeline.as_bytes())).collect();
        let expected: [&[usize]; _] = [&[3], &[2, 1], &[2], &[1, 1], &[1, 1, 1, 1], &[3, 1]];
        assert_eq!(counts, expected);
    }

    /// For any changed byte and any end of the input, the result equals that of parsing request by request.
    #[test]
    fn repeated_requests_parse_like_single_ones() {
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
        for series in batch.series().iter().filter(|series| series.count() > 1) {
            let sizes = (0..series.count()).map(|nth| batch.args(series, nth, input).wire_size());
            assert!(sizes.eq(vec![series.size(); series.count()]), "{shown}");
        }
    }
}
