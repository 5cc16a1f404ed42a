//! The dashboard in Chromium (`tests/browser/dashboard.mjs`).

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::Script;
use crate::waiting::{eventually, until};

/// Page of the dashboard in its own browser, which is closed when this is dropped.
#[derive(Debug)]
pub struct Dashboard {
    script: Script,
    actions: usize,
}

impl Dashboard {
    /// Opens a page (such as `#/sessions`) of the dashboard that the admin listener at `admin` serves.
    pub fn open(admin: SocketAddr, place: &str) -> Self {
        let script = Script::start_in_browser("dashboard.mjs", &[&format!("http://{admin}")]);
        script.await_object("ready", 1);
        let mut dashboard = Self { script, actions: 0 };
        dashboard.perform("open", &json!([place]));
        dashboard
    }

    #[track_caller]
    pub fn perform(&mut self, kind: &str, arguments: &Value) -> Value {
        self.script.send_command(&json!({ kind: arguments }));
        self.actions += 1;
        let actions = self.actions;
        let done = eventually(format!("{kind} {arguments} completes"), || {
            let failed = self.script.values("failed");
            assert!(failed.is_empty(), "{failed:?} {}", self.script.stderr_text());
            self.script.values("done").get(actions - 1).cloned()
        });
        self.assert_no_fault();
        done
    }

    #[track_caller]
    pub fn assert_no_fault(&self) {
        let faults = self.script.values("fault");
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[track_caller]
    pub fn go(&mut self, place: &str) {
        self.perform("go", &json!([place]));
    }

    /// Returns the texts of all visible elements, in document order.
    #[track_caller]
    pub fn texts(&mut self, selector: &str) -> Vec<String> {
        serde_json::from_value(self.perform("texts", &json!([selector]))).expect("texts are strings")
    }

    /// Returns the text of the first visible element.
    #[track_caller]
    pub fn text(&mut self, selector: &str) -> Option<String> {
        self.texts(selector).into_iter().next()
    }

    /// Returns the number of elements, visible or not.
    #[track_caller]
    pub fn count(&mut self, selector: &str) -> u64 {
        self.perform("count", &json!([selector])).as_u64().expect("a count is a number")
    }

    #[track_caller]
    pub fn await_text(&mut self, selector: &str, text: &str) {
        until(format!("{selector} has the text {text}"), || self.text(selector).as_deref() == Some(text));
    }

    #[track_caller]
    pub fn await_texts(&mut self, selector: &str, texts: &[&str]) {
        until(format!("{selector} has the texts {texts:?}"), || self.texts(selector) == texts);
    }

    #[track_caller]
    pub fn await_visible(&mut self, selector: &str) {
        until(format!("{selector} is visible"), || !self.texts(selector).is_empty());
    }

    /// Returns the number in the page's element with this `data-name`.
    #[track_caller]
    pub fn number(&mut self, name: &str) -> Option<u64> {
        self.text(&format!("[data-name=\"{name}\"]"))?.replace(',', "").parse().ok()
    }

    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        self.perform("click", &json!([selector]));
    }

    #[track_caller]
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.perform("fill", &json!([selector, text]));
    }

    #[track_caller]
    pub fn press(&mut self, key: &str) {
        self.perform("press", &json!([key]));
    }

    /// Presses Tab until the focused element has this text.
    #[track_caller]
    pub fn tab_to(&mut self, text: &str) {
        for _ in 0..60 {
            self.press("Tab");
            if self.focused() == text {
                return;
            }
        }
        panic!("{text} cannot be reached with the keyboard");
    }

    /// Returns the text of the focused element, or its id.
    #[track_caller]
    pub fn focused(&mut self) -> String {
        self.perform("focused", &json!([])).as_str().unwrap_or_default().to_owned()
    }

    /// Returns the URLs of the WebSockets that the page has opened.
    pub fn sockets(&self) -> Vec<String> {
        let sockets = self.script.values("socket").into_iter();
        sockets.map(|socket| socket.as_str().unwrap_or_default().to_owned()).collect()
    }
}
