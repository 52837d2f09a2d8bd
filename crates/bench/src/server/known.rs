//! Products with a predefined command line: `--server valkey`, `--server redis=/opt/redis-server`.

/// Command line of a product for a benchmark: no persistence, loopback, and the given port and number of
/// threads.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// Name for `--server`.
    pub name: &'static str,
    /// Program name, searched in the PATH.
    pub program: &'static str,
    /// Arguments, with placeholders.
    pub arguments: &'static str,
    /// Arguments that replace [`PORT`] for a server with TLS; absent if the benchmark starts the product without TLS only.
    pub tls: Option<&'static str>,
}

/// The arguments for a port without TLS, which all products with TLS have in common.
const PORT: &str = "--port {port}";

/// The directives of Redis and its relatives.
const TLS: Option<&str> = Some(
    "--port 0 --tls-port {port} --tls-cert-file {cert} --tls-key-file {key} --tls-ca-cert-file {cacert} --tls-auth-clients no",
);

impl Known {
    /// Returns the arguments for a server with TLS.
    #[must_use]
    pub fn arguments_with_tls(&self) -> Option<String> {
        self.tls.map(|tls| self.arguments.replacen(PORT, tls, 1))
    }
}

#[rustfmt::skip]
static KNOWN: &[Known] = &[
    Known { name: "broadloom", program: "broadloom",     tls: TLS,  arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --io-threads {threads} --io-backend {io}" },
    Known { name: "dragonfly", program: "dragonfly",     tls: None, arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --dbfilename '' --proactor_threads {threads} --conn_use_incoming_cpu=false" },
    Known { name: "echo",      program: "{self}",        tls: None, arguments: "--echo --port {port} --server-threads {threads} --io-backend {io}" },
    Known { name: "keydb",     program: "keydb-server",  tls: TLS,  arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --server-threads {threads}" },
    Known { name: "pogocache", program: "pogocache",     tls: None, arguments: "-h 127.0.0.1 -p {port} -t {threads}" },
    Known { name: "redis",     program: "redis-server",  tls: TLS,  arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --io-threads {threads}" },
    Known { name: "valkey",    program: "valkey-server", tls: TLS,  arguments: "--bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no --io-threads {threads}" },
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
            if let Some(arguments) = known.arguments_with_tls() {
                for placeholder in ["--tls-port {port}", "{cert}", "{key}", "{cacert}", "{threads}"] {
                    assert!(arguments.contains(placeholder), "{} lacks {placeholder}", known.name);
                }
                assert!(!arguments.contains(PORT), "{}", known.name);
            }
        }
    }
}
