//! Takes what may be a password out of a URL before anybody sees it.

use std::ops::Range;

/// A URL as far as it may be shown: user, password and query are left out. Text that is no URL comes back as it is.
pub(crate) fn without_credentials(text: &str) -> String {
    let (bare, query) = match text.split_once('?') {
        Some((bare, _)) if bare.contains("://") => (bare, "?…"),
        _ => (text, ""),
    };
    match userinfo(bare) {
        Some(hidden) => format!("{}…{}{query}", &bare[..hidden.start], &bare[hidden.end..]),
        None => format!("{bare}{query}"),
    }
}

/// Where user and password stand in a text with a URL. Up to the last `@`, wherever that is: a password that should
/// have been escaped holds whatever it likes, and a host too many hidden costs less than a password shown.
pub(crate) fn userinfo(text: &str) -> Option<Range<usize>> {
    let start = text.find("://")? + "://".len();
    let end = start + text[start..].rfind('@')?;
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_password_is_left_out() {
        for (url, shown) in [
            ("redis://user:hunter2@cache:1/0", "redis://…@cache:1/0"),
            ("redis://:hun/t@er2@cache:1/0", "redis://…@cache:1/0"),
            ("redis://cache:1?password=hunter2", "redis://cache:1?…"),
            ("https://graph.microsoft.com/v1.0", "https://graph.microsoft.com/v1.0"),
            ("sqlite:what?.db", "sqlite:what?.db"),
            ("ann@contoso.example", "ann@contoso.example"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }
}
