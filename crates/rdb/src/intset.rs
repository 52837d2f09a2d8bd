//! Sets of integers: the width of a member and their number in 4 bytes each, then the members, ascending.

use crate::error::Fault;

const HEAD_SIZE: usize = 8;

/// The members of a set, ascending.
pub(crate) fn read(bytes: &[u8]) -> Result<impl ExactSizeIterator<Item = i64>, Fault> {
    let (width, members) = open(bytes).ok_or(Fault::Intset)?;
    let members = members.chunks_exact(width).map(int);
    match members.clone().zip(members.clone().skip(1)).all(|(a, b)| a < b) {
        true => Ok(members),
        false => Err(Fault::Intset),
    }
}

fn open(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let width = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let count = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let members = &bytes[HEAD_SIZE..];
    (matches!(width, 2 | 4 | 8) && count.checked_mul(width) == Some(members.len()))
        .then_some((width, members))
}

fn int(bytes: &[u8]) -> i64 {
    let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [fill; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}

/// Appends a set of these members, which ascend.
pub(crate) fn write(members: &[i64], out: &mut Vec<u8>) {
    let fits = |min: i64, max: i64| {
        members.first().is_none_or(|first| *first >= min) && members.last().is_none_or(|last| *last <= max)
    };
    let width = if fits(i16::MIN.into(), i16::MAX.into()) {
        2
    } else if fits(i32::MIN.into(), i32::MAX.into()) {
        4
    } else {
        8
    };
    out.extend((width as u32).to_le_bytes());
    out.extend((members.len() as u32).to_le_bytes());
    members.iter().for_each(|member| out.extend_from_slice(&member.to_le_bytes()[..width]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_every_width_round_trip() {
        for members in [
            vec![],
            vec![-3, 0, 7],
            vec![-32_768, 32_767],
            vec![-32_769, 1],
            vec![0, i64::from(i32::MAX)],
            vec![i64::MIN, 0, i64::MAX],
        ] {
            let mut bytes = Vec::new();
            write(&members, &mut bytes);
            assert_eq!(read(&bytes).map(Iterator::collect), Ok(members));
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut]).is_err());
            }
        }
        let descending = [2, 0, 0, 0, 2, 0, 0, 0, 5, 0, 5, 0];
        assert!(read(&descending).is_err());
        let wrong_width = [3, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0];
        assert!(read(&wrong_width).is_err());
    }
}
