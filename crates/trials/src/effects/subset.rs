//! The requests that may be in an append-only file: those that Redis 7.2 and Valkey 8.0 know, with their options, and that have
//! the same result at any time. Fields of hashes have no expiry there: [`SUCCESSORS`] has the two exceptions.

use super::requests::Request;

/// The forms of requests. The first word is the command. Of the others, capitals are a token, `_` is any word, `#` an integer,
/// `id` a complete ID of a stream's entry, `payload` one that version 11 can read, and `_*` any
/// number of words. `(A|B)` is one of these sequences, `{A|B}` any number of them. `,` separates words in a sequence.
const FORMS: &[&str] = &[
    "append _ _",
    "bitfield _ {GET,_,_|SET,_,_,#|INCRBY,_,_,#|OVERFLOW,WRAP|OVERFLOW,SAT|OVERFLOW,FAIL}",
    "bitop (AND|OR|XOR) _ _ _*",
    "bitop NOT _ _",
    "copy _ _ {DB,#|REPLACE}",
    "decr _",
    "decrby _ #",
    "del _ _*",
    "exec",
    "flushall {SYNC|ASYNC}",
    "flushdb {SYNC|ASYNC}",
    "function DELETE _",
    "function FLUSH {SYNC|ASYNC}",
    "function LOAD _",
    "function LOAD REPLACE _",
    "function RESTORE payload (APPEND|FLUSH|REPLACE)",
    "geoadd _ {NX|XX|CH} _ _ _ _*",
    "hdel _ _ _*",
    "hincrby _ _ #",
    "hmset _ _ _ _*",
    "hset _ _ _ _*",
    "hsetnx _ _ _",
    "incr _",
    "incrby _ #",
    "linsert _ (BEFORE|AFTER) _ _",
    "lmove _ _ (LEFT|RIGHT) (LEFT|RIGHT)",
    "lpop _",
    "lpop _ #",
    "lpush _ _ _*",
    "lpushx _ _ _*",
    "lrem _ # _",
    "lset _ # _",
    "ltrim _ # #",
    "move _ #",
    "mset _ _ _*",
    "msetnx _ _ _*",
    "multi",
    "persist _",
    "pexpireat _ #",
    "pfadd _ _*",
    "pfcount _",
    "pfdebug (GETREG|TODENSE) _",
    "pfmerge _ _*",
    "rename _ _",
    "renamenx _ _",
    "restore _ 0 payload {REPLACE|ABSTTL|IDLETIME,#|FREQ,#}",
    "restore _ # payload {REPLACE|IDLETIME,#|FREQ,#} ABSTTL {REPLACE|IDLETIME,#|FREQ,#}",
    "rpop _",
    "rpop _ #",
    "rpoplpush _ _",
    "rpush _ _ _*",
    "rpushx _ _ _*",
    "sadd _ _ _*",
    "sdiffstore _ _ _*",
    "select #",
    "set _ _ {NX|XX|GET|KEEPTTL}",
    "set _ _ {NX|XX|GET} PXAT # {NX|XX|GET}",
    "setbit _ # #",
    "setnx _ _",
    "setrange _ # _",
    "sinterstore _ _ _*",
    "smove _ _ _",
    "srem _ _ _*",
    "sunionstore _ _ _*",
    "swapdb # #",
    "unlink _ _*",
    "xack _ _ _ _*",
    "xadd _ id _ _ _*",
    "xadd _ MAXLEN # id _ _ _*",
    "xadd _ MAXLEN = # id _ _ _*",
    "xclaim _ _ _ 0 id {id} TIME # RETRYCOUNT # FORCE JUSTID LASTID id",
    "xdel _ _ _*",
    "xgroup CREATE _ _ _ {MKSTREAM|ENTRIESREAD,#}",
    "xgroup CREATECONSUMER _ _ _",
    "xgroup DELCONSUMER _ _ _",
    "xgroup DESTROY _ _",
    "xgroup SETID _ _ _ {ENTRIESREAD,#}",
    "xsetid _ _ {ENTRIESADDED,#|MAXDELETEDID,_}",
    "xtrim _ MAXLEN = #",
    "zadd _ {NX|XX|GT|LT|CH|INCR} _ _ _*",
    "zdiffstore _ # _ _*",
    "zincrby _ _ _",
    "zinterstore _ # _ _*",
    "zpopmax _",
    "zpopmax _ #",
    "zpopmin _",
    "zpopmin _ #",
    "zrangestore _ _ _ _ {BYSCORE|BYLEX|REV|LIMIT,#,#}",
    "zrem _ _ _*",
    "zremrangebylex _ _ _",
    "zremrangebyrank _ # #",
    "zremrangebyscore _ _ _",
    "zunionstore _ # _ _*",
];

/// The exceptions, which Redis 7.4 and Valkey 9.0 have added.
const SUCCESSORS: &[&str] = &["hpexpireat _ # FIELDS # _ _*", "hpersist _ FIELDS # _ _*"];

/// The version of payloads of Redis 7.2 and Valkey 8.0.
const PAYLOAD_VERSION_MAX: u16 = 11;

/// Whether Redis 7.2 and Valkey 8.0 know a request.
#[must_use]
pub fn is_known(request: &Request) -> bool {
    FORMS.iter().any(|form| is_of(request, form))
}

/// Whether a request is one of the exceptions, which only later versions know.
#[must_use]
pub fn is_known_to_successors(request: &Request) -> bool {
    SUCCESSORS.iter().any(|form| is_of(request, form))
}

fn is_of(request: &Request, form: &str) -> bool {
    let (name, rest) = form.split_once(' ').unwrap_or((form, ""));
    let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let parts: Vec<&str> = rest.split(' ').filter(|part| !part.is_empty()).collect();
    words
        .split_first()
        .is_some_and(|(first, words)| first.eq_ignore_ascii_case(name.as_bytes()) && matches(words, &parts))
}

/// Whether the words are of these parts.
fn matches(words: &[&[u8]], parts: &[&str]) -> bool {
    let Some((part, rest)) = parts.split_first() else { return words.is_empty() };
    let inner = part.get(1..part.len().saturating_sub(1)).unwrap_or("");
    let after = |sequence: &str| {
        let wanted: Vec<&str> = sequence.split(',').collect();
        let (head, tail) = words.split_at_checked(wanted.len())?;
        head.iter().zip(wanted).all(|(word, part)| is_word(word, part)).then_some(tail)
    };
    match part.as_bytes()[0] {
        b'(' => inner.split('|').filter_map(after).any(|tail| matches(tail, rest)),
        b'{' => matches(words, rest) || inner.split('|').filter_map(after).any(|tail| matches(tail, parts)),
        _ if *part == "_*" => (0..=words.len()).any(|count| matches(&words[count..], rest)),
        _ => after(part).is_some_and(|tail| matches(tail, rest)),
    }
}

/// Whether a word is of a part without alternatives.
fn is_word(word: &[u8], part: &str) -> bool {
    let integer = || std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    match part {
        "_" => true,
        "#" => integer().is_some(),
        "id" => {
            let is_number = |text: &str| text.parse::<u64>().is_ok();
            let halves = std::str::from_utf8(word).ok().and_then(|text| text.split_once('-'));
            halves.is_some_and(|(ms, seq)| is_number(ms) && is_number(seq))
        }
        "payload" => {
            let version = word.len().checked_sub(10).map(|at| u16::from_le_bytes([word[at], word[at + 1]]));
            version.is_some_and(|version| version <= PAYLOAD_VERSION_MAX)
        }
        token => word.eq_ignore_ascii_case(token.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(request: &str) -> Request {
        request.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn older_servers_do_not_know_later_options() {
        for known in
            ["SET k v", "set k v nx get", "SET k v PXAT 1700000000000 NX", "ZADD k GT CH 1 a 2 b", "PFADD k"]
        {
            assert!(is_known(&words(known)), "{known}");
        }
        let unknown = "SET k v IFEQ a;SET k v EX 10;SET;XADD k * f v;XADD k DELREF 1-1 f v;EVAL x 0;PUBLISH c m;\
            BITOP DIFF d a b;XTRIM k MAXLEN ~ 5;HPEXPIREAT k 1700000000000 FIELDS 1 f;EXPIRE k 10";
        for unknown in unknown.split(';') {
            assert!(!is_known(&words(unknown)), "{unknown}");
        }
        assert!(is_known_to_successors(&words("HPERSIST k FIELDS 1 f")));
    }
}
