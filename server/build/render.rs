use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::anchors::Anchors;

/// A document rendered as HTML.
pub(super) struct RenderedDocument {
    /// Title, as HTML.
    pub(super) title: String,
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

/// Renders a document for readers who may have neither the repository nor a network connection. Complete URLs are
/// kept; other links lead to the URL that `target` returns, or become plain text. Images are replaced by their
/// descriptions.
/// HTML is shown as text, and comments are removed.
///
/// With `names_links`, each link to a document gets the anchor that a heading with its text would have: links to
/// sections of the former single page then lead to entries of the index.
pub(super) fn render(
    markdown: &str,
    names_links: bool,
    target: impl Fn(&str) -> Option<String>,
) -> RenderedDocument {
    let events = events(markdown);
    let headings = headings(&events);
    let mut kept = EventFilter {
        target,
        link_anchors: names_links.then(Anchors::default),
        links: Vec::new(),
        in_comment: false,
    };
    let mut ids = headings.iter();
    let mut body = String::new();
    let events = events.iter().enumerate().filter_map(|(index, event)| match event {
        Event::Start(Tag::Heading { level, .. }) => {
            let id = ids.next().map(|heading| CowStr::from(heading.id.as_str()));
            Some(Event::Start(Tag::Heading { level: *level, id, classes: Vec::new(), attrs: Vec::new() }))
        }
        event => kept.event(event, &events[index + 1..]),
    });
    html::push_html(&mut body, events);
    // Add a tab index to tables and diagrams, so that wide ones can also be scrolled from the keyboard. This replaces
    // only tags, because `<table>` in text is escaped.
    let body = body.replace("<table>", "<table tabindex=\"0\">");
    let body =
        body.replace("<pre><code class=\"language-text\">", "<pre class=\"diagram\" tabindex=\"0\"><code>");
    let title = headings.first().map(|heading| escaped(&heading.text)).unwrap_or_default();
    let sections = headings.into_iter().filter(|heading| heading.level == HeadingLevel::H2);
    let sections = sections.map(|Heading { id, text, .. }| Section { id, title: escaped(&text) });
    RenderedDocument { title, body, sections: sections.collect() }
}

/// Returns the anchors of all headings.
pub(super) fn heading_anchors(markdown: &str) -> Vec<String> {
    headings(&events(markdown)).into_iter().map(|heading| heading.id).collect()
}

fn events(markdown: &str) -> Vec<Event<'_>> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES).collect()
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

fn escaped(text: &str) -> String {
    let mut title = String::new();
    html::push_html(&mut title, std::iter::once(Event::Text(text.into())));
    title
}

/// Filter for the events of a document.
struct EventFilter<F> {
    target: F,
    /// Generates anchors for links. `None` if links get no anchors.
    link_anchors: Option<Anchors>,
    /// Closing event of each open link. `None` if only the link's text is kept.
    links: Vec<Option<Event<'static>>>,
    in_comment: bool,
}

impl<F: Fn(&str) -> Option<String>> EventFilter<F> {
    /// Converts an event, or returns `None` to drop it. `rest` contains the events that follow.
    fn event<'e>(&mut self, event: &Event<'e>, rest: &[Event<'e>]) -> Option<Event<'e>> {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                let start = self.start_link(event, dest_url, rest);
                let end = match &start {
                    Some(Event::InlineHtml(_)) => Some(Event::InlineHtml("</a>".into())),
                    Some(_) => Some(Event::End(TagEnd::Link)),
                    None => None,
                };
                self.links.push(end);
                start
            }
            Event::End(TagEnd::Link) => self.links.pop().flatten(),
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

    fn start_link<'e>(&mut self, event: &Event<'e>, url: &str, rest: &[Event<'e>]) -> Option<Event<'e>> {
        if url.starts_with("https://") || url.starts_with("http://") {
            return Some(event.clone());
        }
        let url = escaped(&(self.target)(url)?);
        let id = self.link_anchors.as_mut().map(|anchors| {
            let inside = rest.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Link)));
            let text = inside.filter_map(|event| match event {
                Event::Text(part) | Event::Code(part) => Some(&**part),
                _ => None,
            });
            format!(" id=\"{}\"", anchors.of(&text.collect::<String>()))
        });
        Some(Event::InlineHtml(format!("<a{} href=\"{url}\">", id.unwrap_or_default()).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(markdown: &str) -> String {
        let target = |url: &str| (url == "b.md#c").then(|| "/docs/b#c".to_owned());
        render(markdown, false, target).body
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
            ("[a](b.md#c)", "<p><a href=\"/docs/b#c\">a</a></p>\n"),
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
    fn tables_and_diagrams_can_be_scrolled_by_keys() {
        let table = body("|a `<table>`|\n|-|\n|b|\n");
        assert!(table.starts_with("<table tabindex=\"0\"><thead>"), "{table}");
        assert!(table.contains("<code>&lt;table&gt;</code>"), "{table}");
        let diagram = body("```text\na ──▶ b\n```\n");
        assert_eq!(diagram, "<pre class=\"diagram\" tabindex=\"0\"><code>a ──▶ b\n</code></pre>\n");
    }

    #[test]
    fn sections_are_headings_of_the_second_level() {
        let rendered = render("# A\n## B & `c`\n### D\n## B & `c`\n", false, |_| None);
        let sections: Vec<_> =
            rendered.sections.iter().map(|section| (&*section.id, &*section.title)).collect();
        assert_eq!(sections, [("b--c", "B &amp; c"), ("b--c-1", "B &amp; c")]);
    }
}
