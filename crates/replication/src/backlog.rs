//! The newest bytes of the stream, in blocks.
//!
//! The *window* is what a replica may ask for that connects again: the last `size` bytes, or all since the beginning. Below
//! it, bytes are kept that a connected replica still has to receive.
//!
//! Invariants:
//! 1. The blocks have the bytes of `kept .. end` and at most a block before them. All but the last are full.
//! 2. `kept <= window start <= end`.

use std::collections::VecDeque;

/// The size of a block, in bytes.
const BLOCK_SIZE: usize = 64 << 10;

/// Free blocks that are kept for later bytes.
const SPARE_COUNT_MAX: usize = 4;

/// See the module documentation.
#[derive(Debug)]
pub struct Backlog {
    blocks: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// The offset of the first byte of the first block, or of the next byte.
    blocks_start: u64,
    /// Bytes below are not kept.
    kept: u64,
    /// The offset at which it began.
    begun_at: u64,
    end: u64,
    /// The size of the window, in bytes.
    size: u64,
}

impl Backlog {
    /// An empty one, whose next byte has this offset.
    #[must_use]
    pub fn new(offset: u64, size: u64) -> Self {
        Self {
            blocks: VecDeque::new(),
            spare: Vec::new(),
            blocks_start: offset,
            kept: offset,
            begun_at: offset,
            end: offset,
            size,
        }
    }

    /// The offset of the next byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The lowest offset of the window.
    #[must_use]
    pub fn window_start(&self) -> u64 {
        self.end.saturating_sub(self.size).max(self.begun_at)
    }

    /// The lowest offset that can be read: of the window, or below it.
    #[must_use]
    pub fn kept_start(&self) -> u64 {
        self.kept
    }

    /// The size that the window may have.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Changes the size of the window. It does not reach back to bytes that were removed.
    pub fn resize(&mut self, size: u64) {
        self.begun_at = self.window_start();
        self.size = size;
    }

    /// Whether bytes from this offset on can be read.
    #[must_use]
    pub fn has(&self, offset: u64) -> bool {
        (self.kept..=self.end).contains(&offset)
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        ((self.blocks.len() + self.spare.len()) * BLOCK_SIZE) as u64
    }

    /// Appends bytes.
    pub fn append(&mut self, mut bytes: &[u8]) {
        self.end += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.blocks.back().map_or(0, |block| BLOCK_SIZE - block.len());
            if room == 0 {
                let block = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_SIZE));
                self.blocks.push_back(block);
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.blocks.back_mut().expect("it has room").extend_from_slice(now);
            bytes = later;
        }
    }

    /// Removes what is below both the window and `needed`, the lowest offset that a replica still has to receive.
    pub fn trim(&mut self, needed: u64) {
        self.kept = self.window_start().min(needed).max(self.kept);
        while let Some(first) = self.blocks.front()
            && self.blocks_start + first.len() as u64 <= self.kept
            && (first.len() == BLOCK_SIZE || self.kept == self.end)
        {
            self.blocks_start += first.len() as u64;
            let mut block = self.blocks.pop_front().expect("it was there");
            if self.spare.len() < SPARE_COUNT_MAX {
                block.clear();
                self.spare.push(block);
            }
        }
    }

    /// Appends up to `size_max` bytes from `offset` on to `out`. Returns their number; `None` if they are not kept.
    pub fn read(&self, offset: u64, size_max: usize, out: &mut Vec<u8>) -> Option<usize> {
        if !self.has(offset) {
            return None;
        }
        let size = ((self.end - offset) as usize).min(size_max);
        let at = (offset - self.blocks_start) as usize;
        let (mut block, mut from, mut left) = (at / BLOCK_SIZE, at % BLOCK_SIZE, size);
        while left > 0 {
            let bytes = &self.blocks[block][from..];
            let bytes = &bytes[..bytes.len().min(left)];
            out.extend_from_slice(bytes);
            left -= bytes.len();
            (block, from) = (block + 1, 0);
        }
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte_at(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    fn append(backlog: &mut Backlog, size: usize) {
        let bytes: Vec<u8> = (backlog.end()..).take(size).map(byte_at).collect();
        backlog.append(&bytes);
    }

    fn expect_readable(backlog: &Backlog, from: u64) {
        let mut out = Vec::new();
        let size = (backlog.end() - from) as usize;
        assert_eq!(backlog.read(from, usize::MAX, &mut out), Some(size));
        assert!(out.iter().zip(from..).all(|(byte, offset)| *byte == byte_at(offset)));
        assert_eq!(out.len(), size);
    }

    #[test]
    fn the_window_has_exactly_its_size() {
        let mut backlog = Backlog::new(1000, 10_000);
        assert_eq!((backlog.window_start(), backlog.end()), (1000, 1000));
        append(&mut backlog, 5000);
        backlog.trim(u64::MAX);
        assert_eq!((backlog.window_start(), backlog.end()), (1000, 6000));
        for size in [1, 4999, 70_000, 200_000, 0, 3] {
            append(&mut backlog, size);
            backlog.trim(u64::MAX);
            let start = backlog.window_start();
            assert_eq!(start, backlog.end().saturating_sub(10_000).max(1000));
            expect_readable(&backlog, start);
            assert!(start == 1000 || backlog.read(start - 1, 1, &mut Vec::new()).is_none());
            assert!(backlog.read(backlog.end() + 1, 1, &mut Vec::new()).is_none());
        }
        assert!(backlog.memory_bytes() <= (2 + SPARE_COUNT_MAX as u64) * BLOCK_SIZE as u64);
    }

    #[test]
    fn bytes_that_a_replica_needs_are_kept() {
        let mut backlog = Backlog::new(0, 100);
        append(&mut backlog, 300_000);
        backlog.trim(50_000);
        expect_readable(&backlog, 50_000);
        assert!(!backlog.has(49_999));
        append(&mut backlog, 100_000);
        backlog.trim(u64::MAX);
        assert!(!backlog.has(50_000) && backlog.has(399_900));
        let mut out = Vec::new();
        assert_eq!(backlog.read(399_900, 7, &mut out), Some(7));
        assert_eq!(out[0], byte_at(399_900));
    }

    #[test]
    fn a_larger_window_does_not_reach_back() {
        let mut backlog = Backlog::new(0, 100);
        append(&mut backlog, 1000);
        backlog.trim(u64::MAX);
        backlog.resize(500);
        assert_eq!(backlog.window_start(), 900);
        append(&mut backlog, 450);
        backlog.trim(u64::MAX);
        assert_eq!(backlog.window_start(), 950);
        backlog.resize(50);
        assert_eq!(backlog.window_start(), 1400);
        backlog.trim(u64::MAX);
        expect_readable(&backlog, 1400);
    }

    #[test]
    fn random_steps_agree_with_all_bytes() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut backlog = Backlog::new(5, 1);
        for _ in 0..2000 {
            match random(4) {
                0 => backlog.resize(random(300_000)),
                1 => backlog.trim(backlog.end() - random(100_000).min(backlog.end())),
                _ => append(&mut backlog, random(100_000) as usize),
            }
            expect_readable(&backlog, backlog.window_start());
        }
    }
}
