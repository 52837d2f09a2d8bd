//! Client input never causes a panic, and its division into reads does not change the result.
//!
//! The first byte selects the sender, the second and third the sizes of pieces and the requests per call.
//! per call.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::request::{Batch, RequestLimits, Parser, ProtocolError, Sender};

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fuzz_target!(|data: &[u8]| {
    let [sender, cut, request_count, input @ ..] = data else { return };
    let sender = [Sender::Client, Sender::Unauthenticated, Sender::Primary][*sender as usize % 3];
    let limits = RequestLimits { sender, ..RequestLimits::default() };
    let whole = parse(input, input.len().max(1), &limits, usize::MAX);
    let piece_size = 1 + *cut as usize % 64;
    let cut = parse(input, piece_size, &limits, 1 + *request_count as usize % 8);
    assert_eq!(whole, cut);
});

/// Parses `input` in pieces.
fn parse(input: &[u8], piece_size: usize, limits: &RequestLimits, request_count_max: usize) -> Outcome {
    let (mut parser, mut batch) = (Parser::new(), Batch::new());
    let mut buffer = Vec::new();
    let mut requests = Vec::new();
    for piece in input.chunks(piece_size) {
        buffer.extend_from_slice(piece);
        loop {
            batch.clear();
            let parsed = parser.parse(&buffer, limits, &mut batch, request_count_max);
            for args in batch.requests(&buffer) {
                assert!(!args.is_empty());
                requests.push(args.iter().map(<[u8]>::to_vec).collect());
            }
            if parsed.error.is_some() {
                return (requests, parsed.error);
            }
            buffer.drain(..parsed.consumed);
            if batch.is_empty() {
                break;
            }
        }
    }
    (requests, None)
}
