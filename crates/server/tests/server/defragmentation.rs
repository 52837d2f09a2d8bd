//! Entries are moved together after deletions: because most of their memory is unused, and with `activedefrag`.

use crate::support::{Client, on_each_backend, wait_for};

/// Adds keys, and deletes four of five.
fn leave_gaps(client: &mut Client) {
    assert_eq!(client.text(&["DEBUG", "POPULATE", "100000", "key", "100"]), "OK");
    for first in (0..100_000).step_by(1000) {
        let keys: Vec<String> =
            (first..first + 1000).filter(|n| n % 10 > 1).map(|n| format!("key:{n}")).collect();
        let request: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        assert_eq!(client.text(&request), "800");
    }
}

#[test]
fn sparse_memory_is_compacted_without_being_asked() {
    let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--save", ""];
    on_each_backend(&options, |server| {
        let mut client = server.client();
        leave_gaps(&mut client);
        wait_for(|| {
            let gaps: u64 = server.info(&mut client, "allocator_frag_bytes").parse().unwrap();
            (gaps < 2 << 20).then_some(())
        });
        assert_eq!(client.text(&["STRLEN", "key:1"]), "100");
        assert_eq!(client.text(&["DBSIZE"]), "20000");
        // Valkey's statistics tell only of the defragmentation that is asked for.
        assert_eq!(server.info(&mut client, "active_defrag_hits"), "0");
        assert_eq!(server.info(&mut client, "active_defrag_running"), "0");
    });
}

#[test]
fn active_defragmentation_runs_in_the_server() {
    let options =
        ["--io-threads", "2", "--enable-debug-command", "yes", "--save", "", "--compact-sparse-memory", "no"];
    on_each_backend(&options, |server| {
        let mut client = server.client();
        leave_gaps(&mut client);
        let gaps = |client: &mut Client| server.info(client, "allocator_frag_bytes").parse::<u64>().unwrap();
        let before = gaps(&mut client);
        assert!(before > 2 << 20, "{before}");
        let settings = [
            "CONFIG",
            "SET",
            "activedefrag",
            "yes",
            "active-defrag-ignore-bytes",
            "1mb",
            "active-defrag-cycle-min",
            "50",
            "active-defrag-cycle-max",
            "75",
        ];
        assert_eq!(client.text(&settings), "OK");
        wait_for(|| (gaps(&mut client) < before / 2).then_some(()));
        assert_ne!(server.info(&mut client, "active_defrag_hits"), "0");
        assert_eq!(client.text(&["STRLEN", "key:1"]), "100");
        assert!(client.text(&["MEMORY", "MALLOC-STATS"]).contains("wasted"));
        assert_eq!(client.text(&["MEMORY", "PURGE"]), "OK");
    });
}
