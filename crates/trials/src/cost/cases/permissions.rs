//! Users and their rules.

use super::Case;

/// Cases of ACL. Valkey's cost grows with the square of the number of patterns and passwords, hence N/10.
#[rustfmt::skip] // A line each.
pub(super) const CASES: &[Case] = &[
    Case::arguments("ACL SETUSER with many key patterns", &[], "ACL SETUSER u {~~k#}*N/10 ; ACL DELUSER u"),
    Case::arguments("ACL SETUSER with many channels", &[], "ACL SETUSER u resetchannels {&c#}*N/10 ; ACL DELUSER u"),
    Case::arguments("ACL SETUSER with many passwords", &[], "ACL SETUSER u {>p#}*N/10 ; ACL DELUSER u"),
    Case::arguments("ACL SETUSER with many selectors", &[], r"ACL SETUSER u {(+get\s~~k#)}*N/10 ; ACL DELUSER u"),
    Case::arguments("ACL SETUSER with many first arguments", &[], "ACL SETUSER u {+select|#}*N/10 ; ACL DELUSER u"),
    Case::arguments("ACL SETUSER of many users", &[], "N/10: ACL SETUSER u# on ; ACL DELUSER {u#}*N/10").up_to(5.0, "all workers adopt each change"),
];
