//! The documents: Markdown files in folders. Each becomes an HTML page with a navigation list.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::render::{RenderedDocument, heading_anchors, render};

/// Folders of the documents in the order of the navigation, with their titles.
const PARTS: [(&str, &str); 6] = [
    ("concepts", "Concepts"),
    ("guides", "Guides"),
    ("operations", "Operations"),
    ("reference", "Reference"),
    ("evidence", "Evidence"),
    ("decisions", "Decisions"),
];

/// Part of which the navigation lists only the index.
const INDEXED_PART: &str = "decisions";

/// Name of the document that is served at `/docs`.
const INDEX: &str = "index";

/// All documents by their names, such as `guides/webhooks`.
pub(super) struct Documents(BTreeMap<String, String>);

impl Documents {
    /// Reads the Markdown files of the folder and of its [`PARTS`].
    pub(super) fn read(folder: &Path) -> Self {
        let mut documents = BTreeMap::new();
        for part in std::iter::once("").chain(PARTS.map(|(name, _)| name)) {
            let Ok(entries) = fs::read_dir(folder.join(part)) else { continue };
            for path in entries.map(|entry| entry.expect("the folder is readable").path()) {
                if path.extension().is_some_and(|it| it == "md") {
                    let stem = path.file_stem().unwrap_or_default().display();
                    let name = if part.is_empty() { stem.to_string() } else { format!("{part}/{stem}") };
                    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
                    documents.insert(name, text);
                }
            }
        }
        Self(documents)
    }

    /// Renders all documents as HTML pages, by their names.
    pub(super) fn pages(&self) -> Vec<(String, String)> {
        let anchors: BTreeMap<_, _> =
            self.0.iter().map(|(name, text)| (&**name, heading_anchors(text))).collect();
        let target_of = |from: &str, url: &str| {
            let (document, anchor) = resolve(from, url)?;
            let (path, anchors) = (path_of(&document), anchors.get(&*document)?);
            match anchor {
                None => Some(path),
                Some(anchor) => anchors.iter().any(|it| it == anchor).then(|| format!("{path}#{anchor}")),
            }
        };
        let rendered = |(name, text): (&String, &String)| {
            (name.clone(), render(text, name == INDEX, |url| target_of(name, url)))
        };
        let rendered: BTreeMap<_, _> = self.0.iter().map(rendered).collect();
        let page = |(name, document): (&String, &RenderedDocument)| {
            (name.clone(), html_page(document, &navigation(&rendered, name)))
        };
        rendered.iter().map(page).collect()
    }
}

/// Returns the navigation list: the documents by part, with the sections of the current document.
fn navigation(documents: &BTreeMap<String, RenderedDocument>, current: &str) -> String {
    let mut list = String::new();
    for (part, title) in PARTS {
        let mut entries = String::new();
        let (prefix, index) = (format!("{part}/"), format!("{part}/{INDEX}"));
        let is_listed = |name: &String| name.starts_with(&prefix) && (part != INDEXED_PART || *name == index);
        for (name, document) in documents.iter().filter(|(name, _)| is_listed(name)) {
            let (path, title) = (path_of(name), &document.title);
            let (mark, sections) = match name == current {
                true => (" aria-current=\"page\"", sections_of(document)),
                false => ("", String::new()),
            };
            entries += &format!("<li><a href=\"{path}\"{mark}>{title}</a>{sections}</li>\n");
        }
        if !entries.is_empty() {
            list += &format!("<li>{title}\n<ul>\n{entries}</ul></li>\n");
        }
    }
    list
}

fn sections_of(rendered: &RenderedDocument) -> String {
    let sections = rendered.sections.iter();
    let sections: String =
        sections.map(|it| format!("<li><a href=\"#{}\">{}</a></li>\n", it.id, it.title)).collect();
    if sections.is_empty() { sections } else { format!("\n<ul>\n{sections}</ul>") }
}

/// Path at which a document is served.
fn path_of(name: &str) -> String {
    if name == INDEX { "/docs".to_owned() } else { format!("/docs/{name}") }
}

/// Resolves a relative link in the document `from` to the name of a document, which may not exist, and an anchor.
/// `None` if the link is not to a Markdown file below the folder of the documents.
fn resolve<'a>(from: &str, url: &'a str) -> Option<(String, Option<&'a str>)> {
    let (path, anchor) = url.split_once('#').map_or((url, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() {
        return Some((from.to_owned(), anchor));
    }
    let mut names: Vec<_> = from.split('/').collect();
    names.pop();
    for name in path.strip_suffix(".md")?.split('/') {
        match name {
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some((names.join("/"), anchor))
}

fn html_page(RenderedDocument { title, body, .. }: &RenderedDocument, navigation: &str) -> String {
    format!(
        r##"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>{title} - Encke</title>
    <link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/dashboard/style.css">
    <link rel="stylesheet" href="/dashboard/docs.css">
  </head>
  <body>
    <a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <a class="brand" href="/"><img src="/dashboard/icon.svg" alt="" width="26" height="26"> Encke</a>
      <a href="/docs">Documents</a>
    </header>
    <div class="documents">
      <nav aria-label="Documents">
        <ul>
{navigation}        </ul>
      </nav>
      <main id="main" class="prose" tabindex="-1">
{body}      </main>
    </div>
  </body>
</html>
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_lead_to_documents() {
        for (from, url, expected) in [
            ("guides/chat", "webhooks.md", Some(("guides/webhooks", None))),
            ("guides/chat", "../operations/restarts.md#a", Some(("operations/restarts", Some("a")))),
            ("guides/chat", "#b", Some(("guides/chat", Some("b")))),
            ("index", "guides/chat.md", Some(("guides/chat", None))),
            ("guides/chat", "../../../README.md", None),
            ("guides/chat", "../../tests/run", None),
            ("index", "https://host.example", None),
        ] {
            let expected = expected.map(|(name, anchor)| (name.to_owned(), anchor));
            assert_eq!(resolve(from, url), expected, "{from}: {url}");
        }
    }

    #[test]
    fn pages_have_links_to_all_documents() {
        let texts = [("index", "# Map\n[Chat](guides/chat.md)"), ("guides/chat", "# Chat\n## Send & get\n")];
        let documents = Documents(texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        let pages: BTreeMap<_, _> = documents.pages().into_iter().collect();
        let chat = r##"<li><a href="/docs/guides/chat" aria-current="page">Chat</a>
<ul>
<li><a href="#send--get">Send &amp; get</a></li>
</ul></li>"##;
        assert!(pages["guides/chat"].contains(chat), "{}", pages["guides/chat"]);
        assert!(pages["index"].contains(r#"<li><a href="/docs/guides/chat">Chat</a></li>"#));
        let old_anchor = r#"<a id="chat" href="/docs/guides/chat">Chat</a>"#;
        assert!(pages["index"].contains(old_anchor), "{}", pages["index"]);
    }
}
