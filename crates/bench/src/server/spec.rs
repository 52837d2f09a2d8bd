//! The syntax of `--server`: a name with an address, a command line, or a known product.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::BenchError;
use crate::server::known;

/// Placeholder for this program and the words that select the benchmark.
pub const OWN_PROGRAM: &str = "{self}";

/// One server to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Name in reports.
    pub name: String,
    /// Address or command.
    pub origin: Origin,
}

/// Origin of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Address of a running server.
    Address(SocketAddr),
    /// Words of the start command, before [`Variables`] are substituted.
    Command(Vec<String>),
}

/// Values of the placeholders of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables<'a> {
    /// `{port}`
    pub port: u16,
    /// `{dir}`
    pub dir: &'a Path,
    /// `{threads}`
    pub thread_count: usize,
    /// `{io}`
    pub io_backend: &'a str,
    /// `{self}`, as a separate word
    pub own_words: &'a [String],
}

impl FromStr for ServerSpec {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        match text.split_once('=') {
            Some((name, origin)) if is_name(name) && !origin.trim().is_empty() => {
                Ok(Self { name: name.to_owned(), origin: parse_origin(origin.trim())? })
            }
            None if known::by_name(text).is_some() => {
                Ok(Self { name: text.to_owned(), origin: parse_known(text) })
            }
            None if !text.contains(' ') && text.contains(':') => {
                Ok(Self { name: text.to_owned(), origin: Origin::Address(resolve(text)?) })
            }
            _ => Err(BenchError::usage(format!(
                "invalid server: '{text}'; examples: 'valkey', 'valkey=/opt/valkey-server', '127.0.0.1:6379', \
                 'mine=127.0.0.1:6379', 'mine=/opt/mine --port {{port}} --dir {{dir}}'"
            ))),
        }
    }
}

impl ServerSpec {
    /// Returns the program's words, ready for execution.
    #[must_use]
    pub fn command_line(words: &[String], variables: &Variables<'_>) -> Vec<OsString> {
        let put_in = |word: &String| {
            if word == OWN_PROGRAM { variables.own_words.to_vec() } else { vec![variables.put_into(word)] }
        };
        let mut line: Vec<OsString> = words.iter().flat_map(put_in).map(OsString::from).collect();
        // The server has a different working directory, so a relative path must be made absolute. A program
        // beside this one takes precedence over the PATH.
        let program = line.first().and_then(|program| find_program(&program.to_string_lossy()));
        if let (Some(first), Some(program)) = (line.first_mut(), program) {
            *first = std::path::absolute(&program).unwrap_or(program).into_os_string();
        }
        line
    }

    /// Whether the program of a command exists; always true for an address.
    #[must_use]
    pub fn is_available(&self) -> bool {
        match &self.origin {
            Origin::Address(_) => true,
            Origin::Command(words) => words.first().is_some_and(|program| is_program(program)),
        }
    }
}

impl Variables<'_> {
    /// Returns a command for the report: without the program's directory and the values that differ in each
    /// run.
    #[must_use]
    pub fn describe(&self, words: &[String]) -> String {
        let words = words.iter().enumerate().map(|(index, word)| match word.as_str() {
            "" => "''".to_owned(),
            OWN_PROGRAM => "broadloom bench".to_owned(),
            program if index == 0 => Path::new(program)
                .file_name()
                .map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned()),
            word => self.put_into_choices(word),
        });
        words.collect::<Vec<String>>().join(" ")
    }

    fn put_into(&self, word: &str) -> String {
        let word = self.put_into_choices(word);
        word.replace("{port}", &self.port.to_string()).replace("{dir}", &self.dir.to_string_lossy())
    }

    fn put_into_choices(&self, word: &str) -> String {
        word.replace("{threads}", &self.thread_count.to_string()).replace("{io}", self.io_backend)
    }
}

/// Returns the file executed for `program`: `program` itself if it contains a slash, else a file beside this
/// program, else the first match in the PATH.
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let neighbour = std::env::current_exe().ok().map(|own| own.with_file_name(program));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join(program));
    neighbour.into_iter().chain(in_path).find(|file| file.is_file())
}

/// Whether the first word of a command is executable.
#[must_use]
pub fn is_program(word: &str) -> bool {
    word == OWN_PROGRAM || find_program(word).is_some()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', ' '])
}

fn parse_origin(text: &str) -> Result<Origin, BenchError> {
    let words = shlex::split(text)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| BenchError::usage(format!("unclosed quote in '{text}'")))?;
    if let [word] = &words[..] {
        if let Some(known) = Path::new(word).file_name().and_then(|name| known::by_program(name.to_str()?)) {
            return Ok(with_arguments(word, known));
        }
        if !word.contains('/') && word.contains(':') {
            return Ok(Origin::Address(resolve(word)?));
        }
    }
    if !text.contains("{port}") {
        return Err(BenchError::usage(format!("the command '{text}' has no {{port}}")));
    }
    Ok(Origin::Command(words))
}

fn parse_known(name: &str) -> Origin {
    let known = known::by_name(name).expect("parse_origin has found this name in the table");
    with_arguments(known.program, known)
}

fn with_arguments(program: &str, known: &known::Known) -> Origin {
    let arguments = shlex::split(known.arguments).unwrap_or_default();
    Origin::Command([program.to_owned()].into_iter().chain(arguments).collect())
}

fn resolve(text: &str) -> Result<SocketAddr, BenchError> {
    let mut addresses =
        text.to_socket_addrs().map_err(BenchError::environment(format!("looking up {text}")))?;
    addresses.next().ok_or_else(|| BenchError::usage(format!("'{text}' has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(spec: &str) -> Vec<String> {
        match spec.parse::<ServerSpec>().unwrap().origin {
            Origin::Command(words) => words,
            Origin::Address(address) => panic!("{address}"),
        }
    }

    #[test]
    fn addresses() {
        let spec: ServerSpec = "mine=127.0.0.1:7000".parse().unwrap();
        assert_eq!(spec.name, "mine");
        assert_eq!(spec.origin, Origin::Address("127.0.0.1:7000".parse().unwrap()));
        assert_eq!("127.0.0.1:7000".parse::<ServerSpec>().unwrap().name, "127.0.0.1:7000");
    }

    #[test]
    fn command_lines_keep_words_and_substitute_variables() {
        let words = words("mine=/opt/x --port {port} --dir {dir} --save '' -t {threads}{io}");
        let dir = PathBuf::from("/tmp/with space");
        let variables =
            Variables { port: 7000, dir: &dir, thread_count: 2, io_backend: "epoll", own_words: &[] };
        let line = ServerSpec::command_line(&words, &variables);
        assert_eq!(
            line,
            ["/opt/x", "--port", "7000", "--dir", "/tmp/with space", "--save", "", "-t", "2epoll"]
        );
    }

    #[test]
    fn this_program_is_a_valid_server() {
        let own_words = ["/opt/broadloom".to_owned(), "bench".to_owned()];
        let dir = PathBuf::from("/tmp");
        let variables =
            Variables { port: 7000, dir: &dir, thread_count: 1, io_backend: "auto", own_words: &own_words };
        let line = ServerSpec::command_line(&words("x={self} --echo --port {port}"), &variables);
        assert_eq!(line, ["/opt/broadloom", "bench", "--echo", "--port", "7000"]);
    }

    #[test]
    fn known_products_get_their_arguments() {
        assert_eq!(words("valkey")[0], "valkey-server");
        assert_eq!(words("v9=/opt/9/valkey-server")[0], "/opt/9/valkey-server");
        assert_eq!(words("v9=/opt/9/valkey-server")[1..], words("valkey")[1..]);
    }

    #[test]
    fn invalid_input_is_refused() {
        for wrong in ["", "nothing", "x=", "x=/opt/x --port 1", "=127.0.0.1:1", "x='open"] {
            assert!(wrong.parse::<ServerSpec>().is_err(), "{wrong}");
        }
    }
}
