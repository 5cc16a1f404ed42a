use std::collections::HashMap;
use std::sync::LazyLock;

use crate::http::EmbeddedFile;

/// Name of the dashboard's HTML page, which is served at `/`.
pub(super) const INDEX: &str = "index.html";

/// Name of the document that is served at `/docs`.
pub(super) const DOCUMENT_INDEX: &str = "index";

/// The documents as pages, by their names, as packed by the build script.
static DOCUMENTS: LazyLock<HashMap<&str, EmbeddedFile>> = LazyLock::new(|| {
    let page = |(name, text): (_, &'static str)| (name, EmbeddedFile::new(HTML, text.as_bytes()));
    unpacked(include_str!(concat!(env!("OUT_DIR"), "/documents"))).map(page).collect()
});

const HTML: &str = "text/html; charset=utf-8";

/// The page with its scripts, styles and images, as packed by the build script.
static FILES: LazyLock<HashMap<&str, EmbeddedFile>> = LazyLock::new(|| {
    let file = |(name, content): (_, &'static str)| {
        (name, EmbeddedFile::new(content_type(name).expect("its kind is known"), content.as_bytes()))
    };
    unpacked(include_str!(concat!(env!("OUT_DIR"), "/dashboard"))).map(file).collect()
});

fn unpacked(files: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = files.split('\0').skip(1);
    files.map(|file| file.split_once('\n').expect("the build script writes a line break"))
}

pub(super) fn find(name: &str) -> Option<&'static EmbeddedFile> {
    FILES.get(name)
}

/// Returns a page of the documents, such as `guides/webhooks`.
pub(super) fn find_document(name: &str) -> Option<&'static EmbeddedFile> {
    DOCUMENTS.get(name)
}

fn content_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some(HTML),
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
    fn documents_have_no_dead_links_and_load_nothing_from_elsewhere() {
        let pages: HashMap<_, _> = unpacked(include_str!(concat!(env!("OUT_DIR"), "/documents"))).collect();
        assert!(pages.len() > 30, "{}", pages.len());
        let has_id = |page: &str, id: &str| page.contains(&format!(" id=\"{id}\""));
        for (name, page) in &pages {
            // Check that the page contains nothing that the strict policy forbids.
            for foreign in ["<script", "<style", "style=", "onerror", "src=\"http", "<!--"] {
                assert!(!page.contains(foreign), "{name}: {foreign}");
            }
            for link in page.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                if ["http://", "https://", "/dashboard/"].iter().any(|start| link.starts_with(start))
                    || link == "/"
                {
                    continue;
                }
                let (path, anchor) = link.split_once('#').map_or((link, None), |(path, it)| (path, Some(it)));
                let target = match path {
                    "" => Some(page),
                    "/docs" => pages.get("index"),
                    path => path.strip_prefix("/docs/").and_then(|path| pages.get(path)),
                };
                let target = target.unwrap_or_else(|| panic!("{name}: {link}"));
                assert!(anchor.is_none_or(|anchor| has_id(target, anchor)), "{name}: {link}");
            }
        }
        assert!(pages["reference/metrics"].contains("<td><code>encke_sessions</code></td>"));
        // Links to the former single page, such as `/docs#permissions`, lead to entries of the index.
        for old in ["guide", "permissions", "restarts", "several-servers-one-redis", "close-codes"] {
            assert!(has_id(pages["index"], old), "{old}");
        }
    }
}
