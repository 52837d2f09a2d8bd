//! `user` lines, while there is only the default user: a `user default` line that `requirepass` could express
//! is honoured, and any other is refused. A server that its configuration protects by users must not start unprotected.

use config::{LoadError, Loaded, Secret, UserLine};

/// Applies the `user` lines to the configuration.
pub fn honour(loaded: &mut Loaded) -> Result<(), LoadError> {
    for line in std::mem::take(&mut loaded.users) {
        let refuse = |reason: String| LoadError::at(line.place.clone(), reason);
        let password = password_of(&line).map_err(refuse)?;
        let known = loaded.config.requirepass.reveal();
        if known.is_some_and(|known| Some(known) != password.as_deref()) {
            return Err(refuse(
                "The line contradicts requirepass: both set the password of the default user".to_owned(),
            ));
        }
        loaded.config.requirepass = password.map(Secret::new).unwrap_or_default();
    }
    Ok(())
}

/// The default user's password by this line; `None`: no password.
fn password_of(line: &UserLine) -> Result<Option<Vec<u8>>, String> {
    let (name, rules) =
        line.arguments.split_first().map_or((&[][..], &[][..]), |(name, rules)| (name, rules));
    if name != b"default" {
        return Err(format!(
            "This version of Broadloom has no ACL users but the default one: user '{}' can't be created",
            String::from_utf8_lossy(name)
        ));
    }
    // As in Redis, the line starts from a user without permissions.
    let (mut is_on, mut keys, mut channels, mut commands, mut nopass) = (false, false, false, false, false);
    let mut password = None;
    for rule in rules {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => is_on = true,
            b"nopass" => (nopass, password) = (true, None),
            b"resetpass" => (nopass, password) = (false, None),
            b"~*" | b"%rw~*" | b"allkeys" => keys = true,
            b"&*" | b"allchannels" => channels = true,
            b"+@all" | b"allcommands" => commands = true,
            b"reset" => {
                (is_on, keys, channels, commands, nopass, password) =
                    (false, false, false, false, false, None)
            }
            b"alldbs" | b"sanitize-payload" => {}
            _ if rule.first() == Some(&b'>') => {
                let given = Some(rule[1..].to_vec());
                if password.is_some() && password != given {
                    return Err(
                        "In this version of Broadloom the default user can have only one password".to_owned()
                    );
                }
                (nopass, password) = (false, given);
            }
            _ => {
                let shown = if rule.first() == Some(&b'#') { "#..." } else { &String::from_utf8_lossy(rule) };
                return Err(format!(
                    "The rule '{shown}' can't be honoured: in this version of Broadloom the default user may be given \
                     on, nopass or one >password, ~*, &* and +@all, and no less than that"
                ));
            }
        }
    }
    let missing = [
        (is_on, "on"),
        (nopass || password.is_some(), "nopass or >password"),
        (keys, "~*"),
        (channels, "&*"),
        (commands, "+@all"),
    ];
    match missing.iter().find(|(given, _)| !given) {
        Some((_, rule)) => Err(format!(
            "Without '{rule}' the default user is restricted, which this version of Broadloom can't enforce"
        )),
        None => Ok(password),
    }
}

#[cfg(test)]
mod tests {
    use config::{Config, NoFiles, load_text};

    use super::*;

    fn honoured(text: &str) -> Result<Config, String> {
        let mut loaded = load_text(text.as_bytes(), &mut NoFiles).expect("the text is right");
        honour(&mut loaded).map_err(|error| error.to_string())?;
        Ok(loaded.config)
    }

    #[test]
    fn an_all_powerful_default_user_is_honoured() {
        let config = honoured("user default on nopass ~* &* +@all").expect("it can be");
        assert_eq!(config.requirepass.reveal(), None);
        let config = honoured("user default on >secret allkeys allchannels allcommands").expect("it can be");
        assert_eq!(config.requirepass.reveal(), Some(&b"secret"[..]));
        honoured("requirepass secret\nuser default on >secret ~* &* +@all").expect("they agree");
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (text, words) in [
            ("user alice on >hush ~* &* +@all", "'alice'"),
            ("user default off nopass ~* &* +@all", "'off'"),
            ("user default on nopass ~app:* &* +@all", "'~app:*'"),
            ("user default on nopass ~* &* +@all -flushall", "'-flushall'"),
            ("user default on #aa ~* &* +@all", "'#...'"),
            ("user default on >hush >q ~* &* +@all", "one password"),
            ("user default on ~* &* +@all", "nopass or >password"),
            ("user default on nopass ~* +@all", "'&*'"),
            ("user default on nopass ~* &*", "'+@all'"),
            ("user default nopass ~* &* +@all", "'on'"),
            ("requirepass hush\nuser default on nopass ~* &* +@all", "requirepass"),
        ] {
            let error = honoured(text).expect_err(text);
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
