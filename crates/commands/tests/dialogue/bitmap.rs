//! Dialogues with bitmaps.

mod bitfield;
mod bitop;
mod bits;
mod count;
