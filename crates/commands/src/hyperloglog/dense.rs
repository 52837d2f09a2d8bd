//! The dense form: 16,384 registers of six bits, low bits of a byte first.

use super::pattern::REGISTER_COUNT;

const BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << BITS) - 1;

/// Size of all registers in bytes.
pub(super) const REGISTERS_SIZE: usize = REGISTER_COUNT * BITS / 8;

/// Returns the register at `index`.
pub(super) fn read(registers: &[u8], index: usize) -> u8 {
    let (byte, shift) = (index * BITS / 8, index * BITS % 8);
    let low = registers[byte] >> shift;
    // The last register ends at the end of a byte.
    let high = registers.get(byte + 1).map_or(0, |next| u16::from(*next) << (8 - shift)) as u8;
    (if shift > 8 - BITS { low | high } else { low }) & REGISTER_MAX
}

/// Sets the register at `index`.
pub(super) fn write(registers: &mut [u8], index: usize, value: u8) {
    let (byte, shift) = (index * BITS / 8, index * BITS % 8);
    let mask = u16::from(REGISTER_MAX) << shift;
    let bits = u16::from(value) << shift;
    registers[byte] = registers[byte] & !(mask as u8) | bits as u8;
    if shift > 8 - BITS {
        registers[byte + 1] = registers[byte + 1] & !((mask >> 8) as u8) | (bits >> 8) as u8;
    }
}

/// Raises the register at `index`. Returns whether it was lower.
pub(super) fn raise(registers: &mut [u8], index: usize, value: u8) -> bool {
    let is_lower = read(registers, index) < value;
    if is_lower {
        write(registers, index, value);
    }
    is_lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_independent() {
        let mut registers = vec![0; REGISTERS_SIZE];
        let value = |index: usize, round: usize| ((index * 7 + round * 13) % 64) as u8;
        for round in 0..3 {
            for index in 0..REGISTER_COUNT {
                write(&mut registers, index, value(index, round));
            }
            assert!((0..REGISTER_COUNT).all(|index| read(&registers, index) == value(index, round)));
        }
        assert!(
            !raise(&mut registers, 5, 0) && raise(&mut registers, 0, 63) && !raise(&mut registers, 0, 63)
        );
    }
}
