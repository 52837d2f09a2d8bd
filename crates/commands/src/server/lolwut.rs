//! `LOLWUT`: a randomly generated weave pattern, and the version.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::identity;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `LOLWUT [VERSION version] [width] [height]`
pub const COMMAND: Command = Command::keyless(
    "lolwut",
    -1,
    Flags::READONLY.union(Flags::FAST),
    Doc::new(Group::Server, "5.0.0", "Returns generated ASCII art and the server version.")
        .complexity("O(1)")
        .args(&[Arg::integer("version").token("VERSION").optional()]),
    run,
);

const WIDTH_DEFAULT: usize = 48;
const WIDTH_MAX: usize = 120;
const HEIGHT_DEFAULT: usize = 16;
const HEIGHT_MAX: usize = 60;
const SHAFTS: usize = 8;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut rest = args.tail(1);
    if rest.get(0).is_some_and(|word| word.eq_token("version")) && rest.len() > 1 {
        number(rest.at(1))?;
        rest = rest.tail(2);
    }
    let size = |index: usize, default: usize, max: usize| -> Result<usize, CommandError> {
        rest.get(index).map_or(Ok(default), |text| Ok(number(text)?.clamp(1, max)))
    };
    let width = size(0, WIDTH_DEFAULT, WIDTH_MAX)?;
    let height = size(1, HEIGHT_DEFAULT, HEIGHT_MAX)?;
    let mut text = weave(width, height, || ctx.data.random().next_u64());
    let (server, version) = identity::name_and_version(ctx.config.extended_redis_compatibility);
    let server = if server == "redis" { "Redis" } else { "Valkey" };
    text.push_str(&format!(
        "\nBroadloom {}, compatible with {server} ver. {version}\n",
        identity::BROADLOOM_VERSION
    ));
    Ok(reply.verbatim(b"txt", text.as_bytes()))
}

fn number(text: &[u8]) -> Result<usize, CommandError> {
    parse_i64_strict(text)
        .map(|number| usize::try_from(number).unwrap_or(0))
        .ok_or(CommandError::NOT_AN_INTEGER)
}

/// Draws a weave draft: each warp thread is attached to one shaft, each pick lifts some of the shafts, and a
/// lifted warp thread covers the weft.
fn weave(width: usize, height: usize, mut random: impl FnMut() -> u64) -> String {
    let motif = random();
    let point = random().is_multiple_of(2);
    let shaft_of = |thread: usize| {
        let place = thread % (2 * SHAFTS - 2);
        if point && place >= SHAFTS { 2 * SHAFTS - 2 - place } else { place % SHAFTS }
    };
    let tie_up: Vec<u8> = (0..SHAFTS).map(|treadle| (motif >> (8 * treadle)) as u8).collect();
    let mut cloth = String::with_capacity(height * (width * 3 + 1));
    for pick in 0..height {
        let lifted = tie_up[shaft_of(pick)];
        cloth.extend((0..width).map(|thread| if lifted >> shaft_of(thread) & 1 == 1 { '█' } else { '░' }));
        cloth.push('\n');
    }
    cloth
}
