use std::collections::HashMap;
use std::sync::LazyLock;

use crate::http::EmbeddedFile;

/// Name of the dashboard's HTML page, which is served at `/`.
pub(super) const INDEX: &str = "index.html";

/// The README as a page, rendered by the build script.
pub(super) static DOCS: LazyLock<EmbeddedFile> =
    LazyLock::new(|| EmbeddedFile::new("text/html; charset=utf-8", DOCS_HTML.as_bytes()));

const DOCS_HTML: &str = include_str!(concat!(env!("OUT_DIR"), "/docs.html"));

/// The page with its scripts, styles and images, as packed by the build script.
static FILES: LazyLock<HashMap<&str, EmbeddedFile>> = LazyLock::new(|| {
    let files = include_str!(concat!(env!("OUT_DIR"), "/dashboard")).split('\0').skip(1);
    let file = |file: &'static str| {
        let (name, content) = file.split_once('\n').expect("the build script writes a line break");
        (name, EmbeddedFile::new(content_type(name).expect("its kind is known"), content.as_bytes()))
    };
    files.map(file).collect()
});

pub(super) fn find(name: &str) -> Option<&'static EmbeddedFile> {
    FILES.get(name)
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
    use super::*;

    #[test]
    fn every_file_has_a_known_kind() {
        assert!(["index.html", "main.js", "docs.css", "icon.svg"].iter().all(|name| find(name).is_some()));
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
