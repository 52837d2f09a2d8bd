//! ACL users on a running server: changes reach connections of every thread, denied requests change nothing, and users survive
//! a restart in their file.

use crate::support::directory::Directory;
use crate::support::{Client, Server, on_each_backend, run, shown, wait_for};

const NO_KEY: &str = "NOPERM No permissions to access a key";

/// Makes a user by these rules.
fn set_user(admin: &mut Client, rules: &str) {
    let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rules.split(' ')).collect();
    assert_eq!(admin.text(&words), "OK", "{rules}");
}

/// Clients of all threads that are this user, without a password.
fn clients_of(server: &Server, user: &str) -> Vec<Client> {
    let mut clients = server.six_clients();
    for client in &mut clients {
        assert_eq!(client.text(&["AUTH", user, "any"]), "OK");
    }
    clients
}

fn denied(user: &str, command: &str) -> String {
    format!("NOPERM User {user} has no permissions to run the '{command}' command")
}

#[test]
fn a_change_reaches_running_connections_of_all_threads() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~app:* +get +set");
        let mut clients = clients_of(&server, "alice");
        for client in &mut clients {
            assert_eq!(client.text(&["SET", "app:1", "x"]), "OK");
            assert_eq!(client.text(&["SET", "other", "x"]), NO_KEY);
            assert_eq!(client.text(&["DEL", "app:1"]), denied("alice", "del"));
        }
        set_user(&mut admin, "alice -set ~other");
        for client in &mut clients {
            assert_eq!(client.text(&["SET", "app:1", "y"]), denied("alice", "set"));
            assert_eq!(client.text(&["GET", "other"]), "");
        }
        // The default user is like any other.
        let mut other = server.client();
        set_user(&mut admin, "default resetkeys ~app:*");
        assert_eq!(other.text(&["GET", "app:1"]), "x");
        assert_eq!(other.text(&["GET", "x"]), NO_KEY);
        set_user(&mut admin, "default allkeys");
        assert_eq!(other.text(&["GET", "x"]), "");
    });
}

#[test]
fn denied_requests_in_a_pipeline_keep_data_and_order() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~a* +@all -incr db=0");
        let mut alice = server.client();
        assert_eq!(alice.text(&["AUTH", "alice", ""]), "OK");
        let requests = "SET a 1\r\nSET b 1\r\nGET a\r\nINCR a\r\nINCRBY a 2\r\nSELECT 1\r\nGET a\r\nMSET a 5 b 5\r\nMGET a ab\r\n";
        alice.send_raw(requests.as_bytes());
        let replies: Vec<String> = (0..9).map(|_| shown(&alice.receive().unwrap())).collect();
        let database = "NOPERM No permissions to access database";
        assert_eq!(replies, ["OK", NO_KEY, "1", &denied("alice", "incr"), "3", database, "3", NO_KEY, "3\n"]);
        assert_eq!(admin.text(&["EXISTS", "b"]), "0");
        let info = |admin: &mut Client, what: &str| server.info(admin, &format!("acl_access_denied_{what}"));
        assert_eq!(info(&mut admin, "key"), "2");
        assert_eq!((info(&mut admin, "cmd"), info(&mut admin, "db")), ("1".to_owned(), "1".to_owned()));
    });
}

#[test]
fn connections_of_a_deleted_user_are_closed() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~* &* +@all");
        let mut clients = clients_of(&server, "alice");
        clients[0].send(&["BLPOP", "list", "0"]);
        wait_for(|| (server.info(&mut admin, "blocked_clients") == "1").then_some(()));
        assert!(clients[1].text(&["SUBSCRIBE", "news"]).contains("news"));
        assert_eq!(clients[2].text(&["MULTI"]), "OK");
        assert_eq!(clients[2].text(&["SET", "key", "x"]), "QUEUED");
        let mut own = clients.pop().unwrap();
        // The connection that deletes its own user gets the reply.
        assert_eq!(own.text(&["ACL", "DELUSER", "alice"]), "1");
        assert!(own.receive().is_none());
        for client in &mut clients {
            assert!(client.receive().is_none());
        }
        assert_eq!(admin.text(&["CLIENT", "LIST", "ID", "999999"]), "");
        assert_eq!(admin.text(&["EXISTS", "key"]), "0");
        assert_eq!(admin.text(&["RPUSH", "list", "x"]), "1");
        let refused = "WRONGPASS invalid username-password pair or user is disabled.";
        assert_eq!(admin.text(&["AUTH", "alice", ""]), refused);
        // A new user of the same name has nothing to do with them.
        set_user(&mut admin, "alice on nopass");
        assert_eq!(admin.text(&["ACL", "DELUSER", "alice"]), "1");
    });
}

#[test]
fn subscribers_that_lose_a_channel_are_closed() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass +@all &news &n* &other");
        let mut clients = clients_of(&server, "alice");
        for client in &mut clients[..2] {
            assert!(client.text(&["SUBSCRIBE", "news"]).contains("news"));
        }
        for client in &mut clients[2..4] {
            assert!(client.text(&["PSUBSCRIBE", "n*"]).contains("n*"));
        }
        let refused = "NOPERM No permissions to access a channel";
        assert_eq!(clients[4].text(&["SUBSCRIBE", "secret"]), refused);
        assert_eq!(clients[4].text(&["PSUBSCRIBE", "ne*"]), refused);
        assert_eq!(clients[4].text(&["PUBLISH", "secret", "x"]), refused);
        // More channels close no connection, nor does the loss of a pattern that the others do not need.
        set_user(&mut admin, "alice &more");
        set_user(&mut admin, "alice resetchannels &news");
        for client in &mut clients[2..4] {
            assert!(client.receive().is_none());
        }
        assert_eq!(admin.text(&["PUBLISH", "news", "x"]), "2");
        set_user(&mut admin, "alice resetchannels");
        assert_eq!(admin.text(&["PUBLISH", "news", "y"]), "0");
        for client in &mut clients[..2] {
            assert!(shown(&client.receive().unwrap()).contains("x"));
            assert!(client.receive().is_none());
        }
        assert_eq!(clients[4].text(&["PING"]), "PONG");
    });
}

#[test]
fn queued_commands_are_checked_again() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~a +@all db=0,1");
        let mut alice = server.client();
        assert_eq!(alice.text(&["AUTH", "alice", ""]), "OK");
        assert_eq!(alice.text(&["MULTI"]), "OK");
        for words in [&["SET", "a", "1"][..], &["INCR", "a"], &["GET", "a"]] {
            assert_eq!(alice.text(words), "QUEUED", "{words:?}");
        }
        set_user(&mut admin, "alice -incr");
        let changed = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                       This command is no longer allowed for the following reason: no permission to execute the command \
                       or subcommand";
        assert_eq!(alice.text(&["EXEC"]), format!("OK\n{changed}\n1"));
        // A denied command dooms the transaction; the database is the one that the transaction has selected.
        assert_eq!(alice.text(&["MULTI"]), "OK");
        assert_eq!(alice.text(&["SELECT", "1"]), "QUEUED");
        set_user(&mut admin, "alice db=0");
        assert_eq!(alice.text(&["GET", "a"]), "NOPERM No permissions to access database");
        assert_eq!(alice.text(&["EXEC"]), "EXECABORT Transaction discarded because of previous errors.");
        // Permissions removed by a transaction are missing for its next command.
        admin.send_raw(
            b"MULTI\r\nACL SETUSER default -get\r\nGET a\r\nACL SETUSER default +get\r\nGET a\r\nEXEC\r\n",
        );
        let replies: Vec<String> = (0..6).map(|_| shown(&admin.receive().unwrap())).collect();
        assert_eq!(replies[5], format!("OK\n{changed}\nOK\n1"));
        let entry = admin.text(&["ACL", "LOG", "1"]);
        assert!(entry.contains("multi") && entry.contains("cmd=exec"), "{entry}");
    });
}

#[test]
fn a_transaction_of_a_deleted_user_does_not_go_on_as_the_default_user() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~a +@all");
        let mut alice = server.client();
        assert_eq!(alice.text(&["AUTH", "alice", ""]), "OK");
        assert_eq!(alice.text(&["MULTI"]), "OK");
        assert_eq!(alice.text(&["ACL", "DELUSER", "alice"]), "QUEUED");
        assert_eq!(alice.text(&["EVAL", "return redis.call('SET', 'other', 'x')", "0"]), "QUEUED");
        assert_eq!(alice.text(&["EXEC"]), "1\nNOAUTH Authentication required.");
        assert_eq!(admin.text(&["GET", "other"]), "");
    });
}

#[test]
fn permissions_are_rechecked_when_a_waiter_is_served() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~list +blpop");
        let mut clients = clients_of(&server, "alice");
        clients[0].send(&["BLPOP", "list", "0"]);
        wait_for(|| (server.info(&mut admin, "blocked_clients") == "1").then_some(()));
        set_user(&mut admin, "alice resetkeys");
        assert_eq!(admin.text(&["RPUSH", "list", "x"]), "1");
        assert_eq!(shown(&clients[0].receive().unwrap()), NO_KEY);
        assert_eq!(admin.text(&["LLEN", "list"]), "1");
    });
}

#[test]
fn sorting_by_other_keys_needs_permission_for_all() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        set_user(&mut admin, "alice on nopass ~list ~w_* ~to +@all");
        admin.text(&["RPUSH", "list", "2", "1"]);
        let mut alice = server.client();
        assert_eq!(alice.text(&["AUTH", "alice", ""]), "OK");
        assert_eq!(alice.text(&["SORT", "list"]), "1\n2");
        assert_eq!(alice.text(&["SORT", "list", "BY", "nosort"]), "2\n1");
        let refused =
            |option: &str| format!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
        assert_eq!(alice.text(&["SORT", "list", "BY", "w_*"]), refused("BY"));
        assert_eq!(alice.text(&["SORT_RO", "list", "GET", "w_*"]), refused("GET"));
        assert_eq!(alice.text(&["SORT", "list", "STORE", "other"]), NO_KEY);
        assert_eq!(alice.text(&["SORT", "list", "STORE", "to"]), "2");
        set_user(&mut admin, "alice %R~*");
        assert_eq!(alice.text(&["SORT", "list", "BY", "w_*", "GET", "#"]), "1\n2");
    });
}

#[test]
fn passwords_are_neither_kept_nor_shown() {
    on_each_backend(&["--io-threads", "2", "--slowlog-log-slower-than", "0"], |server| {
        let mut admin = server.client();
        let mut monitor = server.client();
        assert_eq!(monitor.text(&["MONITOR"]), "OK");
        set_user(&mut admin, "alice on >hush-one >hush-two ~* +@all");
        let mut alice = server.client();
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        assert_eq!(alice.text(&["AUTH", "alice", "hush-wrong"]), wrong);
        assert_eq!(alice.text(&["AUTH", "nobody", "hush-wrong"]), wrong);
        assert!(alice.text(&["HELLO", "2", "AUTH", "alice", "hush-two"]).contains("proto"));
        assert_eq!(alice.text(&["ACL", "WHOAMI"]), "alice");
        set_user(&mut admin, "alice <hush-two");
        assert_eq!(alice.text(&["AUTH", "alice", "hush-two"]), wrong);
        assert_eq!(alice.text(&["AUTH", "alice", "hush-one"]), "OK");
        assert_eq!(admin.text(&["PING"]), "PONG");
        let mut seen = Vec::new();
        while !seen.iter().any(|line: &String| line.contains("PING")) {
            seen.push(shown(&monitor.receive().unwrap()));
        }
        seen.push(admin.text(&["SLOWLOG", "GET", "100"]));
        assert!(seen.last().unwrap().contains("(redacted)"));
        seen.push(admin.text(&["ACL", "LOG"]));
        assert!(seen.last().unwrap().contains("auth"));
        seen.push(admin.text(&["ACL", "LIST"]));
        seen.push(admin.text(&["CLIENT", "LIST"]));
        assert!(seen.iter().all(|text| !text.contains("hush")), "{seen:?}");
    });
}

#[test]
fn users_are_loaded_from_their_file_and_saved_there() {
    let directory = Directory::new("users");
    let file = directory.path("users.acl");
    std::fs::write(&file, "user alice on nopass ~* &* +@all\n\n  user bob on >pw +get ~b (+set ~c)\r\n")
        .unwrap();
    let options = ["--dir", &directory.path(""), "--aclfile", "users.acl", "--io-threads", "2"];
    let mut server = Server::start(&options);
    let mut admin = server.client();
    assert_eq!(admin.text(&["ACL", "USERS"]), "alice\nbob\ndefault");
    let mut clients = clients_of(&server, "alice");
    set_user(&mut admin, "carol on nopass ~c +get");
    assert_eq!(admin.text(&["ACL", "SAVE"]), "OK");
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(saved.contains("user carol on nopass ~c resetchannels -@all +get\n"), "{saved}");
    assert!(!saved.contains("pw"), "{saved}");
    // An invalid file changes nothing.
    std::fs::write(&file, "user alice on\nuser alice off\nuser dave +nope\nnonsense\n").unwrap();
    assert_eq!(
        admin.text(&["ACL", "LOAD"]),
        "ERR WARNING: Duplicate user 'alice' found on line 2. users.acl:3: Error in applying operation '+nope': Unknown \
         command or category name in ACL. users.acl:4 should start with user keyword followed by the username. WARNING: \
         ACL errors detected, no change to the previously active ACL rules was performed"
    );
    assert_eq!(clients[0].text(&["SET", "key", "x"]), "OK");
    // Connections of remaining users continue with their new permissions; the others are closed.
    std::fs::write(&file, "user alice on nopass ~* +get\n").unwrap();
    let mut carol = server.client();
    assert_eq!(carol.text(&["AUTH", "carol", ""]), "OK");
    assert_eq!(admin.text(&["ACL", "LOAD"]), "OK");
    assert!(carol.receive().is_none());
    for client in &mut clients {
        assert_eq!(client.text(&["GET", "key"]), "x");
        assert_eq!(client.text(&["SET", "key", "y"]), denied("alice", "set"));
    }
    server.signal("TERM");
    assert!(server.wait());
    // What the file says at the start, or why it can't be used.
    std::fs::write(&file, &saved).unwrap();
    let restarted = Server::start(&options);
    assert_eq!(restarted.client().text(&["ACL", "LIST"]) + "\n", saved);
    std::fs::write(&file, "user alice >hush on +nope\n").unwrap();
    let (text, succeeded) = run(&[&options[..], &["--port", "0"]].concat(), "");
    assert!(
        !succeeded && text.contains("Aborting Broadloom startup because of ACL errors: users.acl:1:"),
        "{text}"
    );
    assert!(!text.contains("hush"), "{text}");
    let (text, succeeded) = run(&["--port", "0", "--aclfile", "/no/such/file"], "");
    assert!(!succeeded && text.contains("opening file '/no/such/file': No such file or directory"), "{text}");
}

#[test]
fn users_of_the_configuration_are_rewritten() {
    let directory = Directory::new("rewritten-users");
    let file = directory.path("server.conf");
    std::fs::write(&file, "port 0\nuser default on nopass ~* &* +@all -flushdb\n").unwrap();
    let mut server = Server::start_from(&file);
    let mut admin = server.client();
    assert_eq!(admin.text(&["FLUSHDB"]), denied("default", "flushdb"));
    set_user(&mut admin, "alice on >pw ~a\"b' +get (~c +set)");
    assert_eq!(admin.text(&["CONFIG", "REWRITE"]), "OK");
    let list = admin.text(&["ACL", "LIST"]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("user alice on #") && !text.contains("pw"), "{text}");
    server.signal("TERM");
    assert!(server.wait());
    assert_eq!(Server::start_from(&file).client().text(&["ACL", "LIST"]), list);
}

#[test]
fn a_disabled_default_user_requires_auth() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let (mut admin, mut before) = (server.client(), server.client());
        set_user(&mut admin, "alice on nopass ~* +@all");
        set_user(&mut admin, "default off");
        // An existing connection keeps its user.
        assert_eq!(before.text(&["PING"]), "PONG");
        let mut after = server.client();
        assert_eq!(after.text(&["PING"]), "NOAUTH Authentication required.");
        assert_eq!(after.text(&["AUTH", "alice", ""]), "OK");
        assert_eq!(after.text(&["PING"]), "PONG");
        assert_eq!(after.text(&["RESET"]), "RESET");
        assert_eq!(after.text(&["PING"]), "NOAUTH Authentication required.");
        set_user(&mut admin, "default on");
        assert_eq!(after.text(&["PING"]), "PONG");
    });
}
