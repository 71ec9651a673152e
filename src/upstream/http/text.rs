//! Percent-encoding, as URLs and forms use it.

/// Decodes `%41` to `A`; what is no valid escape stays as it is. Bytes that are no UTF-8 become U+FFFD.
pub(super) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(hex);
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The value of `name` in an encoded form or query; a plus is a space.
pub(super) fn form_value(form: &str, name: &str) -> Option<String> {
    form.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent_decoded(&text.replace('+', " "));
        (decoded(key) == name).then(|| decoded(value))
    })
}

fn hex(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_broken_ones_stay() {
        let rows = [
            ("a%40x", "a@x"),
            ("%", "%"),
            ("%4", "%4"),
            ("%+4", "%+4"),
            ("%zz", "%zz"),
            ("%C3%A4", "ä"),
            ("%ff", "\u{fffd}"),
        ];
        for (text, expected) in rows {
            assert_eq!(percent_decoded(text), expected, "{text}");
        }
    }

    #[test]
    fn a_form_value_is_found_by_its_decoded_name() {
        let form = "grant_type=client_credentials&scope=a+b%2Fc&%24filter=x&empty&client_secret=a%2Bb";
        assert_eq!(form_value(form, "scope").as_deref(), Some("a b/c"));
        assert_eq!(form_value(form, "$filter").as_deref(), Some("x"));
        assert_eq!(form_value(form, "empty").as_deref(), Some(""));
        assert_eq!(form_value(form, "client_secret").as_deref(), Some("a+b"));
        assert_eq!(form_value(form, "client_id"), None);
    }
}
