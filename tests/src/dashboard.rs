//! The dashboard in Chromium (`tests/browser/dashboard.mjs`).

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::Script;
use crate::waiting::{eventually, until};

/// One page of the dashboard, in a browser of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct Dashboard {
    script: Script,
    /// How often it was told to do something.
    actions: usize,
}

impl Dashboard {
    /// Opens what the admin listener at `admin` serves, at this place (`#/sessions`).
    #[must_use]
    #[track_caller]
    pub fn open(admin: SocketAddr, place: &str) -> Self {
        let script = Script::start("dashboard.mjs", &[&format!("http://{admin}")]);
        script.await_object("ready", 1);
        let mut dashboard = Self { script, actions: 0 };
        dashboard.perform("open", &json!([place]));
        dashboard
    }

    /// Does one of the things that the script can do: what comes of it.
    ///
    /// # Panics
    /// When it cannot be done.
    #[track_caller]
    pub fn perform(&mut self, kind: &str, arguments: &Value) -> Value {
        self.script.tell(&json!({ kind: arguments }));
        self.actions += 1;
        let told = self.actions;
        let done = eventually(format!("{kind} {arguments} is done"), || {
            let failed = self.script.heard("failed");
            assert!(failed.is_empty(), "{failed:?} {}", self.script.complaints());
            self.script.heard("done").get(told - 1).cloned()
        });
        self.assert_no_fault();
        done
    }

    /// Nothing has happened that no dashboard may do.
    ///
    /// # Panics
    /// When it has.
    #[track_caller]
    pub fn assert_no_fault(&self) {
        let faults = self.script.heard("fault");
        assert!(faults.is_empty(), "{faults:?}");
    }

    /// To another page, as by a link.
    #[track_caller]
    pub fn go(&mut self, place: &str) {
        self.perform("go", &json!([place]));
    }

    /// The texts of all elements that can be seen, in the order of the page.
    #[must_use]
    #[track_caller]
    pub fn texts(&mut self, selector: &str) -> Vec<String> {
        serde_json::from_value(self.perform("texts", &json!([selector]))).expect("texts are strings")
    }

    /// The text of the first that can be seen.
    #[must_use]
    #[track_caller]
    pub fn text(&mut self, selector: &str) -> Option<String> {
        self.texts(selector).into_iter().next()
    }

    /// How many there are, seen or not.
    #[must_use]
    #[track_caller]
    pub fn count(&mut self, selector: &str) -> u64 {
        self.perform("count", &json!([selector])).as_u64().expect("a count is a number")
    }

    /// Waits until the first that can be seen says this.
    #[track_caller]
    pub fn await_text(&mut self, selector: &str, text: &str) {
        until(format!("{selector} says {text}"), || self.text(selector).as_deref() == Some(text));
    }

    /// Waits until the texts of these are those, in this order.
    #[track_caller]
    pub fn await_texts(&mut self, selector: &str, texts: &[&str]) {
        until(format!("{selector} say {texts:?}"), || self.texts(selector) == texts);
    }

    /// Waits until one of them can be seen.
    #[track_caller]
    pub fn await_visible(&mut self, selector: &str) {
        until(format!("{selector} can be seen"), || !self.texts(selector).is_empty());
    }

    /// The number that the page shows by this name.
    #[must_use]
    #[track_caller]
    pub fn number(&mut self, name: &str) -> Option<u64> {
        self.text(&format!("[data-name=\"{name}\"]"))?.replace(',', "").parse().ok()
    }

    /// Clicks on the first.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        self.perform("click", &json!([selector]));
    }

    /// Writes into a field.
    #[track_caller]
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.perform("fill", &json!([selector, text]));
    }

    /// Presses a key.
    #[track_caller]
    pub fn press(&mut self, key: &str) {
        self.perform("press", &json!([key]));
    }

    /// Presses Tab until what has the focus says this.
    ///
    /// # Panics
    /// When the keyboard does not lead there.
    #[track_caller]
    pub fn tab_to(&mut self, text: &str) {
        for _ in 0..60 {
            self.press("Tab");
            if self.focused() == text {
                return;
            }
        }
        panic!("no way leads to {text}");
    }

    /// The text of what has the focus, or its id.
    #[must_use]
    #[track_caller]
    pub fn focused(&mut self) -> String {
        self.perform("focused", &json!([])).as_str().unwrap_or_default().to_owned()
    }

    /// The addresses of the WebSockets that it has opened.
    #[must_use]
    pub fn sockets(&self) -> Vec<String> {
        let sockets = self.script.heard("socket").into_iter();
        sockets.map(|socket| socket.as_str().unwrap_or_default().to_owned()).collect()
    }
}
