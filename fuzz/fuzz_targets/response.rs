//! Replies never cause a panic, and both readers agree on where they end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::response::{Reply, skip_reply};

fuzz_target!(|data: &[u8]| {
    let skipped = skip_reply(data);
    match Reply::parse(data) {
        Ok(None) => assert_eq!(skipped, Ok(None)),
        Ok(Some((reply, len))) => {
            let skipped = skipped.expect("a reply").expect("whole");
            assert_eq!((skipped.len, skipped.is_error), (len, reply.is_error()));
            assert!(Reply::parse(&data[..len - 1]).expect("the start of a reply").is_none());
        }
        // The skipping reader does not detect errors inside a reply.
        Err(_) => {}
    }
});
