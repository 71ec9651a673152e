//! Whom the headers of an email name: the addresses in `To`, `Cc` and `Bcc` (RFC 5322, 3.4).
//!
//! Display names and comments are skipped. What is not understood yields an address too few, and the recipient is named
//! once more in `Bcc`.

use std::str::Chars;

use crate::email::Email;

/// The addresses in `To`, `Cc` and `Bcc`, as they are spelled there.
pub(super) fn named(email: &Email) -> Vec<String> {
    const NAMES: [&[u8]; 3] = [b"to", b"cc", b"bcc"];
    email
        .header_fields()
        .filter(|(name, _)| NAMES.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
        .flat_map(|(_, value)| addresses(&String::from_utf8_lossy(value)))
        .collect()
}

fn addresses(list: &str) -> Vec<String> {
    let (mut found, mut token) = (Vec::new(), Token::default());
    let mut chars = list.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => token.push_str(&quoted(&mut chars)),
            '(' => skip_comment(&mut chars),
            '[' => token.push_str(&literal(&mut chars)),
            '<' => {
                if token.angle.is_some() {
                    found.extend(std::mem::take(&mut token).address());
                }
                token.angle = Some(String::new());
            }
            '>' => token.closed = true,
            ')' => {}
            ',' | ';' | ':' if token.angle.is_none() || token.closed => {
                found.extend(std::mem::take(&mut token).address());
            }
            _ => token.push_str(c.encode_utf8(&mut [0; 4])),
        }
    }
    found.extend(token.address());
    found
}

/// One mailbox of a list, as far as it was read.
#[derive(Default)]
struct Token {
    /// What stands outside angle brackets.
    outside: String,
    /// What stands within them.
    angle: Option<String>,
    closed: bool,
}

impl Token {
    fn push_str(&mut self, text: &str) {
        match &mut self.angle {
            Some(angle) if !self.closed => angle.push_str(text),
            Some(_) => {}
            None => self.outside.push_str(text),
        }
    }

    fn address(self) -> Option<String> {
        let address = self.angle.unwrap_or(self.outside);
        let address = address.trim();
        let rest = address.rfind('"').map_or(address, |at| &address[at + 1..]);
        // Quotes that no `@` follows are a name's.
        let (address, rest) = if rest.starts_with('@') { (address, rest) } else { (rest.trim(), rest.trim()) };
        (rest.contains('@') && !rest.contains(char::is_whitespace)).then(|| address.to_owned())
    }
}

/// A quoted string, whose first quote has been read, with its quotes and without its line breaks.
fn quoted(chars: &mut Chars<'_>) -> String {
    let mut text = String::from('"');
    while let Some(c) = chars.next() {
        match c {
            '\r' | '\n' => {}
            '\\' => {
                text.push(c);
                text.extend(chars.next());
            }
            '"' => break,
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

/// `[192.0.2.1]`, `[IPv6:2001:db8::1]`, whose bracket has been read; the bracket alone where it does not end as one.
fn literal(chars: &mut Chars<'_>) -> String {
    let ahead = chars.clone();
    let inner: String = ahead.take_while(|c| c.is_ascii_hexdigit() || "IPv6:.".contains(*c)).collect();
    let mut after = chars.clone();
    after.by_ref().take(inner.len()).for_each(drop);
    if after.next() != Some(']') {
        return "[".to_owned();
    }
    *chars = after;
    format!("[{inner}]")
}

/// Passes over a comment, whose parenthesis has been read, and those within it.
fn skip_comment(chars: &mut Chars<'_>) {
    let mut depth = 1_u32;
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_names_are_not() {
        for (list, expected) in [
            (" ann@a.example", &["ann@a.example"][..]),
            (" Ann <ann@a.example>\r\n", &["ann@a.example"]),
            ("Ann <ANN@a.example>, bob@b.example", &["ANN@a.example", "bob@b.example"]),
            ("\"eve@e.example\" <ann@a.example>", &["ann@a.example"]),
            ("\"eve@e.example\"", &[]),
            ("ann@a.example (eve@e.example)", &["ann@a.example"]),
            ("\"Last, First \\\" x\" <ann@a.example>", &["ann@a.example"]),
            ("Friends: ann@a.example, bob@b.example;", &["ann@a.example", "bob@b.example"]),
            ("undisclosed-recipients:;", &[]),
            ("ann@a.example,\r\n bob@b.example\r\n", &["ann@a.example", "bob@b.example"]),
            ("\"ann smith\"@a.example", &["\"ann smith\"@a.example"]),
            ("\"ann\r\n smith\"@a.example, bob@b.example", &["\"ann smith\"@a.example", "bob@b.example"]),
            ("\"Ann\" <\"ann, \\\"smith\"@a.example>", &["\"ann, \\\"smith\"@a.example"]),
            ("\"<eve@e.example>\" <ann@a.example>", &["ann@a.example"]),
            ("ann@[192.0.2.1], bob@[IPv6:2001:db8::1]", &["ann@[192.0.2.1]", "bob@[IPv6:2001:db8::1]"]),
            ("ann@[, eve@e.example", &["ann@[", "eve@e.example"]),
            ("Ann <ann@[IPv6:2001:db8::1]>, bob@b.example", &["ann@[IPv6:2001:db8::1]", "bob@b.example"]),
            ("\"Ann\" ann@a.example", &["ann@a.example"]),
            ("<ann@a.example> <bob@b.example>", &["ann@a.example", "bob@b.example"]),
            ("[Team] Ann <ann@a.example>)", &["ann@a.example"]),
            ("((((", &[]),
            ("(a (b \\) c) d) ann@a.example", &["ann@a.example"]),
        ] {
            assert_eq!(addresses(list), expected, "{list}");
        }
    }
}
