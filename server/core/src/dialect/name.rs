use strum::IntoStaticStr;

/// The existing dialects, with their names in metrics and in the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DialectName {
    /// [`super::json::Json`].
    Json,
    /// [`super::bayeux::Bayeux`].
    Bayeux,
}
