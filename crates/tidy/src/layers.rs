//! The table of layers: which crates a crate may use. Checked against every Cargo.toml.
//!
//! A new arrow is a design change: it needs a row here and a line in ARCHITECTURE.md.

use crate::tree::{SourceFile, read_all};
use crate::{assert_tidy, manifest};

/// A crate and the crates of this workspace that it may use.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
}

const fn layer(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use }
}

/// Lowest layer first. `cluster` and `top` are planned crates, which do not exist yet.
static LAYERS: &[Layer] = &[
    layer("base", &[]),
    layer("sync", &["base"]),
    layer("collections", &["base", "sync"]),
    layer("wire", &["base"]),
    layer("config", &["base"]),
    layer("rdb", &["base", "collections"]),
    layer("keyspace", &["base", "sync", "collections"]),
    layer("commands", &["base", "wire", "collections", "rdb", "keyspace", "config"]),
    layer("script", &["base", "wire", "commands"]),
    layer("os", &["base", "sync"]),
    layer("persist", &["base", "sync", "os", "collections", "wire", "config", "keyspace", "rdb"]),
    layer("replication", &["base", "sync", "wire"]),
    layer("cluster", &["base", "wire", "persist"]),
    layer("tls", &["sync"]),
    layer("dashboard", &["tls"]),
    layer("reactor", &["base", "sync", "os"]),
    layer("tool", &[]),
    layer("bench", &["base", "wire", "reactor", "tls", "tool"]),
    layer("migrate", &["base", "wire", "tls", "tool"]),
    layer("top", &["base", "wire", "tool"]),
    layer(
        "server",
        &[
            "base",
            "sync",
            "collections",
            "wire",
            "config",
            "rdb",
            "keyspace",
            "commands",
            "script",
            "persist",
            "replication",
            "cluster",
            "os",
            "reactor",
            "tls",
            "dashboard",
            "bench",
            "migrate",
            "top",
        ],
    ),
    layer("trials", &[]),
    // Development only: no other crate may use these.
    layer(
        "sim",
        &[
            "base",
            "sync",
            "collections",
            "wire",
            "config",
            "keyspace",
            "commands",
            "persist",
            "replication",
            "reactor",
            "server",
            "trials",
        ],
    ),
    layer("tidy", &[]),
];

/// The crates that may contain `unsafe` code; each allows it at its root.
pub const UNSAFE_CRATES: &[&str] = &["sync", "collections", "os", "reactor"];

#[test]
fn the_table_only_points_downwards() {
    let complaints = LAYERS.iter().enumerate().flat_map(|(index, layer)| {
        let below = &LAYERS[..index];
        layer
            .may_use
            .iter()
            .filter(|used| !below.iter().any(|lower| lower.name == **used))
            .map(|used| format!("{} may not use {used}: its row is not above in LAYERS", layer.name))
    });
    assert_tidy(complaints.collect());
}

#[test]
fn crates_use_only_what_their_layer_allows() {
    let files = read_all();
    assert_tidy(manifests(&files).flat_map(|(name, file)| check_layer(name, &file.text)).collect());
}

#[test]
fn crates_take_the_workspace_lints() {
    let files = read_all();
    let complaints = manifests(&files)
        .filter(|(_, file)| !manifest::takes_workspace_lints(&file.text))
        .map(|(_, file)| format!("{}: no `[lints] workspace = true`", file.path));
    assert_tidy(complaints.collect());
}

#[test]
fn an_upward_dependency_is_noticed() {
    let upwards = "[dependencies]\nbase.workspace = true\ncommands.workspace = true\n";
    assert_eq!(check_layer("wire", upwards), ["crates/wire: may not use commands"]);
    assert_eq!(check_layer("odd", ""), ["crates/odd: not in the table of layers"]);
    assert!(check_layer("wire", "[dependencies]\nbase.workspace = true\nmemchr = \"2\"\n").is_empty());
}

fn manifests(files: &[SourceFile]) -> impl Iterator<Item = (&str, &SourceFile)> {
    files.iter().filter_map(|file| {
        let name = file.crate_name()?;
        (file.path == format!("crates/{name}/Cargo.toml")).then_some((name, file))
    })
}

fn check_layer(name: &str, manifest: &str) -> Vec<String> {
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
        return vec![format!("crates/{name}: not in the table of layers")];
    };
    let is_ours = |used: &String| LAYERS.iter().any(|layer| layer.name == used);
    manifest::dependencies(manifest)
        .iter()
        .filter(|used| is_ours(used) && !layer.may_use.contains(&used.as_str()))
        .map(|used| format!("crates/{name}: may not use {used}"))
        .collect()
}
