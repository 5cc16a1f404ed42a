use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The layers of one crate, from the lowest to the highest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomOrder {
    /// Name by which other crates, such as the binary of the same package, import the library.
    pub(crate) name: String,
    /// The directory of `lib.rs` or `main.rs`, relative to the root of the repository.
    pub(crate) root: String,
    floors: Vec<Floor>,
}

/// A layer: one module, or several that may not import each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Floor {
    Room(String),
    Beside(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoomOrders {
    #[serde(rename = "crate")]
    crates: Vec<RoomOrder>,
}

impl RoomOrder {
    pub(crate) fn read(path: &Path) -> Vec<Self> {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Vec<Self> {
        let orders: RoomOrders =
            toml::from_str(text).unwrap_or_else(|error| panic!("invalid list of modules: {error}"));
        orders.crates
    }

    /// Returns each listed module with its layer. Panics if a module is listed twice.
    pub(crate) fn rooms(&self) -> BTreeMap<&str, usize> {
        let mut rooms = BTreeMap::new();
        for (height, floor) in self.floors.iter().enumerate() {
            let here = match floor {
                Floor::Room(room) => std::slice::from_ref(room),
                Floor::Beside(rooms) => rooms,
            };
            for room in here {
                let before = rooms.insert(room.as_str(), height);
                assert!(before.is_none(), "{} lists the module {room} twice", self.name);
            }
        }
        rooms
    }
}

/// Returns the listed module to which a file or a Rust module belongs: the longest one that is a prefix of its
/// path.
pub(crate) fn room_of<'a>(rooms: &BTreeMap<&'a str, usize>, mut path: &str) -> Option<&'a str> {
    loop {
        if let Some((room, _)) = rooms.get_key_value(path) {
            return Some(room);
        }
        path = path.rsplit_once('/')?.0;
    }
}
