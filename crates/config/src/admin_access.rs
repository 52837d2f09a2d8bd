//! The rule for the addresses of the admin port: without a password or client certificates, other machines must not
//! reach it.

use crate::choices::TlsAuthClients;
use crate::table::Config;

impl Config {
    /// Refuses addresses of the admin port that other machines may reach, unless a password or client certificates protect it.
    ///
    /// # Errors
    /// The reason, for users.
    pub fn check_admin_access(&self) -> Result<(), String> {
        let needs_certificate = self.admin_tls && self.tls_auth_clients == TlsAuthClients::Yes;
        let is_protected = self.admin_password.reveal().is_some() || needs_certificate;
        if self.admin_port == 0 || is_protected || !self.admin_bind.are_exposed() {
            return Ok(());
        }
        Err(format!(
            "admin-bind has an address that other machines may reach ({}). Set admin-password, or admin-tls yes with \
             tls-auth-clients yes, or use loopback addresses only.",
            self.admin_bind.0.join(" ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::{NoFiles, load_text};

    #[test]
    fn exposed_addresses_need_protection() {
        let check = |text: &str, is_accepted: bool| {
            let loaded = load_text(text.as_bytes(), &mut NoFiles);
            assert_eq!(loaded.is_ok(), is_accepted, "{text}");
            if let Err(error) = loaded {
                assert!(error.to_string().contains("admin-password"), "{error}");
            }
        };
        let exposed = "admin-port 8080\nadmin-bind 0.0.0.0\n";
        check("admin-port 8080", true);
        check("admin-bind *", true);
        check(exposed, false);
        check("admin-port 8080\nadmin-bind 127.0.0.1 *", false);
        check(&format!("{exposed}admin-password secret"), true);
        check(&format!("{exposed}admin-tls yes"), true);
        check(&format!("{exposed}admin-tls yes\ntls-auth-clients optional"), false);
    }
}
