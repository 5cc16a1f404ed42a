/// Returns `name` if it names a function, possibly within an object. It becomes part of a script, so nothing
/// else is accepted.
pub(super) fn validate(name: &str) -> Option<Box<str>> {
    const LONGEST: usize = 128;
    let is_identifier = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | '$'))
            && part.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '$'))
    };
    (name.len() <= LONGEST && name.split('.').all(is_identifier)).then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_function_names_are_accepted() {
        for name in ["cb", "_", "$", "dojo.io.script.jsonp_3._jsonpCallback", "a1"] {
            assert_eq!(validate(name).as_deref(), Some(name));
        }
        for name in ["", ".", "a.", "1a", "a b", "a(", "alert(1)//", "a[0]", "a\u{2028}", "é", "<script>"] {
            assert_eq!(validate(name), None, "{name}");
        }
        assert_eq!(validate(&"a".repeat(129)), None);
    }
}
