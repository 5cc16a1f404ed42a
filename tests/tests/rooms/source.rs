use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The Rust files of one crate: their paths below its root, separated by `/`, and their texts.
#[derive(Debug, Default)]
pub(crate) struct CrateSource(BTreeMap<String, String>);

impl CrateSource {
    pub(crate) fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            {
                let path = entry.expect("a readable folder").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path
                        .strip_prefix(root)
                        .expect("the file is below the root")
                        .to_string_lossy()
                        .into_owned();
                    files.insert(name, fs::read_to_string(&path).expect("a readable file"));
                }
            }
        }
        assert!(!files.is_empty(), "{} has no Rust files", root.display());
        Self(files)
    }

    pub(crate) fn in_memory(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
