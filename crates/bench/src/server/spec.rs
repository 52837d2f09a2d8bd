//! The syntax of `--server`: a name with an address, a command line, or a known product.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::encryption::issued::Issued;
use crate::error::BenchError;
use crate::server::known::{self, Known};

/// Placeholder for this program and the words that select the benchmark.
pub const OWN_PROGRAM: &str = "{self}";

/// One server to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Name in reports.
    pub name: String,
    /// Address or command.
    pub origin: Origin,
    /// The known product that the command starts.
    pub product: Option<&'static Known>,
    /// User and password at this address, instead of those of all servers.
    pub account: Option<(String, String)>,
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
#[derive(Clone, Debug)]
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
    /// `{cert}`, `{key}` and `{cacert}`, with TLS
    pub issued: Option<&'a Issued>,
}

/// Placeholders for the files of a certificate.
const TLS_PLACEHOLDERS: [&str; 3] = ["{cert}", "{key}", "{cacert}"];

impl FromStr for ServerSpec {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        match text.split_once('=') {
            Some((name, origin)) if is_name(name) && !origin.trim().is_empty() => {
                Self::parse_origin(name, origin.trim())
            }
            None if !text.contains(' ') && text.contains(':') => {
                // A password is no part of the name.
                let name = text.rsplit_once('@').map_or(text, |(_, address)| address);
                Self::at_address(name, text)
            }
            _ => match known::by_name(text) {
                Some(known) => Ok(Self::starting(text, known.program, known)),
                None => Err(BenchError::usage(format!(
                    "invalid server: '{text}'; examples: 'valkey', 'valkey=/opt/valkey-server', '127.0.0.1:6379', \
                     'mine=user:password@127.0.0.1:6379', 'mine=/opt/mine --port {{port}} --dir {{dir}}'"
                ))),
            },
        }
    }
}

impl ServerSpec {
    /// Changes the command of a known product to one with TLS. A command of the user's own is left as it is.
    pub fn with_tls(mut self) -> Result<Self, BenchError> {
        let (Some(known), Origin::Command(words)) = (self.product, &mut self.origin) else {
            return Ok(self);
        };
        let arguments = known.arguments_with_tls().ok_or_else(|| {
            BenchError::usage(format!(
                "{} can't be started with --tls; write its command with {{port}}, {{cert}}, {{key}} and {{cacert}}",
                self.name
            ))
        })?;
        words.truncate(1);
        words.extend(shlex::split(&arguments).unwrap_or_default());
        Ok(self)
    }

    /// Whether the command has placeholders that only `--tls` replaces.
    #[must_use]
    pub fn needs_tls(&self) -> bool {
        let is_for_tls =
            |word: &String| TLS_PLACEHOLDERS.iter().any(|placeholder| word.contains(placeholder));
        matches!(&self.origin, Origin::Command(words) if words.iter().any(is_for_tls))
    }

    /// Whether the benchmark starts the server.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        matches!(self.origin, Origin::Command(_))
    }

    /// Parses the part of a specification after the name.
    fn parse_origin(name: &str, text: &str) -> Result<Self, BenchError> {
        let words = shlex::split(text)
            .filter(|words| !words.is_empty())
            .ok_or_else(|| BenchError::usage(format!("unclosed quote in '{text}'")))?;
        if let [word] = &words[..] {
            let file_name = Path::new(word).file_name().and_then(|name| name.to_str());
            if let Some(known) = file_name.and_then(known::by_program) {
                return Ok(Self::starting(name, word, known));
            }
            if !word.contains('/') && word.contains(':') {
                return Self::at_address(name, word);
            }
        }
        if !text.contains("{port}") {
            return Err(BenchError::usage(format!("the command '{text}' has no {{port}}")));
        }
        Ok(Self { name: name.to_owned(), origin: Origin::Command(words), product: None, account: None })
    }

    fn starting(name: &str, program: &str, known: &'static Known) -> Self {
        let arguments = shlex::split(known.arguments).unwrap_or_default();
        let words = [program.to_owned()].into_iter().chain(arguments).collect();
        Self { name: name.to_owned(), origin: Origin::Command(words), product: Some(known), account: None }
    }

    /// Parses `HOST:PORT` or `USER:PASSWORD@HOST:PORT`.
    fn at_address(name: &str, text: &str) -> Result<Self, BenchError> {
        let (account, address) = match text.rsplit_once('@') {
            None => (None, text),
            Some((account, address)) => {
                let (user, password) = account
                    .split_once(':')
                    .ok_or_else(|| BenchError::usage("before '@' in a server: USER:PASSWORD expected"))?;
                (Some((user.to_owned(), password.to_owned())), address)
            }
        };
        let origin = Origin::Address(resolve(address)?);
        Ok(Self { name: name.to_owned(), origin, product: None, account })
    }

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
        let word =
            word.replace("{port}", &self.port.to_string()).replace("{dir}", &self.dir.to_string_lossy());
        let Some(issued) = self.issued else { return word };
        let files = [issued.certificate(), issued.key(), issued.authority()];
        TLS_PLACEHOLDERS
            .iter()
            .zip(files)
            .fold(word, |word, (placeholder, file)| word.replace(placeholder, &file.to_string_lossy()))
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

    fn variables(dir: &Path) -> Variables<'_> {
        Variables { port: 7000, dir, thread_count: 1, io_backend: "auto", own_words: &[], issued: None }
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
        let variables = Variables { thread_count: 2, io_backend: "epoll", ..variables(&dir) };
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
        let variables = Variables { own_words: &own_words, ..variables(&dir) };
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
    fn an_address_may_have_an_account() {
        let spec: ServerSpec = "mine=bench:p@ss:word@127.0.0.1:7000".parse().unwrap();
        assert_eq!(spec.account, Some(("bench".to_owned(), "p@ss:word".to_owned())));
        assert_eq!(spec.origin, Origin::Address("127.0.0.1:7000".parse().unwrap()));
        let spec: ServerSpec = "bench:secret@127.0.0.1:7000".parse().unwrap();
        assert_eq!(spec.name, "127.0.0.1:7000", "the report has no password");
        assert!("bench@127.0.0.1:7000".parse::<ServerSpec>().is_err());
    }

    #[test]
    fn known_products_get_certificates() {
        let issued = Issued::new().unwrap();
        let spec = "v9=/opt/9/valkey-server".parse::<ServerSpec>().unwrap().with_tls().unwrap();
        assert!(spec.needs_tls());
        let Origin::Command(words) = spec.origin else { panic!("{spec:?}") };
        let dir = PathBuf::from("/tmp");
        let variables = Variables { issued: Some(&issued), ..variables(&dir) };
        let line = ServerSpec::command_line(&words, &variables);
        let position = |word: &str| line.iter().position(|other| other == word).unwrap();
        assert_eq!(line[position("--port") + 1], "0");
        assert_eq!(line[position("--tls-port") + 1], "7000");
        assert_eq!(line[position("--tls-key-file") + 1], issued.key());
        assert!(Path::new(&line[position("--tls-cert-file") + 1]).is_file());

        let echo: ServerSpec = "echo".parse().unwrap();
        assert!(echo.with_tls().unwrap_err().to_string().contains("echo can't be started with --tls"));
        let own: ServerSpec = "x=/opt/x --port {port}".parse().unwrap();
        assert!(!own.needs_tls());
        assert_eq!(own.clone().with_tls().unwrap(), own);
    }

    #[test]
    fn invalid_input_is_refused() {
        for wrong in ["", "nothing", "x=", "x=/opt/x --port 1", "=127.0.0.1:1", "x='open"] {
            assert!(wrong.parse::<ServerSpec>().is_err(), "{wrong}");
        }
    }
}
