//! Products with a predefined command line: `--server valkey`, `--server redis=/opt/redis-server`.

/// Command line of a product for a benchmark: no persistence, loopback, and the given port and number of
/// threads.
#[derive(Debug)]
pub struct Known {
    /// Name for `--server`.
    pub name: &'static str,
    /// Program name, searched in the PATH.
    pub program: &'static str,
    /// Arguments, with placeholders.
    pub arguments: &'static str,
}

#[rustfmt::skip]
static KNOWN: &[Known] = &[
    Known { name: "broadloom", program: "broadloom",     arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --io-threads {threads} --io-backend {io}" },
    Known { name: "dragonfly", program: "dragonfly",     arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --dbfilename '' --proactor_threads {threads} --conn_use_incoming_cpu=false" },
    Known { name: "echo",      program: "{self}",        arguments: "--echo --port {port} --server-threads {threads} --io-backend {io}" },
    Known { name: "keydb",     program: "keydb-server",  arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --server-threads {threads}" },
    Known { name: "pogocache", program: "pogocache",     arguments: "-h 127.0.0.1 -p {port} -t {threads}" },
    Known { name: "redis",     program: "redis-server",  arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --io-threads {threads}" },
    Known { name: "valkey",    program: "valkey-server", arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --io-threads {threads}" },
];

/// Returns all known products, sorted by name.
#[must_use]
pub fn known() -> &'static [Known] {
    KNOWN
}

/// Returns the product with this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Returns the product whose program has this file name.
#[must_use]
pub fn by_program(file_name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.program == file_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_complete() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
        for known in KNOWN {
            assert!(shlex::split(known.arguments).is_some(), "{}", known.name);
            for placeholder in ["{port}", "{threads}"] {
                assert!(known.arguments.contains(placeholder), "{} lacks {placeholder}", known.name);
            }
        }
    }
}
