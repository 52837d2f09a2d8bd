//! The requests of an append-only file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::connection::{Connection, encode};
use crate::reply::{self, Reply};
use crate::server::Server;

/// The words of a request.
pub type Request = Vec<Vec<u8>>;

const DIRECTORY: &str = "appendonlydir";

/// The end of the names of increments.
const INCREMENT: &str = ".incr.aof";
/// The end of the names of bases that consist of requests.
const BASE: &str = ".base.aof";

/// Returns the files below a server's data directory whose names end so, in order.
fn files(data_dir: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(data_dir.join(DIRECTORY))?;
    let mut paths: Vec<PathBuf> = files.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    Ok(paths)
}

/// Returns the requests in the increments below a server's data directory.
///
/// # Errors
/// If a file can't be read, or is not a sequence of whole requests in RESP arrays.
pub fn logged(data_dir: &Path) -> io::Result<Vec<Request>> {
    read(files(data_dir, INCREMENT)?)
}

/// Returns the requests in the base below the data directory of a server that uses no preamble in RDB. Errors as [`logged`].
pub fn rewritten(data_dir: &Path) -> io::Result<Vec<Request>> {
    read(files(data_dir, BASE)?)
}

fn read(paths: Vec<PathBuf>) -> io::Result<Vec<Request>> {
    let mut requests = Vec::new();
    for path in paths {
        let bytes = fs::read(path)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (request, size) = match reply::parse(rest) {
                Ok(Some((Reply::List(b'*', words), size))) => (words, size),
                other => return Err(io::Error::other(format!("no request: {other:?}"))),
            };
            requests.push(request.into_iter().map(word).collect::<io::Result<_>>()?);
            rest = &rest[size..];
        }
    }
    Ok(requests)
}

fn word(reply: Reply) -> io::Result<Vec<u8>> {
    match reply {
        Reply::Bulk(word) => Ok(word),
        other => Err(io::Error::other(format!("no word: {other:?}"))),
    }
}

/// Loads the base below `data_dir` and `requests` in place of its increments in a server that has no append-only file. Returns
/// the number of requests that the server has refused.
///
/// # Errors
/// If the server refuses the files.
pub fn load(server: &Server, data_dir: &Path, requests: &[Request]) -> io::Result<u64> {
    let target = server.data_dir().join(DIRECTORY);
    fs::create_dir_all(&target)?;
    for file in fs::read_dir(data_dir.join(DIRECTORY))? {
        let file = file?;
        fs::copy(file.path(), target.join(file.file_name()))?;
    }
    let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
    let (last, others) = files(server.data_dir(), INCREMENT)?
        .split_last()
        .map(|(last, others)| (last.clone(), others.to_vec()))
        .ok_or_else(|| io::Error::other("no increment"))?;
    others.into_iter().try_for_each(|path| fs::write(path, b""))?;
    fs::write(last, bytes)?;
    let mut connection = server.connect()?;
    let reply = connection.call(&["DEBUG", "LOADAOF"])?.reply;
    if reply != Reply::Simple(b"OK".to_vec()) {
        return Err(io::Error::other(format!("{}: {reply:?}", server.name())));
    }
    refused_count(&mut connection)
}

/// Returns the number of requests from a file or from a primary that a server has refused.
fn refused_count(connection: &mut Connection) -> io::Result<u64> {
    let info = connection.call(&["INFO", "stats"])?;
    let text = String::from_utf8_lossy(&info.bytes).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix("unexpected_error_replies:"));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| io::Error::other("no such figure"))
}

/// Sends the requests to a server as a client. Returns those that it refuses, with its errors.
///
/// # Errors
/// If the connection ends.
pub fn refusals(connection: &mut Connection, requests: &[Request]) -> io::Result<Vec<(Request, Reply)>> {
    const BATCH_LEN: usize = 100;
    let mut refused = Vec::new();
    for batch in requests.chunks(BATCH_LEN) {
        connection.send(&batch.iter().flat_map(|request| encode(request)).collect::<Vec<u8>>())?;
        for request in batch {
            let reply = connection.receive()?.reply;
            let has_error = match &reply {
                Reply::List(_, items) => items.iter().any(|item| matches!(item, Reply::Error(_))),
                reply => matches!(reply, Reply::Error(_)),
            };
            if has_error {
                refused.push((request.clone(), reply));
            }
        }
    }
    Ok(refused)
}
