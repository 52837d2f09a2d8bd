//! Dialogues with the set commands.

mod combine;
mod members;
mod moving;
mod random;
mod scan;
