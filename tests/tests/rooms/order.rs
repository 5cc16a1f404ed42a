use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The rooms of one crate, from the ground up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// As other crates write it: the binary of a package names the library so.
    pub(crate) name: String,
    /// The folder of `lib.rs` or `main.rs`, from the top of the repository.
    pub(crate) root: String,
    pub(crate) floors: Vec<Floor>,
}

/// One room, or several beside each other, of which none may import another.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Floor {
    Room(String),
    Beside(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Orders {
    #[serde(rename = "crate")]
    crates: Vec<Order>,
}

impl Order {
    pub(crate) fn read(path: &Path) -> Vec<Self> {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Vec<Self> {
        toml::from_str::<Orders>(text).unwrap_or_else(|error| panic!("the order of rooms: {error}")).crates
    }

    /// Each listed room with its floor. A room that is listed twice is a fault of the list.
    pub(crate) fn rooms(&self) -> BTreeMap<&str, usize> {
        let mut rooms = BTreeMap::new();
        for (height, floor) in self.floors.iter().enumerate() {
            let here = match floor {
                Floor::Room(room) => std::slice::from_ref(room),
                Floor::Beside(rooms) => rooms,
            };
            for room in here {
                let before = rooms.insert(room.as_str(), height);
                assert!(before.is_none(), "{} lists the room {room} twice", self.name);
            }
        }
        rooms
    }
}

/// The listed room that a file belongs to: the longest one that its path begins with.
pub(crate) fn room_of<'a>(rooms: &BTreeMap<&'a str, usize>, file: &str) -> Option<&'a str> {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let mut path = path.strip_suffix("/mod").unwrap_or(path);
    loop {
        if let Some((room, _)) = rooms.get_key_value(path) {
            return Some(room);
        }
        path = path.rsplit_once('/')?.0;
    }
}
