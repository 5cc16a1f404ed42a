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

/// The README as a page, rendered by the build script.
pub(super) static DOCS: LazyLock<EmbeddedFile> =
    LazyLock::new(|| EmbeddedFile::new("text/html; charset=utf-8", DOCS_HTML.as_bytes()));

const DOCS_HTML: &str = include_str!(concat!(env!("OUT_DIR"), "/docs.html"));

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

    #[test]
    fn the_readme_is_a_page_of_its_own() {
        let page = DOCS_HTML;
        for section in ["guide", "operating", "growing", "reference"] {
            assert!(page.contains(&format!("<h2 id=\"{section}\">")), "the dashboard links to {section}");
            assert!(page.contains(&format!("<li><a href=\"#{section}\">")), "{section}");
        }
        // Check that the page contains nothing that the strict policy forbids or that would be loaded from
        // another server.
        for foreign in ["<script", "<style", "style=", "onerror", "src=\"http", "<!--"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("<td><code>encke_sessions</code></td>"), "the reference's tables are tables");
        let ids = page.matches(" id=\"").count();
        let links: Vec<_> = page.split(" href=\"").skip(1).map(|rest| rest.split('"').next()).collect();
        assert!(ids > 30 && links.len() > 60, "{ids}, {}", links.len());
        for link in links.into_iter().flatten() {
            let is_whole = ["http://", "https://", "/"].iter().any(|start| link.starts_with(start));
            let is_here = link.strip_prefix('#').is_some_and(|id| page.contains(&format!(" id=\"{id}\"")));
            assert!(is_whole || is_here, "{link}");
        }
    }
}
