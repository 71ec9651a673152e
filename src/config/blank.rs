//! Takes secrets out of a configuration's text before an error shows a line of it.
//!
//! Done on the text and not on what was parsed, because the line with the mistake is often the one that did not
//! parse. Bytes keep their places, so that spans still point at what they pointed at.

use std::borrow::Cow;

use super::suggest::closest;
use crate::redact::userinfo;

/// Whether a key of this name holds a secret, spelled right or wrong: a key that is taken for one by mistake costs a
/// word in a message, one that is missed costs the secret.
pub(crate) fn names_a_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    let says_so = ["secret", "secrt", "password", "passwd", "token", "apikey", "api_key"];
    let says_where = ["_env", "_file", "_timeout", "_max"];
    let misspelled = || key.split(['.', '_', '-']).any(|word| word.len() > 3 && closest(word, says_so).is_some());
    !says_where.iter().any(|end| key.ends_with(end)) && (says_so.iter().any(|word| key.contains(word)) || misspelled())
}

/// `text` with the value of every key that names a secret replaced by as many stars.
pub(crate) fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        if let Some(quotes) = open {
            out.push_str(&stars(line));
            if line.contains(quotes) {
                open = None;
            }
            continue;
        }
        let Some(start) = value_of_secret(line) else {
            out.push_str(&blanked_url(line));
            continue;
        };
        let (kept, hidden) = line.split_at(start);
        out.push_str(kept);
        out.push_str(&stars(hidden));
        open = ["\"\"\"", "'''"].into_iter().find(|quotes| hidden.matches(quotes).count() % 2 == 1);
    }
    out
}

/// Where the value of the line's first secret starts: everything after it is taken for secret.
fn value_of_secret(line: &str) -> Option<usize> {
    let mut from = 0;
    for (index, _) in line.match_indices('=') {
        let key = line[from..index].trim_end().trim_end_matches(['"', '\'']);
        let key = key.rsplit(['.', ' ', '\t', ',', '{', '"', '\'']).next().unwrap_or("");
        if names_a_secret(key) {
            return Some(index + 1);
        }
        from = index + 1;
    }
    None
}

/// The line with user and password of its URL replaced.
fn blanked_url(line: &str) -> Cow<'_, str> {
    let Some(hidden) = userinfo(line) else { return Cow::Borrowed(line) };
    let (before, after) = (&line[..hidden.start], &line[hidden.end..]);
    Cow::Owned(format!("{before}{}{after}", stars(&line[hidden])))
}

fn stars(text: &str) -> String {
    text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { '*' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_are_blanked_in_place() {
        for text in [
            "client_secret = \"hunter2\"\nbatch_max = 4\n",
            "graph = { tenant = \"t\", client_secret = \"hunter2\" }\n",
            "client_secret = \"\"\"\nhunter2\nhunter2\"\"\"\nbatch_max = 4",
            "client_secret = \"hunter2",
            "\"client_secret\" = \"hunter2é\"",
            "transport.graph.client_secrt=\"hunter2\"",
            "transport.graph.client-sicret=\"hunter2\"",
            "pasword = \"hunter2\"",
            "url = \"redis://user:hunter2@cache/0\"",
            "url = \"redis://:hunter2@cache/0\nbatch_max = 4",
        ] {
            let blanked = blanked(text);
            assert!(!blanked.contains("hunter2"), "{blanked}");
            assert_eq!(blanked.len(), text.len());
            assert_eq!(blanked.lines().count(), text.lines().count());
            assert_eq!(blanked.contains("batch_max = 4"), text.contains("batch_max = 4"));
        }
    }

    #[test]
    fn places_of_secrets_are_shown() {
        for text in ["client_secret_env = \"NAME\"", "token_timeout = \"15s\"", "# a secret = b"] {
            let shown = blanked(text);
            assert!(shown == text || text.starts_with('#'), "{shown}");
        }
    }
}
