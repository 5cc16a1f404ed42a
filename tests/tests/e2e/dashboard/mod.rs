//! The dashboard in Chromium: what it shows and which actions it performs.

mod access;
mod channels;
mod hostile;
mod outcomes;
mod overview;
mod pictures;
mod playground;
mod sessions;
mod sign_in;

use serde_json::{Value, json};

/// Returns the values of `key` in an array of objects, in order.
fn names(array: &Value, key: &str) -> Vec<String> {
    let array = array.as_array().expect("it is an array").iter();
    array.map(|item| item[key].as_str().unwrap_or("none").to_owned()).collect()
}

/// Returns the name in quotes, as in a selector for an attribute.
fn quoted(name: &str) -> String {
    json!(name).to_string()
}
