//! What the upstream reads of a MIME message: who gets it, and its `Message-ID`.
//!
//! The recipients of a MIME send are those of its headers (Graph takes no envelope). Names, comments, quoted strings
//! and groups are skipped over with one small state machine; whether an address exists is nobody's business here.

/// Recipients and id of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Headers {
    /// Addresses of `To`, `Cc` and `Bcc`; an entry without an address appears as it is.
    pub(super) recipients: Vec<String>,
    /// `Message-ID`, angle brackets included.
    pub(super) message_id: Option<String>,
}

/// Reads the header block of `mime`.
pub(super) fn headers(mime: &[u8]) -> Headers {
    let mut headers = Headers::default();
    for (name, value) in fields(&String::from_utf8_lossy(mime)) {
        match name.to_ascii_lowercase().as_str() {
            "to" | "cc" | "bcc" => headers.recipients.extend(addresses(&value)),
            "message-id" => headers.message_id = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    headers
}

/// Fields up to the first empty line, folds joined.
fn fields(text: &str) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().take_while(|line| !line.is_empty()) {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim_end().to_owned(), value.to_owned()));
        }
    }
    fields
}

/// The addresses of an address list (RFC 5322, 3.4).
fn addresses(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut entry = Entry::default();
    let (mut quoted, mut escaped, mut comment) = (false, false, 0_u32);
    for c in list.chars() {
        let literal = std::mem::take(&mut escaped);
        match c {
            '\\' if !literal && (quoted || comment > 0) => escaped = true,
            '"' if !literal && comment == 0 => quoted = !quoted,
            _ if quoted => entry.push(c),
            '(' if !literal => comment += 1,
            ')' if !literal && comment > 0 => comment -= 1,
            _ if comment > 0 => {}
            '<' => entry.angle = Some(String::new()),
            '>' => entry.closed = true,
            ':' if entry.angle.is_none() => entry = Entry::default(), // a group's name
            ',' | ';' => found.extend(std::mem::take(&mut entry).address()),
            _ => entry.push(c),
        }
    }
    found.extend(entry.address());
    found
}

#[derive(Default)]
struct Entry {
    bare: String,
    angle: Option<String>,
    closed: bool,
}

impl Entry {
    fn push(&mut self, c: char) {
        match &mut self.angle {
            Some(_) if self.closed => {}
            Some(address) => address.push(c),
            None => self.bare.push(c),
        }
    }

    fn address(self) -> Option<String> {
        let address = self.angle.unwrap_or(self.bare).trim().to_owned();
        (!address.is_empty()).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_list_is_counted_right() {
        let rows: [(&str, &[&str]); 9] = [
            ("a@x", &["a@x"]),
            (" a@x, b@y ,c@z", &["a@x", "b@y", "c@z"]),
            ("Ann <a@x>, \"Berg, Bo\" <b@y>", &["a@x", "b@y"]),
            ("\"Quote \\\" , mark\" <a@x>", &["a@x"]),
            ("a@x (work, old), b@y", &["a@x", "b@y"]),
            ("Team: a@x, Bo <b@y>;, c@z", &["a@x", "b@y", "c@z"]),
            ("undisclosed-recipients:;", &[]),
            ("", &[]),
            ("nobody", &["nobody"]),
        ];
        for (list, expected) in rows {
            assert_eq!(addresses(list), expected, "{list}");
        }
    }

    #[test]
    fn folded_headers_are_joined_and_the_body_is_not_read() {
        let mime = b"TO: a@x,\r\n\tb@y\r\nMessage-Id:\r\n <1@x>\r\nCc: c@z\r\n\r\nBcc: d@w\r\n";
        let headers = headers(mime);
        assert_eq!(headers.recipients, ["a@x", "b@y", "c@z"]);
        assert_eq!(headers.message_id.as_deref(), Some("<1@x>"));
    }
}
