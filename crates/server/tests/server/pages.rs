//! Huge pages: where they are used, and that a directive turns all of them off.
use crate::support::{Server, on_each_backend, wait_for};

/// KiB of the process in huge pages.
fn huge_size(server: &Server) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.id())).unwrap();
    let line = rollup.lines().find(|line| line.starts_with("AnonHugePages:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn entries_use_huge_pages_unless_disabled() {
    let modes = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    for turned_off in ["no", "yes"] {
        let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--disable-thp", turned_off];
        on_each_backend(&options, |server| {
            let mut client = server.client();
            assert_eq!(huge_size(&server), 0, "an empty server has none");
            let mut round = 0;
            let mut populate = || {
                round += 1;
                let prefix = format!("round{round}");
                assert_eq!(client.text(&["DEBUG", "POPULATE", "100000", &prefix, "64"]), "OK");
            };
            if turned_off == "yes" || modes.is_empty() || modes.contains("[never]") {
                (0..6).for_each(|_| populate());
                assert_eq!(huge_size(&server), 0);
            } else {
                wait_for(|| {
                    populate();
                    (huge_size(&server) > 0).then_some(())
                });
            }
        });
    }
}
