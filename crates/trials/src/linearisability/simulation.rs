//! Planted faults: a simulated store under a random interleaving, either correct or with one typical fault of
//! a multi-threaded server. The search must accept the correct store always and catch each fault.

use super::search::{Command, Operation, check, check_each_key};
use super::store::{Op, Output, State, choose};
use crate::random::Random;

const CLIENT_COUNT: usize = 5;
const OPERATION_COUNT: usize = 120;
const KEY_COUNT: usize = 3;

/// Fault of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// INCR reads, and writes later: an update can be lost.
    TornIncrement,
    /// MSET writes its keys one at a time.
    TornMultiSet,
    /// A read may return the state before its call.
    StaleRead,
    /// RENAME removes the old key before it writes the new one.
    TornRename,
    /// A script reads its keys, and other commands run before it writes them.
    TornScript,
}

/// A command in progress, with its remaining steps, each at a separate moment.
struct Running {
    op: Op,
    called_at: u64,
    steps: Vec<Op>,
    output: Option<Output>,
    moved: Option<i64>,
}

fn simulate(seed: u64, fault: Fault, make: fn(&mut Random, usize, i64) -> Op) -> Vec<Operation<Op>> {
    let mut random = Random::new(seed);
    let mut state = State::default();
    let mut stale = State::default();
    let mut running: Vec<Option<Running>> = (0..CLIENT_COUNT).map(|_| None).collect();
    let mut history = Vec::new();
    let mut started_count = 0;
    let mut now = 0;
    while history.len() < OPERATION_COUNT {
        now += 1;
        if random.chance(5) {
            stale = state;
        }
        let client = random.below(CLIENT_COUNT);
        let Some(command) = &mut running[client] else {
            if started_count < OPERATION_COUNT {
                started_count += 1;
                let op = make(&mut random, KEY_COUNT, started_count as i64);
                let steps = steps_of(&op, fault);
                running[client] = Some(Running { op, called_at: now, steps, output: None, moved: None });
            }
            continue;
        };
        if command.steps.is_empty() {
            let Running { op, called_at, output, .. } = running[client].take().unwrap();
            history.push(Operation { client, called_at, returned_at: now, op, output: output.unwrap() });
            continue;
        }
        let step = command.steps.remove(0);
        let output = match (&command.op, &step, fault) {
            (Op::Get(_), _, Fault::StaleRead) => step.apply(&mut stale.clone()),
            (Op::Increment(_), Op::Get(key), _) => Output::Count(state[*key].unwrap_or(0) + 1),
            (Op::Increment(key), Op::Set(..), _) => {
                let Some(Output::Count(value)) = command.output else { unreachable!("it has read") };
                state[*key] = Some(value);
                Output::Count(value)
            }
            (Op::Rename(..), Op::GetDelete(from), _) => {
                command.moved = state[*from].take();
                if command.moved.is_none() {
                    command.steps.clear();
                }
                command.moved.map_or(Output::NoSuchKey, |_| Output::Done(true))
            }
            (Op::Rename(_, to), Op::Set(..), _) => {
                state[*to] = command.moved;
                Output::Done(true)
            }
            (Op::ScriptSetGet(..), Op::Set(..), _) | (Op::ScriptSetBoth(..), Op::MultiSet(_), _) => {
                step.apply(&mut state);
                command.output.take().expect("it has read")
            }
            _ => step.apply(&mut state),
        };
        command.output = Some(output);
    }
    history
}

/// Returns the atomic steps of a command in a store with that fault.
fn steps_of(op: &Op, fault: Fault) -> Vec<Op> {
    match (op, fault) {
        (Op::Increment(key), Fault::TornIncrement) => vec![Op::Get(*key), Op::Set(*key, 0)],
        (Op::MultiSet(pairs), Fault::TornMultiSet) => {
            pairs.iter().map(|pair| Op::MultiSet(vec![*pair])).collect()
        }
        (Op::ScriptSetGet(key, value), Fault::TornScript) => vec![Op::Get(*key), Op::Set(*key, *value)],
        (Op::ScriptSetBoth(first, second, value), Fault::TornScript) => {
            vec![Op::MultiGet(vec![*first, *second]), Op::MultiSet(vec![(*first, *value), (*second, *value)])]
        }
        (Op::Rename(from, to), Fault::TornRename) => vec![Op::GetDelete(*from), Op::Set(*to, 0)],
        _ => vec![op.clone()],
    }
}

#[test]
fn a_correct_store_is_always_linearisable() {
    for seed in 0..100 {
        check(&simulate(seed, Fault::None, choose::any)).unwrap();
        check(&simulate(seed, Fault::None, choose::scripted)).unwrap();
        check_each_key(&simulate(seed, Fault::None, choose::single)).unwrap();
    }
}

#[test]
fn faults_of_one_key_are_caught() {
    for fault in [Fault::TornIncrement, Fault::StaleRead] {
        let caught =
            (0..50).filter(|seed| check_each_key(&simulate(*seed, fault, choose::single)).is_err()).count();
        assert!(caught > 25, "{fault:?} was caught with {caught} of 50 seeds");
    }
}

#[test]
fn faults_of_several_keys_are_caught() {
    for fault in [Fault::TornMultiSet, Fault::TornRename, Fault::StaleRead] {
        let caught = (0..50).filter(|seed| check(&simulate(*seed, fault, choose::any)).is_err()).count();
        assert!(caught > 15, "{fault:?} was caught with {caught} of 50 seeds");
    }
}

#[test]
fn a_script_that_is_not_isolated_is_caught() {
    let is_caught = |seed: &u64| check(&simulate(*seed, Fault::TornScript, choose::scripted)).is_err();
    let caught = (0..50).filter(is_caught).count();
    assert!(caught > 15, "it was caught with {caught} of 50 seeds");
}
