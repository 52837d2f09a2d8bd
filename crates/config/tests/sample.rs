//! The sample file at the top of the repository.

use config::{Config, NoFiles, load_text};

const SAMPLE: &str = include_str!("../../../broadloom.conf");

#[test]
fn the_sample_has_the_defaults_and_no_inert_directives() {
    let loaded = load_text(SAMPLE.as_bytes(), &mut NoFiles).unwrap();
    let expected = Config { bind: loaded.config.bind.clone(), ..Config::default() };
    assert_eq!(loaded.config, expected);
    assert_eq!(loaded.config.bind.0, ["127.0.0.1", "-::1"]);
    assert_eq!(loaded.inert_notice(), None);
}

#[test]
fn every_example_is_right() {
    let examples = SAMPLE.lines().filter_map(|line| line.strip_prefix('#'));
    for example in examples.filter(|example| example.starts_with(char::is_alphabetic)) {
        load_text(example.as_bytes(), &mut NoFiles).unwrap_or_else(|error| panic!("{error}"));
    }
}
