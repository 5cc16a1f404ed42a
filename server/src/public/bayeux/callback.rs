/// The name of a function of the page, perhaps within an object: it is going to be a part of a script.
pub(super) fn checked(name: &str) -> Option<Box<str>> {
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
    fn only_names_of_functions_are_taken() {
        for name in ["cb", "_", "$", "dojo.io.script.jsonp_3._jsonpCallback", "a1"] {
            assert_eq!(checked(name).as_deref(), Some(name));
        }
        for name in ["", ".", "a.", "1a", "a b", "a(", "alert(1)//", "a[0]", "a\u{2028}", "é", "<script>"] {
            assert_eq!(checked(name), None, "{name}");
        }
        assert_eq!(checked(&"a".repeat(129)), None);
    }
}
