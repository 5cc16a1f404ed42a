use std::sync::LazyLock;

use crate::http::EmbeddedFile;

/// A file and its name under `/dashboard/`.
type NamedFile = (&'static str, EmbeddedFile);

macro_rules! file {
    ($name:literal) => {
        EmbeddedFile::new(
            content_type($name).expect("its kind is known"),
            include_bytes!(concat!("../../../dashboard/", $name)),
        )
    };
}

macro_rules! files {
    ($($name:literal)*) => { vec![$(($name, file!($name))),*] };
}

/// The dashboard's HTML page.
pub(super) static INDEX: LazyLock<EmbeddedFile> = LazyLock::new(|| file!("index.html"));

/// The scripts, styles and images of the page.
static FILES: LazyLock<Vec<NamedFile>> = LazyLock::new(|| {
    files! {
        "api.js"
        "exact_json.js"
        "confirm_dialog.js"
        "channel.js"
        "channels.js"
        "chart.js"
        "command_form.js"
        "deadlines.js"
        "docs.css"
        "dom.js"
        "flashes.js"
        "format.js"
        "frames.js"
        "icon.svg"
        "level_bars.js"
        "limits.js"
        "live.js"
        "long_text.js"
        "main.js"
        "failure_text.js"
        "overview.js"
        "panels.js"
        "phase.js"
        "player.js"
        "playground.js"
        "publish_form.js"
        "route.js"
        "series.js"
        "session.js"
        "sessions.js"
        "sign_in.js"
        "style.css"
        "tiles.js"
        "timeline.js"
        "wheel.js"
        "wheel_card.js"
    }
});

pub(super) fn find(name: &str) -> Option<&'static EmbeddedFile> {
    FILES.iter().find(|(named, _)| *named == name).map(|(_, file)| file)
}

fn content_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Excludes subdirectories, which contain pictures for the README.
    #[test]
    fn every_file_of_the_folder_is_in_the_binary() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboard");
        let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry"));
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let names: BTreeSet<_> = files.map(|file| file.file_name().into_string().expect("UTF-8")).collect();
        let listed = FILES.iter().map(|(name, _)| (*name).to_owned()).chain(["index.html".to_owned()]);
        assert_eq!(listed.collect::<BTreeSet<_>>(), names);
        LazyLock::force(&INDEX);
    }
}
