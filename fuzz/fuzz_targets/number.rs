//! Parsing numbers never panics, and every written number parses back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::extended::Extended;
use wire::number;

fuzz_target!(|text: &[u8]| {
    let mut out = Vec::new();
    if let Some(value) = number::parse_i64_strict(text) {
        number::write_i64(&mut out, value);
        assert_eq!(out, text);
    }
    if let Some(value) = number::parse_f64(text) {
        out.clear();
        number::write_f64(&mut out, value);
        assert_eq!(number::parse_f64(&out).map(f64::to_bits), Some(value.to_bits()));
    }
    if let Some(value) = Extended::parse(text) {
        out.clear();
        value.write(&mut out);
        // Up to 17 decimals are shown: enough to distinguish any two numbers with different output.
        let shown = Extended::parse(&out).expect("the written text is a number");
        let mut again = Vec::new();
        shown.write(&mut again);
        assert_eq!(out, again);
        assert_eq!(value.checked_add(-value).is_some(), value.is_finite());
    }
});
