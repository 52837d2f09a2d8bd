//! `ACL`: the grammar of rules, and `ACL DRYRUN`. Tests of a running server check that requests are denied.

use expect_test::expect;

use crate::check::check;

#[test]
fn users_are_made_changed_and_deleted() {
    check(expect![[r#"
        @valkey Redis has no database permissions of users
        > ACL SETUSER alice
        +OK
        > ACL GETUSER alice
        ["flags", ["off"], "passwords", [], "commands", "-@all", "keys", "", "channels", "", "databases", "alldbs", "selectors", []]
        > ACL SETUSER alice on >secret ~app:* %R~read:* %W~write:* &news +@read -get +select|0 db=3,1
        +OK
        > ACL GETUSER alice
        ["flags", ["on"], "passwords", ["2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"], "commands", "-@all +@read -get +select|0", "keys", "~app:* %R~read:* %W~write:*", "channels", "&news", "databases", "db=1,3", "selectors", []]
        > ACL SETUSER alice nopass alldbs resetchannels (+set ~k) (-@all +get &c db=0)
        +OK
        > ACL GETUSER alice
        ["flags", ["on", "nopass"], "passwords", [], "commands", "-@all +@read -get +select|0", "keys", "~app:* %R~read:* %W~write:*", "channels", "", "databases", "alldbs", "selectors", [["commands", "-@all +set", "keys", "~k", "channels", "", "databases", "alldbs"], ["commands", "-@all +get", "keys", "", "channels", "&c", "databases", "db=0"]]]
        > ACL LIST
        ["user alice on nopass ~app:* %R~read:* %W~write:* resetchannels -@all +@read -get +select|0 (~k resetchannels -@all +set) (resetchannels &c db=0 -@all +get)", "user default on nopass ~* &* +@all"]
        > ACL USERS
        ["alice", "default"]
        > ACL SETUSER alice reset
        +OK
        > ACL LIST
        ["user alice off resetchannels -@all", "user default on nopass ~* &* +@all"]
        > ACL DELUSER alice nobody
        1
        > ACL DELUSER default
        -ERR The 'default' user cannot be removed
        > ACL USERS
        ["default"]
        > ACL WHOAMI
        "default"
        > ACL GETUSER alice
        $-1
    "#]]);
}

#[test]
fn rules_may_name_commands_that_only_other_servers_have() {
    check(expect![[r#"
        @valkey Redis has no database permissions of users
        > ACL SETUSER alice +@all -replicaof -PSYNC -sync +replconf|ack -cluster|failover +cluster|syncslots
        +OK
        > ACL GETUSER alice
        ["flags", ["off"], "passwords", [], "commands", "+@all -replicaof -psync -sync +replconf|ack -cluster|failover +cluster|syncslots", "keys", "", "channels", "", "databases", "alldbs", "selectors", []]
        > ACL SETUSER alice +psync
        +OK
        > ACL SETUSER alice +cluster|nope
        -ERR Error in ACL SETUSER modifier '+cluster|nope': Unknown command or category name in ACL
        > ACL SETUSER alice +cluster|failover|x
        -ERR Error in ACL SETUSER modifier '+cluster|failover|x': Allowing first-arg of a subcommand is not supported
        > ACL SETUSER alice +psync|
        -ERR Error in ACL SETUSER modifier '+psync|': Syntax error
    "#]]);
    check(expect![[r#"
        @ours names of newer servers and of modules
        > ACL SETUSER alice reset +@all -hotkeys -Backup|start -json.set -@search +arget -@SEARCH -vadd
        +OK
        > ACL GETUSER alice
        ["flags", ["off"], "passwords", [], "commands", "+@all -hotkeys -backup|start -json.set +arget -@search -vadd", "keys", "", "channels", "", "databases", "alldbs", "selectors", []]
        > ACL SETUSER alice +backup|x
        -ERR Error in ACL SETUSER modifier '+backup|x': Unknown command or category name in ACL
        > ACL SETUSER alice +backup|start|x
        -ERR Error in ACL SETUSER modifier '+backup|start|x': Allowing first-arg of a subcommand is not supported
        > ACL SETUSER alice +ft
        -ERR Error in ACL SETUSER modifier '+ft': Unknown command or category name in ACL
        > ACL DRYRUN alice arget k
        -ERR Command 'arget' not found
        > ACL CAT search
        -ERR Unknown category 'search'
        > COMMAND INFO hotkeys json.set
        [$-1, $-1]
        > HOTKEYS
        -ERR unknown command 'HOTKEYS'
    "#]]);
}

#[test]
fn invalid_rules_change_nothing() {
    check(expect![[r#"
        @valkey Redis has other error texts for two requests
        > ACL SETUSER alice on nonsense
        -ERR Error in ACL SETUSER modifier 'nonsense': Syntax error
        > ACL SETUSER alice +nope
        -ERR Error in ACL SETUSER modifier '+nope': Unknown command or category name in ACL
        > ACL SETUSER alice +@nope
        -ERR Error in ACL SETUSER modifier '+@nope': Unknown command or category name in ACL
        > ACL SETUSER alice -config|nope
        -ERR Error in ACL SETUSER modifier '-config|nope': Unknown command or category name in ACL
        > ACL SETUSER alice +config|get|x
        -ERR Error in ACL SETUSER modifier '+config|get|x': Allowing first-arg of a subcommand is not supported
        > ACL SETUSER alice +select|
        -ERR Error in ACL SETUSER modifier '+select|': Syntax error
        > ACL SETUSER alice ~* ~k
        -ERR Error in ACL SETUSER modifier '~k': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns
        > ACL SETUSER alice &* &c
        -ERR Error in ACL SETUSER modifier '&c': Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels
        > ACL SETUSER alice %~k
        -ERR Error in ACL SETUSER modifier '%~k': Syntax error
        > ACL SETUSER alice %RR~k
        -ERR Error in ACL SETUSER modifier '%RR~k': Syntax error
        > ACL SETUSER alice <secret
        -ERR Error in ACL SETUSER modifier '<secret': The password you are trying to remove from the user does not exist
        > ACL SETUSER alice #1234
        -ERR Error in ACL SETUSER modifier '#1234': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters
        > ACL SETUSER alice !1234
        -ERR Error in ACL SETUSER modifier '!1234': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters
        > ACL SETUSER alice (~k +get
        -ERR Unmatched parenthesis in acl selector starting at '(~k'.
        > ACL SETUSER alice (nonsense)
        -ERR Error in ACL SETUSER modifier '(nonsense)': Syntax error
        > ACL SETUSER alice db=
        -ERR Error in ACL SETUSER modifier 'db=': Syntax error
        > ACL SETUSER alice db=1,,2
        -ERR Error in ACL SETUSER modifier 'db=1,,2': Syntax error
        > ACL SETUSER alice db=x
        -ERR Error in ACL SETUSER modifier 'db=x': Syntax error
        > ACL SETUSER alice db=-1
        -ERR Error in ACL SETUSER modifier 'db=-1': The provided database ID is out of range
        > ACL SETUSER alice db=99999999999
        -ERR Error in ACL SETUSER modifier 'db=99999999999': The provided database ID is out of range
        > ACL SETUSER "a b"
        -ERR Usernames can't contain spaces or null characters
        > ACL SETUSER alice "~a b"
        -ERR Error in ACL SETUSER modifier '~a b': Syntax error
        > ACL GETUSER alice
        $-1
    "#]]);
}

#[test]
fn command_rules_are_kept_in_order_without_repetition() {
    check(expect![[r#"
        @valkey Redis has no database permissions of users
        > ACL SETUSER u +@all -@hash -@slow +hget -@hash
        +OK
        > ACL SETUSER v +client|list +config|get +config -config|set +acl|list -acl
        +OK
        > ACL SETUSER w allcommands -@admin +@ADMIN +GET nocommands +select|0 +select|0 +debug|segfault +debug
        +OK
        > ACL LIST
        ["user default on nopass ~* &* +@all", "user u off resetchannels +@all -@slow +hget -@hash", "user v off resetchannels -@all +client|list +config -config|set -acl", "user w off resetchannels -@all +select|0 +debug"]
        > ACL DELUSER u v w
        3
    "#]]);
}

#[test]
fn requests_are_tried_without_being_run() {
    check(expect![[r#"
        @valkey Redis has no database permissions of users
        > ACL SETUSER alice +get +mset +publish +subscribe +copy +select|0 +flushall ~k* &news db=0,1
        +OK
        > ACL DRYRUN alice GET k1
        +OK
        > ACL DRYRUN alice GET x
        "User alice has no permissions to access the 'x' key"
        > ACL DRYRUN alice MSET k1 v x v
        "User alice has no permissions to access the 'x' key"
        > ACL DRYRUN alice SET k1 v
        "User alice has no permissions to run the 'set' command"
        > ACL DRYRUN alice PUBLISH news x
        +OK
        > ACL DRYRUN alice SUBSCRIBE news other
        "User alice has no permissions to access the 'other' channel"
        > ACL DRYRUN alice COPY k1 k2 DB 2
        "User alice has no permissions to access database 2"
        > ACL DRYRUN alice SELECT 1
        "User alice has no permissions to run the 'select' command"
        > ACL DRYRUN alice SELECT 0
        +OK
        > ACL DRYRUN alice FLUSHALL
        "User alice has no permissions to access database FLUSHALL"
        > ACL DRYRUN alice CONFIG GET x
        "User alice has no permissions to run the 'config|get' command"
        > ACL DRYRUN default GET x
        +OK
        > ACL DRYRUN nobody GET x
        -ERR User 'nobody' not found
        > ACL DRYRUN alice NOPE x
        -ERR Command 'NOPE' not found
        > ACL DRYRUN alice GET
        -ERR wrong number of arguments for 'get' command
        > ACL DRYRUN alice CONFIG NOPE
        -ERR Command 'CONFIG' not found
        > ACL DELUSER alice
        1
    "#]]);
}

#[test]
fn authentication() {
    check(expect![[r#"
        @valkey the error text of Redis is longer
        > AUTH secret
        -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        > AUTH default anything
        +OK
        > AUTH nobody anything
        -WRONGPASS invalid username-password pair or user is disabled.
        > ACL SETUSER alice >secret +@all
        +OK
        > AUTH alice secret
        -WRONGPASS invalid username-password pair or user is disabled.
        > ACL SETUSER alice on
        +OK
        > AUTH alice other
        -WRONGPASS invalid username-password pair or user is disabled.
        > AUTH alice secret
        +OK
        > ACL WHOAMI
        "alice"
        > AUTH a b c
        -ERR syntax error
        > RESET
        +RESET
        > ACL WHOAMI
        "default"
        > ACL DELUSER alice
        1
    "#]]);
}

#[test]
fn files_and_the_log_of_denials() {
    check(expect![[r#"
        @differs redis its error names Redis
        > ACL LOAD
        -ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.
        @differs redis its error names Redis
        > ACL SAVE
        -ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.
        > ACL LOG x
        -ERR value is not an integer or out of range
        > ACL LOG 1 2
        -ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.
        > ACL LOG RESET
        +OK
        > ACL LOG
        []
        > ACL LOG -1
        []
    "#]]);
}

#[test]
fn sorting_by_other_keys_is_denied_in_order() {
    check(expect![[r#"
        > ACL SETUSER alice on nopass ~l +@all
        +OK
        > AUTH alice x
        +OK
        > SORT l BY w_*
        -ERR BY option of SORT denied due to insufficient ACL permissions.
        > SORT l BY nosort GET w_* NOPE
        -ERR GET option of SORT denied due to insufficient ACL permissions.
        > SORT l NOPE GET w_*
        -ERR syntax error
        > SORT_RO l GET #
        -ERR GET option of SORT denied due to insufficient ACL permissions.
        > RESET
        +RESET
        > ACL DELUSER alice
        1
    "#]]);
}
