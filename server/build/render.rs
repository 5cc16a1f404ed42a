use std::collections::HashSet;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::anchors::Anchors;

/// A document rendered as HTML.
pub(super) struct RenderedDocument {
    pub(super) body: String,
    /// Second-level headings of the document.
    pub(super) sections: Vec<Section>,
}

/// Target and title of a heading.
pub(super) struct Section {
    pub(super) id: String,
    /// Title, as HTML.
    pub(super) title: String,
}

/// Renders a document for readers who may have neither the repository nor a network connection. Links to
/// anchors of the document and complete URLs are kept; links to other files become plain text. Images are
/// replaced by their descriptions. HTML is shown as text, and comments are removed.
pub(super) fn render(markdown: &str) -> RenderedDocument {
    let events: Vec<_> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
    let headings = headings(&events);
    let anchors: HashSet<_> = headings.iter().map(|heading| heading.id.as_str()).collect();
    let mut kept = EventFilter { anchors, links: Vec::new(), in_comment: false };
    let mut ids = headings.iter();
    let mut body = String::new();
    let events = events.iter().filter_map(|event| match event {
        Event::Start(Tag::Heading { level, .. }) => {
            let id = ids.next().map(|heading| CowStr::from(heading.id.as_str()));
            Some(Event::Start(Tag::Heading { level: *level, id, classes: Vec::new(), attrs: Vec::new() }))
        }
        event => kept.event(event),
    });
    html::push_html(&mut body, events);
    // Add a tab index to tables, so that wide tables can also be scrolled from the keyboard. This replaces
    // only tags, because `<table>` in text is escaped.
    let body = body.replace("<table>", "<table tabindex=\"0\">");
    let sections = headings.into_iter().filter(|heading| heading.level == HeadingLevel::H2);
    let sections = sections.map(|Heading { id, text, .. }| Section { id, title: escaped(text) });
    RenderedDocument { body, sections: sections.collect() }
}

struct Heading {
    level: HeadingLevel,
    id: String,
    text: String,
}

/// Returns all headings, in order.
fn headings(events: &[Event<'_>]) -> Vec<Heading> {
    let mut anchors = Anchors::default();
    let mut headings = Vec::new();
    let mut text = String::new();
    for event in events {
        match event {
            Event::Start(Tag::Heading { .. }) => text.clear(),
            Event::Text(part) | Event::Code(part) => text += part,
            Event::End(TagEnd::Heading(level)) => {
                let text = std::mem::take(&mut text);
                headings.push(Heading { level: *level, id: anchors.of(&text), text });
            }
            _ => {}
        }
    }
    headings
}

fn escaped(text: String) -> String {
    let mut title = String::new();
    html::push_html(&mut title, std::iter::once(Event::Text(text.into())));
    title
}

/// Filter for the events of a document.
struct EventFilter<'a> {
    anchors: HashSet<&'a str>,
    /// Whether to keep each of the open links.
    links: Vec<bool>,
    in_comment: bool,
}

impl EventFilter<'_> {
    fn event<'e>(&mut self, event: &Event<'e>) -> Option<Event<'e>> {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                let is_kept = self.is_resolvable(dest_url);
                self.links.push(is_kept);
                is_kept.then(|| event.clone())
            }
            Event::End(TagEnd::Link) => self.links.pop().unwrap_or_default().then(|| event.clone()),
            Event::Start(Tag::Image { .. }) => Some(Event::Start(Tag::Emphasis)),
            Event::End(TagEnd::Image) => Some(Event::End(TagEnd::Emphasis)),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => None,
            Event::Html(text) | Event::InlineHtml(text) => {
                self.in_comment |= text.trim_start().starts_with("<!--");
                let is_comment = self.in_comment;
                self.in_comment &= !text.contains("-->");
                (!is_comment).then(|| Event::Text(text.clone()))
            }
            event => Some(event.clone()),
        }
    }

    fn is_resolvable(&self, url: &str) -> bool {
        match url.strip_prefix('#') {
            Some(anchor) => self.anchors.contains(anchor),
            None => url.starts_with("https://") || url.starts_with("http://"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(markdown: &str) -> String {
        render(markdown).body
    }

    #[test]
    fn unresolvable_links_become_text() {
        for (markdown, expected) in [
            ("[a](tests/run)", "<p>a</p>\n"),
            ("[`a`](deploy/README.md#b)", "<p><code>a</code></p>\n"),
            ("[a](https://a.example)", "<p><a href=\"https://a.example\">a</a></p>\n"),
            (
                "<http://127.0.0.1:3000>",
                "<p><a href=\"http://127.0.0.1:3000\">http://127.0.0.1:3000</a></p>\n",
            ),
            ("[a](#b)", "<p>a</p>\n"),
            ("# B\n[a](#b)", "<h1 id=\"b\">B</h1>\n<p><a href=\"#b\">a</a></p>\n"),
            ("[a](javascript:alert(1))", "<p>a</p>\n"),
        ] {
            assert_eq!(body(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn images_become_their_descriptions() {
        assert_eq!(body("![it](a/other.png)"), "<p><em>it</em></p>\n");
        assert_eq!(body("![it](https://elsewhere.example/a.png)"), "<p><em>it</em></p>\n");
    }

    #[test]
    fn html_is_text_and_comments_are_nothing() {
        assert_eq!(body("<!-- a\nb -->\n\nc"), "<p>c</p>\n");
        assert_eq!(body("a <b onclick=x>c"), "<p>a &lt;b onclick=x&gt;c</p>\n");
        assert!(!body("<script>alert(1)</script>").contains("<script"));
    }

    #[test]
    fn tables_can_be_scrolled_by_keys() {
        let table = body("|a `<table>`|\n|-|\n|b|\n");
        assert!(table.starts_with("<table tabindex=\"0\"><thead>"), "{table}");
        assert!(table.contains("<code>&lt;table&gt;</code>"), "{table}");
    }

    #[test]
    fn sections_are_headings_of_the_second_level() {
        let rendered = render("# A\n## B & `c`\n### D\n## B & `c`\n");
        let sections: Vec<_> =
            rendered.sections.iter().map(|section| (&*section.id, &*section.title)).collect();
        assert_eq!(sections, [("b--c", "B &amp; c"), ("b--c-1", "B &amp; c")]);
    }
}
