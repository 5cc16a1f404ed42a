//! `GET /docs`: a page with the README, which is embedded in the binary. The page is rendered when it is
//! first requested.

mod anchors;
mod render;

use std::sync::LazyLock;

use crate::http::EmbeddedFile;
use render::{RenderedDocument, render};

const README: &str = include_str!("../../../../README.md");

/// The rendered page, kept until the process exits.
pub(super) static PAGE: LazyLock<EmbeddedFile> =
    LazyLock::new(|| EmbeddedFile::new("text/html; charset=utf-8", page(README).into_bytes().leak()));

fn page(markdown: &str) -> String {
    let RenderedDocument { body, sections } = render(markdown);
    let sections = sections.iter().map(|section| {
        let (id, title) = (&section.id, &section.title);
        format!("          <li><a href=\"#{id}\">{title}</a></li>\n")
    });
    let sections: String = sections.collect();
    format!(
        r##"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>Encke documentation</title>
    <link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/dashboard/style.css">
    <link rel="stylesheet" href="/dashboard/docs.css">
  </head>
  <body>
    <a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <a class="brand" href="/"><img src="/dashboard/icon.svg" alt="" width="26" height="26"> Encke</a>
    </header>
    <div class="documents">
      <nav aria-label="Sections">
        <ul>
{sections}        </ul>
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
    fn the_readme_is_a_page_of_its_own() {
        let page = page(README);
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
