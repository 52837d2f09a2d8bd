//! Append-only files that move to another working directory with a rewrite.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};

use persist::disk::system::SystemDisk;
use persist::files::{AppendOnlyFiles, FilesError, Layout};
use persist::manifest::BaseFormat;

#[test]
fn a_move_keeps_the_former_lock_until_the_cut_and_splits_the_files_until_a_rewrite_succeeds() {
    let root = std::env::temp_dir().join(format!("broadloom-moving-{}", std::process::id()));
    let (former, other) = (root.join("former"), root.join("other"));
    fs::create_dir_all(&former).unwrap();
    fs::create_dir_all(&other).unwrap();
    let layout = Layout { parent: former.clone(), directory: "aof".into(), stem: b"a".to_vec() };
    let mut files = AppendOnlyFiles::open(SystemDisk, layout).unwrap();
    files.start().unwrap();
    files.finish_rewrite(files.create_base().unwrap(), BaseFormat::Rdb).unwrap();
    let is_locked = || File::open(former.join("aof/a.lock")).unwrap().try_lock().is_err();

    files.prepare_rewrite(other.clone()).unwrap();
    assert!(is_locked() && !files.is_split());
    files.begin_rewrite().unwrap();
    assert!(!is_locked() && files.is_split());
    files.abort_rewrite();
    assert!(files.is_split());
    files.prepare_rewrite(other).unwrap();
    files.begin_rewrite().unwrap();
    files.finish_rewrite(files.create_base().unwrap(), BaseFormat::Rdb).unwrap();
    assert!(!files.is_split());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_move_does_not_touch_the_files_of_another_data_set() {
    let root = std::env::temp_dir().join(format!("broadloom-moving-foreign-{}", std::process::id()));
    let own = root.join("own");
    fs::create_dir_all(&own).unwrap();
    let layout = |parent| Layout { parent, directory: "aof".into(), stem: b"a".to_vec() };
    let mut files = AppendOnlyFiles::open(SystemDisk, layout(own.clone())).unwrap();
    files.start().unwrap();
    files.finish_rewrite(files.create_base().unwrap(), BaseFormat::Rdb).unwrap();
    // A manifest; an increment whose manifest was lost.
    for name in ["a.manifest", "a.1.incr.aof"] {
        let other = root.join(name);
        fs::create_dir_all(other.join("aof")).unwrap();
        fs::write(other.join("aof").join(name), "theirs").unwrap();
        assert!(matches!(files.prepare_rewrite(other.clone()), Err(FilesError::Foreign(_))), "{name}");
        assert_eq!(fs::read(other.join("aof").join(name)).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(other.join("aof")).unwrap().count(), 1, "nothing was created");
    }
    // The rewrite goes on in the former directory, and a directory with other names is vacant.
    files.prepare_rewrite(own.clone()).unwrap();
    files.begin_rewrite().unwrap();
    files.finish_rewrite(files.create_base().unwrap(), BaseFormat::Rdb).unwrap();
    let vacant = root.join("vacant");
    fs::create_dir_all(vacant.join("aof")).unwrap();
    for name in ["a.lock", "ab.manifest"] {
        fs::write(vacant.join("aof").join(name), "").unwrap();
    }
    files.prepare_rewrite(vacant.clone()).unwrap();
    // Until the rewrite has succeeded, both directories have files of this data set.
    assert_eq!(files.homes(), [own.clone(), vacant.clone()]);
    files.begin_rewrite().unwrap();
    files.abort_rewrite();
    files.prepare_rewrite(own.clone()).unwrap();
    files.begin_rewrite().unwrap();
    files.finish_rewrite(files.create_base().unwrap(), BaseFormat::Rdb).unwrap();
    assert_eq!(files.homes(), [own]);
    fs::remove_dir_all(root).unwrap();
}
