//! The options of `REPLCONF` of a replica whose snapshot and stream come on two connections.

use wire::number::parse_i64_strict;

use crate::context::Ctx;
use crate::declared_replica::ChannelForm;
use crate::error::CommandError;
use crate::word::Word;

/// Notes that the replica accepts a form, if it is one that the server offers. Other capabilities are not used.
pub fn note_capability(ctx: &mut Ctx<'_>, value: &[u8]) {
    let form = if value.eq_token("dual-channel") && ctx.config.dual_channel_replication_enabled {
        ChannelForm::Valkey
    } else if value.eq_token("rdb-channel-repl") && ctx.config.repl_rdb_channel {
        ChannelForm::Redis
    } else {
        return;
    };
    if !ctx.config.repl_diskless_sync {
        if form == ChannelForm::Valkey {
            ctx.host.write_server_log("Dual channel capability ignored: repl-diskless-sync disabled");
        }
        return;
    }
    let declared = ctx.session.replica.get_or_insert_default();
    if declared.channel_form != Some(ChannelForm::Valkey) {
        declared.channel_form = Some(form);
    }
}

/// The client of the connection for the stream.
pub fn stream_client(ctx: &Ctx<'_>, value: &[u8]) -> Result<u64, CommandError> {
    other_client(value, ": ", |client| ctx.host.awaits_channel(client))
}

/// The client of the connection for the snapshot.
pub fn snapshot_client(ctx: &Ctx<'_>, value: &[u8]) -> Result<u64, CommandError> {
    other_client(value, " ", |client| ctx.host.is_stream_expected(client))
}

/// The client that is named, if it exists. The texts of the errors differ by what precedes its number.
fn other_client(value: &[u8], before: &str, exists: impl Fn(u64) -> bool) -> Result<u64, CommandError> {
    let number = parse_i64_strict(value).ok_or(CommandError::NOT_AN_INTEGER)?;
    let client = u64::try_from(number).ok().filter(|client| exists(*client));
    client.ok_or_else(|| CommandError::owned(format!("ERR Unrecognized RDB client id{before}{number}")))
}
