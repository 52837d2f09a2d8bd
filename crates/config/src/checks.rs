//! Checks of texts that have the right form for their directive.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::title::expand_title;

type Checked = Result<(), &'static str>;

const HOST_NAME_SIZE_MAX: usize = 255;
const ADDRESS_SIZE_MAX: usize = 45;
const HASH_SEED_SIZE_MAX: usize = 256;

pub(crate) fn check_dump_file_name(name: &str) -> Checked {
    unless(!is_base_name(name), "dbfilename can't be a path, just a filename")
}

pub(crate) fn check_append_file_name(name: &str) -> Checked {
    unless(name.is_empty(), "appendfilename can't be empty")?;
    unless(!is_base_name(name), "appendfilename can't be a path, just a filename")
}

pub(crate) fn check_append_dir_name(name: &str) -> Checked {
    unless(name.is_empty(), "appenddirname can't be empty")?;
    unless(!is_base_name(name), "appenddirname can't be a path, just a dirname")
}

pub(crate) fn check_cluster_file_name(name: &str) -> Checked {
    unless(name.is_empty(), "cluster-config-file can't be empty")
}

pub(crate) fn check_host_name(name: &str) -> Checked {
    unless(name.len() > HOST_NAME_SIZE_MAX, "Hostnames must be less than 256 characters")?;
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    unless(
        !name.bytes().all(is_host_byte),
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    )
}

pub(crate) fn check_node_name(name: &str) -> Checked {
    unless(!is_node_field(name), "Announced human node name contained invalid character")
}

pub(crate) fn check_announced_ip(address: &str) -> Checked {
    unless(address.len() > ADDRESS_SIZE_MAX, "cluster-announce-ip is too long")?;
    unless(!is_node_field(address), "cluster-announce-ip contains invalid character")
}

pub(crate) fn check_ipv4(address: &str) -> Checked {
    unless(!address.is_empty() && address.parse::<Ipv4Addr>().is_err(), "Invalid IPv4 address")
}

pub(crate) fn check_ipv6(address: &str) -> Checked {
    unless(!address.is_empty() && address.parse::<Ipv6Addr>().is_err(), "Invalid IPv6 address")
}

pub(crate) fn check_hash_seed(seed: &str) -> Checked {
    unless(seed.len() > HASH_SEED_SIZE_MAX, "hash-seed must be less than or equal to 256 characters")
}

/// Checks that a template yields a title even if its variable `title` is empty.
pub(crate) fn check_title_template(template: &str) -> Checked {
    const KNOWN: [&str; 7] =
        ["listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file", "cluster-enabled"];
    let title = expand_title(template, |variable| match variable {
        "title" => Some(String::new()),
        _ => KNOWN.contains(&variable).then(|| variable.to_owned()),
    });
    unless(
        title.is_none_or(|title| title.is_empty()),
        "template format is invalid or contains unknown variables",
    )
}

fn unless(is_wrong: bool, reason: &'static str) -> Checked {
    if is_wrong { Err(reason) } else { Ok(()) }
}

fn is_base_name(name: &str) -> bool {
    !name.contains(['/', '\\'])
}

/// Whether a text is valid as a field of `nodes.conf`, which has its own separators and quotes.
fn is_node_field(text: &str) -> bool {
    text.bytes().all(|byte| byte > b',' && byte != 0x7f && !b";<=>?@[]^{|}~\\".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_templates() {
        for (template, is_valid) in [
            ("{title} {listen-addr} {server-mode}", true),
            ("plain", true),
            ("--my--title", true),
            ("title}", true),
            ("{{title", true),
            ("", false),
            (" {title} ", false),
            ("{nonesuch}", false),
            ("{title", false),
            ("x{", false),
        ] {
            assert_eq!(check_title_template(template).is_ok(), is_valid, "{template}");
        }
    }

    #[test]
    fn names_of_nodes_and_files() {
        assert!(check_node_name("node-1.a").is_ok());
        for name in ["a b", "a,b", "a=b", "a\"b", "a\\b", "a{b"] {
            assert!(check_node_name(name).is_err(), "{name}");
        }
        assert!(check_announced_ip("fe80::1").is_ok());
        assert!(check_announced_ip(&"1".repeat(46)).is_err());
        assert!(check_host_name("host.example").is_ok());
        assert!(check_host_name("host_name").is_err());
        assert!(check_host_name(&"a".repeat(256)).is_err());
        assert!(check_dump_file_name("a/b").is_err());
        assert!(check_append_dir_name("").is_err());
    }
}
