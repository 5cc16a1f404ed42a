//! Runs every target on its corpus, as a regression test.

use std::fs;
use std::path::Path;

fn run_corpus(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable directory entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", corpus.display());
    for file in files {
        println!("{}", file.display());
        crate::run_files(target, [file]);
    }
}

macro_rules! corpora {
    ($($target:ident)*) => {$(
        #[test]
        fn $target() {
            run_corpus(stringify!($target), crate::$target::run);
        }
    )*};
}

corpora! { bayeux config frames headers http json jwt proxies snapshot tokens }
