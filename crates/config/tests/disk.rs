//! Reading and replacing files in the real file system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use config::Files;
use config::disk::{Disk, replace_file};

/// A directory of one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("broadloom-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("the temporary directory is writable");
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn patterns_find_files_in_order() {
    let directory = Directory::new("patterns");
    for name in ["b.conf", "a.conf", ".hidden.conf", "a.txt"] {
        directory.write(name, "");
    }
    let found = Disk.matching(&directory.path("*.conf")).unwrap();
    assert_eq!(found, [directory.path("a.conf"), directory.path("b.conf")]);
    let pattern = format!("{}*/?.txt", directory.0.to_string_lossy());
    assert_eq!(Disk.matching(&pattern).unwrap(), [directory.path("a.txt")]);
    assert_eq!(Disk.matching(&directory.path("none*/x.conf")).unwrap(), Vec::<String>::new());
}

#[test]
fn includes_are_read() {
    let directory = Directory::new("includes");
    directory.write("one.conf", "port 1");
    directory.write("two.conf", "timeout 2");
    let text = format!("include {}", directory.path("*.conf"));
    let config = config::load_text(text.as_bytes(), &mut Disk).unwrap().config;
    assert_eq!((config.port, config.timeout), (1, 2));
}

#[test]
fn replacing_leaves_one_file_with_the_old_permissions() {
    let directory = Directory::new("replace");
    directory.write("a.conf", "old");
    let path = directory.0.join("a.conf");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    replace_file(&path, b"new").unwrap();

    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
    assert!(replace_file(&directory.0.join("none/a.conf"), b"new").is_err());
}
