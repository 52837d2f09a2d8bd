//! The arguments of requests that must not appear in logs or in `MONITOR`.

use commands::table::ResolvedCommand;
use wire::request::Args;

/// The replacement for a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// Whether an argument of the request is a secret: a password, or the value of a directive that holds one.
#[must_use]
pub fn is_secret(found: ResolvedCommand, args: Args<'_>, index: usize) -> bool {
    let name = commands::table::NUMBERED[found.id.0 as usize].0.as_str();
    match name {
        "auth" => index >= 1,
        "hello" => {
            let auth = args.iter().position(|word| word.eq_ignore_ascii_case(b"auth"));
            auth.is_some_and(|auth| index == auth + 1 || index == auth + 2)
        }
        "migrate" => {
            let is_option = |at: usize, name: &[u8]| {
                index.checked_sub(at).is_some_and(|at| at >= 6 && args.at(at).eq_ignore_ascii_case(name))
            };
            is_option(1, b"auth") || is_option(1, b"auth2") || is_option(2, b"auth2")
        }
        "config|set" => index >= 3 && index % 2 == 1 && config::is_sensitive(args.at(index - 1)),
        "acl|setuser" | "acl|deluser" | "acl|getuser" => index >= 2,
        _ => false,
    }
}
