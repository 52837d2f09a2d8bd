//! `BITOP`

use collections::{DecimalBuffer, ExpiryChange, NewValue, ValueRef};
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]`
pub const COMMAND: Command = Command {
    name: "bitop",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::BITMAP,
    access: Access::Write,
    keys: &[
        KeySpec::at(2, KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec::range(3, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(Group::Bitmap, "2.6.0", "Applies a bitwise operation to strings and stores the result.")
        .complexity("O(N) where N is the length of all strings together.")
        .history(&[("8.2.0", "Added `DIFF`, `DIFF1`, `ANDOR` and `ONE`.")])
        .args(&[Arg::one_of("operation", OPERATIONS), Arg::key("destkey", 0), Arg::key("key", 1).multiple()]),
    subcommands: &[],
    run,
};

const OPERATIONS: &[Arg] = &[
    Arg::word("and", "AND"),
    Arg::word("or", "OR"),
    Arg::word("xor", "XOR"),
    Arg::word("not", "NOT"),
    Arg::word("diff", "DIFF").since("8.2.0"),
    Arg::word("diff1", "DIFF1").since("8.2.0"),
    Arg::word("andor", "ANDOR").since("8.2.0"),
    Arg::word("one", "ONE").since("8.2.0"),
];

/// Bytes of the result computed at a time: small enough to stay in the L1 cache.
const BLOCK_SIZE: usize = 8 * 1024;

const NOT_OF_ONE: CommandError = CommandError::new("ERR BITOP NOT must be called with a single source key.");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first string and in none of the others.
    Diff,
    /// Set in any of the others but not in the first.
    Diff1,
    /// Set in the first and in any of the others.
    AndOr,
    /// Set in exactly one string.
    One,
}

impl Operation {
    fn parse(word: &[u8], source_count: usize) -> Result<Self, CommandError> {
        let operation = match word {
            _ if word.eq_token("and") => Self::And,
            _ if word.eq_token("or") => Self::Or,
            _ if word.eq_token("xor") => Self::Xor,
            _ if word.eq_token("not") => Self::Not,
            _ if word.eq_token("diff") => Self::Diff,
            _ if word.eq_token("diff1") => Self::Diff1,
            _ if word.eq_token("andor") => Self::AndOr,
            _ if word.eq_token("one") => Self::One,
            _ => return Err(CommandError::SYNTAX),
        };
        match operation {
            Self::Not if source_count != 1 => Err(NOT_OF_ONE),
            Self::Diff | Self::Diff1 | Self::AndOr if source_count < 2 => {
                let name = String::from_utf8_lossy(word).to_ascii_uppercase();
                let text = format!("ERR BITOP {name} must be called with at least two source keys.");
                Err(CommandError::owned(text))
            }
            _ => Ok(operation),
        }
    }

    /// Whether Redis before 8.2 and Valkey do not know it.
    fn is_recent(self) -> bool {
        matches!(self, Self::Diff | Self::Diff1 | Self::AndOr | Self::One)
    }

    /// Returns the result, as long as the longest string. Computed block by block, so that each byte is read
    /// from and written to memory once, whatever the number of strings.
    fn of(self, sources: &[&[u8]]) -> Vec<u8> {
        let Some((first, others)) = sources.split_first() else { return Vec::new() };
        let size = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let mut result = Vec::with_capacity(size);
        for start in (0..size).step_by(BLOCK_SIZE) {
            let end = size.min(start + BLOCK_SIZE);
            let part = |source: &'_ [u8]| -> std::ops::Range<usize> {
                start.min(source.len())..end.min(source.len())
            };
            result.extend_from_slice(&first[part(first)]);
            result.resize(end, 0);
            self.apply(&mut result[start..], others.iter().map(|other| &other[part(other)]));
        }
        result
    }

    /// Combines a block of the first string with blocks of the others, which may be shorter.
    fn apply<'s>(self, block: &mut [u8], others: impl Iterator<Item = &'s [u8]>) {
        // Scratch space: the bits set in any of the others, or in several.
        let mut scratch = [0; BLOCK_SIZE];
        let scratch = &mut scratch[..block.len()];
        match self {
            Self::Not => block.iter_mut().for_each(|byte| *byte = !*byte),
            Self::And => others.for_each(|other| {
                combine(block, other, |a, b| a & b);
                block[other.len()..].fill(0);
            }),
            Self::Or => others.for_each(|other| combine(block, other, |a, b| a | b)),
            Self::Xor => others.for_each(|other| combine(block, other, |a, b| a ^ b)),
            Self::Diff | Self::Diff1 | Self::AndOr => {
                others.for_each(|other| combine(scratch, other, |a, b| a | b));
                match self {
                    Self::Diff => combine(block, scratch, |a, b| a & !b),
                    Self::Diff1 => combine(block, scratch, |a, b| !a & b),
                    _ => combine(block, scratch, |a, b| a & b),
                }
            }
            Self::One => {
                others.for_each(|other| {
                    let twice = scratch.iter_mut().zip(&*block).zip(other);
                    twice.for_each(|((several, one), new)| *several |= one & new);
                    combine(block, other, |a, b| a | b);
                });
                combine(block, scratch, |a, b| a & !b);
            }
        }
    }
}

/// Changes as many bytes as `other` has. Simple enough to be vectorized.
#[inline]
fn combine(result: &mut [u8], other: &[u8], operation: impl Fn(u8, u8) -> u8) {
    result.iter_mut().zip(other).for_each(|(byte, other)| *byte = operation(*byte, *other));
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let operation = Operation::parse(args.at(1), args.len() - 3)?;
    ctx.expire_sources(1);
    let mut result = combined(ctx, operation)?;
    let (destination, size) = (ctx.key(0), result.len());
    // Older servers do not know the operation, so its result is logged.
    let is_logged = operation.is_recent();
    if size > 0 {
        if is_logged {
            ctx.record_effect(&["SET".into(), destination.bytes.into(), result[..].into()]);
        }
        ctx.data.set(destination, NewValue::Buffer(&mut result), ExpiryChange::Clear);
        ctx.changed(EventClass::String, "set", destination);
    } else if ctx.remove(destination) {
        ctx.changed(EventClass::Generic, "del", destination);
        if is_logged {
            ctx.record_deletion(destination);
        }
    }
    Ok(reply.integer(size as i64))
}

fn combined(ctx: &Ctx<'_>, operation: Operation) -> Result<Vec<u8>, CommandError> {
    let mut texts: Vec<&[u8]> = Vec::with_capacity(ctx.planned.len());
    let mut integers = Vec::new();
    for key in ctx.keys_for_reading(1) {
        let value = ctx.find_string(key)?;
        if let Some(ValueRef::Int(integer)) = value {
            integers.push((texts.len(), integer));
        }
        texts.push(if let Some(ValueRef::Bytes(bytes)) = value { bytes } else { &[] });
    }
    let mut decimals = vec![DecimalBuffer::new(); integers.len()];
    for ((place, integer), decimal) in integers.into_iter().zip(&mut decimals) {
        texts[place] = decimal.format(integer);
    }
    Ok(operation.of(&texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(bool, usize) -> bool;

    #[test]
    fn agrees_with_a_bitwise_model() {
        let sources: [&[u8]; 3] = [&[0b1111_0000, 0xAA, 0x0F], &[0b1100_1100, 0xFF], &[0b1010_1010]];
        let bit = |source: &[u8], at: usize| super::super::bits::is_set(source, at);
        let cases: &[(Operation, Rule)] = &[
            (Operation::And, |first, others| first && others == 2),
            (Operation::Or, |first, others| first || others > 0),
            (Operation::Xor, |first, others| (usize::from(first) + others) % 2 == 1),
            (Operation::Diff, |first, others| first && others == 0),
            (Operation::Diff1, |first, others| !first && others > 0),
            (Operation::AndOr, |first, others| first && others > 0),
            (Operation::One, |first, others| usize::from(first) + others == 1),
        ];
        for (operation, expected) in cases {
            let result = operation.of(&sources);
            assert_eq!(result.len(), 3);
            for at in 0..24 {
                let others = sources[1..].iter().filter(|source| bit(source, at)).count();
                assert_eq!(bit(&result, at), expected(bit(sources[0], at), others), "{operation:?} {at}");
            }
        }
        assert_eq!(Operation::Not.of(&sources[1..2]), [0b0011_0011, 0]);
    }

    #[test]
    fn long_strings_agree_with_the_short_form() {
        let long =
            |seed: usize, len: usize| (0..len).map(|place| (place * seed / 7) as u8).collect::<Vec<u8>>();
        let sources =
            [long(3, 3 * BLOCK_SIZE), long(5, BLOCK_SIZE + 100), long(11, 2 * BLOCK_SIZE), Vec::new()];
        for operation in [
            Operation::And,
            Operation::Or,
            Operation::Xor,
            Operation::Diff,
            Operation::Diff1,
            Operation::AndOr,
            Operation::One,
        ] {
            let result = operation.of(&sources.each_ref().map(Vec::as_slice));
            assert_eq!(result.len(), 3 * BLOCK_SIZE);
            for (place, byte) in result.iter().enumerate() {
                let bytes: [[u8; 1]; 4] = sources.each_ref().map(|source| [*source.get(place).unwrap_or(&0)]);
                assert_eq!(
                    operation.of(&bytes.each_ref().map(|byte| &byte[..])),
                    [*byte],
                    "{operation:?} {place}"
                );
            }
        }
    }
}
