//! The cost audit with small sizes, and that no command is left out of it.
//!
//! The one test that looks at time: factors are generous, low quartiles are compared, and what is over a limit is measured
//! again, later, before it counts.

#![allow(clippy::unwrap_used)] // Whatever fails here fails the test.

use trials::cost::report::Form;
use trials::cost::{Allowance, Plan, audit, coverage};
use trials::server::{Program, Server, programs_or_skip};

/// How far costs of small sizes may be over the limits. Caches that are shared with other processes make more of a difference between
/// two servers than between two sizes on one.
const ALLOWANCE: Allowance = Allowance { growth: 1.25, ratio: 2.0 };

#[test]
fn every_command_whose_cost_varies_is_audited() {
    let Some([broadloom]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    let complaints = coverage::complaints(&Server::start(&broadloom).unwrap()).unwrap();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn costs_grow_no_faster_than_documented_and_stay_near_those_of_valkey() {
    let programs = [("broadloom", Program::broadloom()), ("valkey", Program::valkey())];
    let Some([broadloom, valkey]) = programs_or_skip(programs) else { return };
    let broadloom = broadloom.with_arguments(&["--io-threads", "1"]);
    let plan = Plan { is_quick: true, rounds: 3, allowance: ALLOWANCE };
    let findings = audit(&broadloom, &valkey, plan, |_, _| true, |_| {}).unwrap();
    let over = findings.iter().filter(|finding| !finding.is_within());
    let lines: Vec<String> = over.map(|finding| Form::Aligned.finding(finding)).collect();
    assert!(lines.is_empty(), "\n{}\n{}\n", Form::Aligned.head(), lines.join("\n"));
}
