//! The first line of a script: `#!lua flags=no-writes`, or of a library: `#!lua name=mylib`.

use bitflags::bitflags;
use wire::request::words_of;

bitflags! {
    /// What a script declares about itself.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ScriptFlags: u8 {
        /// It writes nothing.
        const NO_WRITES = 1 << 0;
        /// It may run over the memory limit.
        const ALLOW_OOM = 1 << 1;
        /// It may run on a replica with stale data.
        const ALLOW_STALE = 1 << 2;
        /// It does not run in a cluster.
        const NO_CLUSTER = 1 << 3;
        /// Its keys may be in several slots of a cluster.
        const ALLOW_CROSS_SLOT_KEYS = 1 << 4;
        /// It has no shebang.
        const WITHOUT_SHEBANG = 1 << 7;
    }
}

/// The names of the flags, in the order in which they are shown.
const FLAGS: [(&str, ScriptFlags); 5] = [
    ("no-writes", ScriptFlags::NO_WRITES),
    ("allow-oom", ScriptFlags::ALLOW_OOM),
    ("allow-stale", ScriptFlags::ALLOW_STALE),
    ("no-cluster", ScriptFlags::NO_CLUSTER),
    ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
];

impl ScriptFlags {
    /// The flag with this name.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        FLAGS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, flag)| *flag)
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        FLAGS.iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| *name)
    }
}

/// A parsed first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang {
    /// The flags.
    pub flags: ScriptFlags,
    /// Where the code begins.
    pub size: usize,
}

/// Why a first line is refused; the text follows `ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShebangError(pub Vec<u8>);

impl ShebangError {
    fn new(before: &str, quoted: &[u8]) -> Self {
        Self([before.as_bytes(), quoted].concat())
    }
}

impl Shebang {
    /// Parses the first line of a script.
    ///
    /// # Errors
    /// If it is malformed, or names another language than Lua.
    pub fn parse(body: &[u8]) -> Result<Self, ShebangError> {
        if !body.starts_with(b"#!") {
            return Ok(Self { flags: ScriptFlags::WITHOUT_SHEBANG, size: 0 });
        }
        let Some(size) = body.iter().position(|byte| *byte == b'\n') else {
            return Err(ShebangError::new("Invalid script shebang", b""));
        };
        let Some(words) = words_of(&body[..size]) else {
            return Err(ShebangError::new("Invalid engine in script shebang", b""));
        };
        let engine = words.first().map_or(&b""[..], |word| &word[2..]);
        let mut flags = ScriptFlags::empty();
        for word in &words[1..] {
            let Some(list) = word.strip_prefix(b"flags=") else {
                return Err(ShebangError::new("Unknown lua shebang option: ", word));
            };
            for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
                flags |= ScriptFlags::by_name(name)
                    .ok_or_else(|| ShebangError::new("Unexpected flag in script shebang: ", name))?;
            }
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            let name = [b"'", engine, b"'"].concat();
            return Err(ShebangError::new("Could not find scripting engine ", &name));
        }
        Ok(Self { flags, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_parsed() {
        let flags = |body: &str| Shebang::parse(body.as_bytes()).map(|shebang| shebang.flags);
        let error = |text: &str| Err(ShebangError(text.as_bytes().to_vec()));
        assert_eq!(flags("return 1"), Ok(ScriptFlags::WITHOUT_SHEBANG));
        assert_eq!(flags("#!lua\nreturn 1"), Ok(ScriptFlags::empty()));
        assert_eq!(
            flags("#!lua flags=no-writes,allow-oom\n"),
            Ok(ScriptFlags::NO_WRITES | ScriptFlags::ALLOW_OOM)
        );
        assert_eq!(flags("#!lua"), error("Invalid script shebang"));
        assert_eq!(flags("#!lua name=x\n"), error("Unknown lua shebang option: name=x"));
        assert_eq!(flags("#!lua flags=wow\n"), error("Unexpected flag in script shebang: wow"));
        assert_eq!(flags("#!js\n"), error("Could not find scripting engine 'js'"));
    }
}
