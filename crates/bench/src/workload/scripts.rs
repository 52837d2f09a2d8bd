//! The named workloads on scripts. A workload's script is loaded before its fill; `{sha}` in its commands is the digest.

use std::fmt::Write;

use sha1::{Digest, Sha1};

use super::{Named, Own, SET, STRINGS, USUAL};

/// Placeholder for the digest of the workload's script.
pub(super) const SHA: &str = "{sha}";

const EXCHANGE: Own = Own {
    script: Some("local old = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return old"),
    ..USUAL
};

/// One queue with 10,000 jobs at the beginning.
const JOBS: Own =
    Own { key_count: Some(1), fill_times: 10_000, value_size: Some(200), script: Some(JOB_QUEUE), ..USUAL };

/// A job queue as libraries build it: the queue's own keys are declared, and the key of a job is put together in the
/// script from a prefix and a number. One request adds a job; the other takes the oldest one, finishes it and keeps the
/// numbers of the last 100 that are finished. Both report what they did in a stream.
///
/// KEYS: waiting, active, finished, number, events. ARGV: prefix of the jobs' keys, `add` or `work`, and the data of a new
/// job. The reply to `work` is empty if there is no job.
const JOB_QUEUE: &str = "\
local function report(what, number)
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', 1000, '*', 'event', what, 'job', number)
end
if ARGV[2] == 'add' then
    local number = redis.call('INCR', KEYS[4])
    redis.call('HSET', ARGV[1] .. number, 'data', ARGV[3], 'attempts', 0, 'state', 'waiting')
    redis.call('LPUSH', KEYS[1], number)
    report('waiting', number)
    return number
end
local number = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if not number then
    return ''
end
local job = ARGV[1] .. number
redis.call('HINCRBY', job, 'attempts', 1)
redis.call('HSET', job, 'state', 'active')
local data = redis.call('HGET', job, 'data')
redis.call('LREM', KEYS[2], 1, number)
redis.call('DEL', job)
redis.call('ZADD', KEYS[3], number, number)
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -101)
report('finished', number)
return data";

const ADD_JOB: &str =
    "EVALSHA {sha} 5 jobs:waiting jobs:active jobs:finished jobs:number jobs:events jobs: add {value}";
const WORK: &str =
    "EVALSHA {sha} 5 jobs:waiting jobs:active jobs:finished jobs:number jobs:events jobs: work";

#[rustfmt::skip]
pub(super) static NAMED: &[Named] = &[
    Named { name: "evalsha", key_prefix: STRINGS, fill: SET, distribution: None, from_empty: false, own: EXCHANGE, commands: &[(1, "EVALSHA {sha} 1 {key} {value}")],
        about: "EVALSHA of a script that does GET and SET of its key" },
    Named { name: "job-queue", key_prefix: "jobs:", fill: Some(ADD_JOB), distribution: None, from_empty: false, own: JOBS, commands: &[(1, ADD_JOB), (1, WORK)],
        about: "EVALSHA of a job queue's script, which uses undeclared keys: adds jobs, and takes and finishes them" },
];

/// Returns the digest of a script, as `SCRIPT LOAD` does.
pub fn digest(script: &str) -> String {
    Sha1::digest(script).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        assert_eq!(digest("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
