//! The bytes of a HyperLogLog: a header, then the registers in one of two forms.
//!
//! ```text
//! offset  size
//! 0       4     HYLL
//! 4       1     form: 0 dense, 1 sparse
//! 5       3     0
//! 8       8     the cached estimate, little-endian; its highest bit marks it as stale
//! 16            registers
//! ```

use collections::{Kind, ValueRef};
use keyspace::Key;

use super::estimate::{Histogram, estimate};
use super::pattern::{REGISTER_COUNT, pattern_of};
use super::{dense, sparse};
use crate::context::Ctx;
use crate::error::CommandError;

const MAGIC: &[u8] = b"HYLL";
const FORM_AT: usize = 4;
const ESTIMATE_AT: usize = 8;
const HEADER_SIZE: usize = 16;
const OUT_OF_DATE: u64 = 1 << 63;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

const NOT_ONE: CommandError = CommandError::new("WRONGTYPE Key is not a valid HyperLogLog string value.");
/// The registers are malformed.
pub(super) const CORRUPTED: CommandError = CommandError::new("INVALIDOBJ Corrupted HLL object detected");

/// A HyperLogLog with its own bytes.
#[derive(Clone)]
pub(super) struct Sketch {
    bytes: Vec<u8>,
}

/// The union of several sketches: the maximum of each register.
pub(super) struct Union {
    registers: Box<[u8; REGISTER_COUNT]>,
}

/// Whether a sketch is dense; an error if the bytes are not a HyperLogLog.
pub(super) fn is_dense(bytes: &[u8]) -> Result<bool, CommandError> {
    let form = bytes.get(FORM_AT).copied().filter(|_| bytes.len() >= HEADER_SIZE && bytes.starts_with(MAGIC));
    match form {
        Some(SPARSE) => Ok(false),
        Some(DENSE) if bytes.len() == HEADER_SIZE + dense::REGISTERS_SIZE => Ok(true),
        _ => Err(NOT_ONE),
    }
}

/// Returns the bytes of a value that is a HyperLogLog.
pub(super) fn bytes_of(value: ValueRef<'_>) -> Result<&[u8], CommandError> {
    match value {
        ValueRef::Bytes(bytes) => is_dense(bytes).map(|_| bytes),
        ValueRef::Int(_) => Err(NOT_ONE),
        ValueRef::Object(_) => Err(CommandError::WRONG_TYPE),
    }
}

/// Returns the bytes of a key's HyperLogLog for reading.
pub(super) fn find<'c>(ctx: &'c Ctx<'_>, key: Key<'_>) -> Result<Option<&'c [u8]>, CommandError> {
    let Some(entry) = ctx.data.find(key) else { return Ok(None) };
    if entry.kind() != Kind::String {
        return Err(CommandError::WRONG_TYPE);
    }
    bytes_of(entry.value()).map(Some)
}

/// Adds an element to a dense sketch in place. Returns whether it changed.
pub(super) fn add_dense(bytes: &mut [u8], element: &[u8]) -> bool {
    let (index, value) = pattern_of(element);
    dense::raise(&mut bytes[HEADER_SIZE..], index, value)
}

/// Marks the cached estimate as stale.
pub(super) fn invalidate(bytes: &mut [u8]) {
    bytes[HEADER_SIZE - 1] |= (OUT_OF_DATE >> 56) as u8;
}

/// Returns the cached estimate, unless it is stale.
pub(super) fn stored_estimate(bytes: &[u8]) -> Option<u64> {
    let stored = bytes[ESTIMATE_AT..HEADER_SIZE].try_into().map_or(OUT_OF_DATE, u64::from_le_bytes);
    (stored & OUT_OF_DATE == 0).then_some(stored)
}

/// Caches an estimate.
pub(super) fn store_estimate(bytes: &mut [u8], estimate: u64) {
    bytes[ESTIMATE_AT..HEADER_SIZE].copy_from_slice(&estimate.to_le_bytes());
}

/// Estimates the number of distinct elements.
pub(super) fn count(bytes: &[u8]) -> Result<u64, CommandError> {
    let mut histogram: Histogram = [0; 64];
    let registers = &bytes[HEADER_SIZE..];
    if bytes[FORM_AT] == DENSE {
        for index in 0..REGISTER_COUNT {
            histogram[usize::from(dense::read(registers, index))] += 1;
        }
    } else {
        if !sparse::is_valid(registers) {
            return Err(CORRUPTED);
        }
        sparse::runs(registers).for_each(|run| histogram[usize::from(run.value)] += run.len as u32);
    }
    Ok(estimate(&histogram))
}

/// Returns the runs of a sparse sketch, as `PFDEBUG DECODE` prints them.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    if bytes[FORM_AT] == DENSE {
        return None;
    }
    let show = |run: sparse::RegisterRun| match run {
        run if run.value > 0 => format!("v:{},{}", run.value, run.len),
        run if run.is_long() => format!("Z:{}", run.len),
        run => format!("z:{}", run.len),
    };
    Some(sparse::runs(&bytes[HEADER_SIZE..]).map(show).collect::<Vec<_>>().join(" "))
}

/// Iterates over all registers of a dense sketch.
pub(super) fn registers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    (0..REGISTER_COUNT).map(|index| dense::read(&bytes[HEADER_SIZE..], index))
}

impl Sketch {
    /// Creates an empty sketch.
    pub(super) fn new() -> Self {
        let mut bytes = [MAGIC, &[SPARSE], &[0; HEADER_SIZE - FORM_AT - 1]].concat();
        bytes.extend(sparse::empty());
        Self { bytes }
    }

    /// Copies the value of a key.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec() }
    }

    /// Returns its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns its bytes, to be changed in place.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Whether it is dense.
    pub(super) fn is_dense(&self) -> bool {
        self.bytes[FORM_AT] == DENSE
    }

    /// Adds an element. Returns whether it changed.
    pub(super) fn add(&mut self, element: &[u8], sparse_size_max: u64) -> Result<bool, CommandError> {
        let (index, value) = pattern_of(element);
        self.raise(index, value, sparse_size_max)
    }

    fn raise(&mut self, index: usize, value: u8, sparse_size_max: u64) -> Result<bool, CommandError> {
        if self.is_dense() {
            return Ok(dense::raise(&mut self.bytes[HEADER_SIZE..], index, value));
        }
        let size_max = runs_size_max(sparse_size_max);
        let mut runs = self.bytes.split_off(HEADER_SIZE);
        let raised = sparse::raise(&mut runs, &mut sparse::Start::default(), index, value, size_max);
        self.bytes.append(&mut runs);
        match raised {
            sparse::Raised::No => Ok(false),
            sparse::Raised::Yes => {
                invalidate(&mut self.bytes);
                Ok(true)
            }
            sparse::Raised::Corrupted => Err(CORRUPTED),
            sparse::Raised::TooLarge => {
                self.make_dense()?;
                Ok(dense::raise(&mut self.bytes[HEADER_SIZE..], index, value))
            }
        }
    }

    /// Makes it dense. Returns whether it was sparse.
    pub(super) fn make_dense(&mut self) -> Result<bool, CommandError> {
        if self.is_dense() {
            return Ok(false);
        }
        let runs = self.bytes.split_off(HEADER_SIZE);
        if !sparse::is_valid(&runs) {
            self.bytes.extend(runs);
            return Err(CORRUPTED);
        }
        self.bytes.resize(HEADER_SIZE + dense::REGISTERS_SIZE, 0);
        self.bytes[FORM_AT] = DENSE;
        let mut index = 0;
        for run in sparse::runs(&runs) {
            for at in index..index + run.len {
                dense::write(&mut self.bytes[HEADER_SIZE..], at, run.value);
            }
            index += run.len;
        }
        Ok(true)
    }

    /// Takes the registers of a union that includes this sketch, and marks the cached estimate as stale.
    pub(super) fn take(&mut self, union: &Union, sparse_size_max: u64) {
        let size_max = runs_size_max(sparse_size_max);
        // The sketch would become dense during the raises, and each raise before that would read all runs.
        if self.bytes.len() - HEADER_SIZE <= size_max && sparse::size_min(&union.registers[..]) > size_max {
            // Corruption was detected before.
            let _ = self.make_dense();
        }
        let raised = || union.registers.iter().enumerate().filter(|(_, value)| **value > 0);
        if !self.is_dense() {
            let mut runs = self.bytes.split_off(HEADER_SIZE);
            let mut from = sparse::Start::default();
            let is_too_large = raised().any(|(index, &value)| {
                sparse::raise(&mut runs, &mut from, index, value, size_max) == sparse::Raised::TooLarge
            });
            self.bytes.append(&mut runs);
            if is_too_large {
                let _ = self.make_dense();
            }
        }
        if self.is_dense() {
            for (index, &value) in raised() {
                dense::raise(&mut self.bytes[HEADER_SIZE..], index, value);
            }
        }
        invalidate(&mut self.bytes);
    }
}

/// The maximum size of the runs for a setting, which counts the header, too.
fn runs_size_max(sparse_size_max: u64) -> usize {
    usize::try_from(sparse_size_max).unwrap_or(usize::MAX).saturating_sub(HEADER_SIZE)
}

impl Union {
    /// Creates a union without elements.
    pub(super) fn new() -> Self {
        Self { registers: Box::new([0; REGISTER_COUNT]) }
    }

    /// Adds the elements of a HyperLogLog.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        let registers = &bytes[HEADER_SIZE..];
        if bytes[FORM_AT] == DENSE {
            for (index, max) in self.registers.iter_mut().enumerate() {
                *max = dense::read(registers, index).max(*max);
            }
            return Ok(());
        }
        if !sparse::is_valid(registers) {
            return Err(CORRUPTED);
        }
        let mut rest = &mut self.registers[..];
        for run in sparse::runs(registers) {
            let (covered, after) = rest.split_at_mut(run.len);
            // Most registers are zero.
            if run.value > 0 {
                covered.iter_mut().for_each(|max| *max = run.value.max(*max));
            }
            rest = after;
        }
        Ok(())
    }

    /// Estimates the number of distinct elements in the union.
    pub(super) fn count(&self) -> u64 {
        let mut histogram: Histogram = [0; 64];
        self.registers.iter().for_each(|value| histogram[usize::from(*value)] += 1);
        estimate(&histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_union_is_stored_as_if_register_by_register() {
        for (element_count, is_dense) in [(0, false), (100, false), (1_200, false), (3_000, true)] {
            let mut one_by_one = Sketch::new();
            let mut union = Union::new();
            for number in 0_u32..element_count {
                let mut sketch = Sketch::new();
                sketch.add(&number.to_le_bytes(), 3_000).unwrap();
                union.add(sketch.bytes()).unwrap();
            }
            for (index, &value) in union.registers.iter().enumerate().filter(|(_, value)| **value > 0) {
                one_by_one.raise(index, value, 3_000).unwrap();
            }
            let mut taken = Sketch::new();
            taken.take(&union, 3_000);
            invalidate(one_by_one.bytes_mut());
            assert!(taken.bytes() == one_by_one.bytes(), "{element_count}");
            assert_eq!(taken.is_dense(), is_dense, "{element_count}");
        }
    }
}
