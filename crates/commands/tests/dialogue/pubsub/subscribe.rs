//! `SUBSCRIBE` and its variants, `PUBLISH`, `PUBSUB`

use expect_test::expect;

use crate::check::check;

#[test]
fn replies_are_messages() {
    check(expect![[r#"
        @resp3
        > SUBSCRIBE news
        >["subscribe", "news", 1]
        > SUBSCRIBE news
        >["subscribe", "news", 1]
        > PSUBSCRIBE n*
        >["psubscribe", "n*", 2]
        > SSUBSCRIBE news
        >["ssubscribe", "news", 1]
        > UNSUBSCRIBE nothing
        >["unsubscribe", "nothing", 2]
        > UNSUBSCRIBE
        >["unsubscribe", "news", 1]
        > PUNSUBSCRIBE n*
        >["punsubscribe", "n*", 0]
        > PUNSUBSCRIBE
        >["punsubscribe", _, 0]
        > SUNSUBSCRIBE
        >["sunsubscribe", "news", 0]
        > SUNSUBSCRIBE
        >["sunsubscribe", _, 0]
        > UNSUBSCRIBE
        >["unsubscribe", _, 0]
    "#]]);
}

#[test]
fn shard_channels_are_refused_in_transactions() {
    check(expect![[r#"
        > MULTI
        +OK
        > SSUBSCRIBE news
        +QUEUED
        > SUBSCRIBE news
        +QUEUED
        > EXEC
        [-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client, ["subscribe", "news", 1]]
    "#]]);
}

#[test]
fn replies_in_resp2() {
    check(expect![[r#"
        > SSUBSCRIBE news
        ["ssubscribe", "news", 1]
        > PSUBSCRIBE n*
        ["psubscribe", "n*", 1]
        > PING
        ["pong", ""]
        > PING "a b"
        ["pong", "a b"]
        > PUNSUBSCRIBE
        ["punsubscribe", "n*", 0]
        > SUNSUBSCRIBE
        ["sunsubscribe", "news", 0]
        > PING
        +PONG
    "#]]);
}

#[test]
fn publishing_without_subscribers() {
    check(expect![[r#"
        > PUBLISH news text
        0
        > SPUBLISH news text
        0
        > PUBLISH news
        -ERR wrong number of arguments for 'publish' command
        > PUBSUB CHANNELS
        []
        > PUBSUB CHANNELS n*
        []
        > PUBSUB CHANNELS n* m*
        -ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.
        > PUBSUB NUMSUB
        []
        > PUBSUB NUMSUB a b
        ["a", 0, "b", 0]
        > PUBSUB SHARDCHANNELS
        []
        > PUBSUB SHARDNUMSUB a
        ["a", 0]
        > PUBSUB NUMPAT
        0
        > PUBSUB NUMPAT a
        -ERR wrong number of arguments for 'pubsub|numpat' command
        > PUBSUB
        -ERR wrong number of arguments for 'pubsub' command
        > SUBSCRIBE
        -ERR wrong number of arguments for 'subscribe' command
        > PSUBSCRIBE
        -ERR wrong number of arguments for 'psubscribe' command
        > SSUBSCRIBE
        -ERR wrong number of arguments for 'ssubscribe' command
    "#]]);
}

#[test]
fn reset_ends_subscriptions() {
    check(expect![[r#"
        > SUBSCRIBE news
        ["subscribe", "news", 1]
        > RESET
        +RESET
        > PING
        +PONG
        > SUBSCRIBE news
        ["subscribe", "news", 1]
    "#]]);
}
