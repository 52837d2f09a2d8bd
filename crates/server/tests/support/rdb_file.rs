//! RDB files for tests, written from the payloads of `DUMP`.

use rdb::{Checksum, Version};

use super::Client;

/// The bytes of a file without its end.
pub struct RdbFile {
    bytes: Vec<u8>,
}

impl RdbFile {
    /// A file of this version, without keys.
    pub fn new(version: Version) -> Self {
        Self { bytes: version.header() }
    }

    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.bytes.push(250);
        self.string(name.as_bytes());
        self.string(value.as_bytes());
        self
    }

    /// Adds all keys of a server, with their expiries.
    pub fn all_keys(mut self, client: &mut Client) -> Self {
        for db in 0..16 {
            assert_eq!(client.text(&["SELECT", &db.to_string()]), "OK");
            let mut names: Vec<String> = client.text(&["KEYS", "*"]).lines().map(str::to_owned).collect();
            names.sort();
            if !names.is_empty() {
                self = self.select(db);
            }
            for name in names {
                let expiry: i64 = client.text(&["PEXPIRETIME", &name]).parse().unwrap();
                let payload = client.bytes(&["DUMP", &name]);
                self = self.key(&name, (expiry >= 0).then_some(expiry), &payload);
            }
        }
        assert_eq!(client.text(&["SELECT", "0"]), "OK");
        self
    }

    pub fn select(mut self, db: u8) -> Self {
        self.bytes.extend([254, db]);
        self
    }

    /// Adds a key with the value of a payload.
    pub fn key(mut self, name: &str, expiry: Option<i64>, payload: &[u8]) -> Self {
        if let Some(at) = expiry {
            self.bytes.push(252);
            self.bytes.extend(at.to_le_bytes());
        }
        self.bytes.push(payload[0]);
        self.string(name.as_bytes());
        self.bytes.extend(&payload[1..payload.len() - 10]);
        self
    }

    /// Adds bytes as they are.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// The whole file, with its checksum.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(255);
        let mut checksum = Checksum::new();
        checksum.update(&self.bytes);
        self.bytes.extend(checksum.value().to_le_bytes());
        self.bytes
    }

    fn string(&mut self, text: &[u8]) {
        assert!(text.len() < 64, "names in tests are short");
        self.bytes.push(text.len() as u8);
        self.bytes.extend(text);
    }
}
