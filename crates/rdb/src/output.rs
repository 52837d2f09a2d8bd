//! Writing lengths and strings.

use collections::parse_canonical;

use crate::lzf::Packer;

/// Strings up to this length are not compressed.
const PACK_LEN_MIN: usize = 21;
/// A compressed string must be at least this much shorter.
const PACK_GAIN_MIN: usize = 4;
/// Longest text of an integer that is stored as one.
const INT_LEN_MAX: usize = 11;

/// Bytes of a length or count, at most.
pub(crate) const LEN_SIZE_MAX: usize = 9;

/// Appends a length or count.
pub(crate) fn write_len(len: u64, out: &mut Vec<u8>) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend([0x40 | (len >> 8) as u8, len as u8]),
        0x4000..0x1_0000_0000 => {
            out.push(0x80);
            out.extend((len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(len.to_be_bytes());
        }
    }
}

/// Appends a string: as an integer, compressed or as it is.
pub(crate) fn write_text(text: &[u8], packer: Option<&mut Packer>, out: &mut Vec<u8>) {
    if text.len() <= INT_LEN_MAX
        && let Some(value) = parse_canonical(text)
        && write_int(value, out)
    {
        return;
    }
    write_blob(text, packer, out);
}

/// Appends the text of an integer.
pub(crate) fn write_int_text(value: i64, out: &mut Vec<u8>) {
    if !write_int(value, out) {
        write_blob(collections::DecimalBuffer::new().format(value), None, out);
    }
}

/// Appends bytes, compressed or as they are.
pub(crate) fn write_blob(bytes: &[u8], packer: Option<&mut Packer>, out: &mut Vec<u8>) {
    if let Some(packer) = packer
        && bytes.len() >= PACK_LEN_MIN
        && write_packed(bytes, packer, out)
    {
        return;
    }
    write_len(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_int(value: i64, out: &mut Vec<u8>) -> bool {
    if let Ok(value) = i8::try_from(value) {
        out.extend([0xc0, value as u8]);
    } else if let Ok(value) = i16::try_from(value) {
        out.push(0xc1);
        out.extend(value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(0xc2);
        out.extend(value.to_le_bytes());
    } else {
        return false;
    }
    true
}

fn write_packed(bytes: &[u8], packer: &mut Packer, out: &mut Vec<u8>) -> bool {
    let Some(packed) = packer.pack(bytes, bytes.len() - PACK_GAIN_MIN) else { return false };
    out.push(0xc3);
    write_len(packed.len() as u64, out);
    write_len(bytes.len() as u64, out);
    out.extend_from_slice(packed);
    true
}
