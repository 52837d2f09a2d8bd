//! The users at the start: by `requirepass` and the `user` lines of the configuration, or by the ACL file.

use std::collections::HashSet;

use commands::acl::{Grammar, RuleError, Users};
use commands::table::CATALOGUE;
use config::{Config, LoadError, Loaded};

use crate::shared::current_users::read_file;

/// Returns the users of the configuration.
///
/// # Errors
/// A line is invalid, or there are users in both places.
pub fn declared(loaded: &Loaded) -> Result<Users, LoadError> {
    let config = &loaded.config;
    let mut users = Users::new(&CATALOGUE);
    if let Some(password) = config.requirepass.reveal() {
        users = users.with_default_password(Some(password), Grammar::of(config, &CATALOGUE));
    }
    if let Some(line) = loaded.users.first().filter(|_| !config.aclfile.is_empty()) {
        let reason = "Configuring Broadloom with users defined in the configuration file and at the same setting an ACL \
                      file path is invalid. This setup is very likely to lead to configuration errors and security \
                      holes, please define either an ACL file or declare users directly in your configuration file, but \
                      not both.";
        return Err(LoadError::at(line.place.clone(), reason));
    }
    let mut names = HashSet::new();
    for line in &loaded.users {
        let refuse = |reason: String| LoadError::at(line.place.clone(), reason);
        let Some((name, rules)) = line.arguments.split_first() else { continue };
        if !names.insert(name) {
            let (name, reason) = (String::from_utf8_lossy(name), RuleError::DuplicateUser.text());
            return Err(refuse(format!("Error in user declaration '{name}': {reason}")));
        }
        let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        users = users
            .with_line(name, &rules, Grammar::of(config, &CATALOGUE))
            .map_err(|error| refuse(error.reason))?;
    }
    Ok(users)
}

/// Returns the users that the server starts with: those of the ACL file if there is one. Logs the users that are off.
///
/// # Errors
/// The ACL file is invalid.
pub fn at_start(declared: Users, config: &Config) -> Result<Users, String> {
    let users = match config.aclfile.as_str() {
        "" => declared,
        path => read_file(path, &declared, config)?,
    };
    for user in users.iter().filter(|user| !user.is_on()) {
        log::info!(
            "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
             configuration error.",
            String::from_utf8_lossy(user.name())
        );
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use config::{NoFiles, load_text};

    use super::*;

    fn lines(text: &str) -> Result<Vec<String>, String> {
        let loaded = load_text(text.as_bytes(), &mut NoFiles).expect("the text is right");
        let users = declared(&loaded).map_err(|error| error.to_string())?;
        Ok(users.lines().iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect())
    }

    #[test]
    fn the_default_user_is_unrestricted_unless_declared() {
        let unrestricted = "default on nopass ~* &* +@all";
        assert_eq!(lines("").expect("valid"), [unrestricted]);
        assert_eq!(lines("user default on nopass ~* &* +@all").expect("valid"), [unrestricted]);
        let restricted = "default on nopass ~app:* resetchannels -@all +get";
        assert_eq!(lines("user default on nopass ~app:* +get").expect("valid"), [restricted]);
    }

    #[test]
    fn requirepass_applies_unless_the_default_user_is_declared() {
        // SHA-256 of "abc".
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let with_password = format!("default on #{hash} ~* &* +@all");
        assert_eq!(lines("requirepass abc").expect("valid"), [with_password.as_str()]);
        assert_eq!(
            lines("requirepass other\nuser default on >abc ~* &* +@all").expect("valid"),
            [with_password]
        );
        assert_eq!(
            lines("requirepass abc\nuser alice on >abc").expect("valid")[0],
            format!("alice on #{hash} resetchannels -@all")
        );
    }

    #[test]
    fn invalid_lines_are_refused_without_their_passwords() {
        for (text, words) in [
            ("user alice on >hush nonsense", "Error in user declaration 'nonsense': Syntax error"),
            ("user alice on >hush #hush", "must be exactly 64 characters"),
            ("user alice on >hush\nuser alice on", "Error in user declaration 'alice': Duplicate user found"),
            ("user default on >hush\nuser default on", "Duplicate user found"),
            (
                "user alice >hush +nope",
                "Error loading ACL rule '+nope' for the user named 'alice': Unknown command",
            ),
            ("user alice >hush (+get ~k", "Unmatched parenthesis"),
            ("aclfile users.acl\nuser alice on >hush", "not both"),
        ] {
            let error = lines(text).expect_err(text);
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
