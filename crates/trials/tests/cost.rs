//! The cost audit with small sizes, and a check that it contains every command.
//!
//! The only test that depends on time: factors are generous, low quartiles are compared, and a case over a
//! limit is measured again, later, before it counts.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use trials::cost::report::Form;
use trials::cost::{Allowance, Plan, audit, coverage};
use trials::server::{Program, Server, programs_or_skip};

/// Allowance for small sizes. Caches shared with other processes affect the ratio of two servers more than
/// the ratio of two sizes on one server.
const ALLOWANCE: Allowance = Allowance { growth: 1.25, ratio: 2.0 };

#[test]
fn every_command_whose_cost_varies_is_audited() {
    let Some([broadloom]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    let complaints = coverage::complaints(&Server::start(&broadloom).unwrap()).unwrap();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn costs_grow_as_documented_and_stay_near_valkey() {
    let programs = [("broadloom", Program::broadloom()), ("valkey", Program::valkey())];
    let Some([broadloom, valkey]) = programs_or_skip(programs) else { return };
    let broadloom = broadloom.with_arguments(&["--io-threads", "1"]);
    let plan = Plan { is_quick: true, rounds: 3, allowance: ALLOWANCE };
    let findings = audit(&broadloom, &valkey, plan, |_, _| true, |_| {}).unwrap();
    let over = findings.iter().filter(|finding| !finding.is_within());
    let lines: Vec<String> = over.map(|finding| Form::Aligned.finding(finding)).collect();
    assert!(lines.is_empty(), "\n{}\n{}\n", Form::Aligned.head(), lines.join("\n"));
}
