//! `PFSELFTEST`

use wire::request::Args;

use super::sketch::{self, Sketch};
use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `PFSELFTEST`
pub const COMMAND: Command = Command::keyless(
    "pfselftest",
    1,
    Flags::ADMIN,
    Doc::new(Group::Hyperloglog, "2.8.9", "Tests the HyperLogLog implementation of the server.")
        .complexity("N/A")
        .internal(),
    run,
)
.add_categories(Categories::HYPERLOGLOG);

/// Number of elements added.
const ELEMENT_COUNT: u64 = 1_000_000;

/// Maximum size of a sparse sketch, the default of the directive.
const SPARSE_SIZE_MAX: u64 = 3000;

const DISAGREE: CommandError = CommandError::new("TESTFAILED dense/sparse disagree");

/// Adds elements to a sketch that is dense from the start and to one that becomes dense. After each power of
/// ten, both estimates must be equal, and near the exact number.
fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let seed = ctx.data.random().next_u64();
    let (mut dense, mut sparse) = (Sketch::new(), Sketch::new());
    dense.make_dense()?;
    let mut checkpoint = 1;
    for number in 1..=ELEMENT_COUNT {
        let element = (number ^ seed).to_le_bytes();
        dense.add(&element, SPARSE_SIZE_MAX)?;
        sparse.add(&element, SPARSE_SIZE_MAX)?;
        if number == checkpoint {
            compare(&dense, &sparse, number)?;
            checkpoint *= 10;
        }
    }
    Ok(reply.ok())
}

fn compare(dense: &Sketch, sparse: &Sketch, count: u64) -> Result<(), CommandError> {
    let estimate = sketch::count(dense.bytes())?;
    if estimate != sketch::count(sparse.bytes())? {
        return Err(DISAGREE);
    }
    let error = estimate.abs_diff(count);
    // Six times the standard error of 1.04 / sqrt(16384); for ten elements 1, because of a rare collision.
    let error_max = if count == 10 { 1 } else { (count as f64 * 6.0 * 1.04 / 128.0).ceil() as u64 };
    if error > error_max {
        let text = format!("TESTFAILED Too big error. card:{count} abserr:{error}");
        return Err(CommandError::owned(text));
    }
    Ok(())
}
