//! One Rust file: its text, its code without comments and strings, its functions.

/// One Rust file.
pub(crate) struct Source {
    /// Its path from the root of the repository.
    pub(crate) path: String,
    /// As written.
    pub(crate) text: String,
    /// The same length and lines, with comments and the insides of strings blanked out.
    pub(crate) code: String,
}

/// One function with a body.
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line it starts at, from 1.
    pub(crate) line: usize,
    /// Lines from `fn` to its closing brace, the rows of tables (`(2, "two"),`) not counted: they are data.
    pub(crate) lines: usize,
}

impl Source {
    /// Takes `text` apart.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = mask(&text);
        Self { path, text, code }
    }

    /// Whether the file holds tests alone.
    pub(crate) fn is_test(&self) -> bool {
        !self.path.starts_with("src/") || self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }

    /// The code outside `#[cfg(test)]` modules; empty for files of tests.
    pub(crate) fn shipped(&self) -> String {
        if self.is_test() {
            return String::new();
        }
        let mut code = self.code.clone();
        while let Some(start) = code.find("#[cfg(test)]") {
            let end = match (code[start..].find('{'), code[start..].find(';')) {
                (Some(open), semicolon) if semicolon.is_none_or(|at| open < at) => closing(&code, start + open),
                (_, semicolon) => semicolon.map_or(code.len(), |at| start + at),
            };
            let blank = blanked(&code[start..=end.min(code.len() - 1)]);
            code.replace_range(start..=end.min(code.len() - 1), &blank);
        }
        code
    }

    /// Every function that has a body, in order.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = &self.code;
        let starts =
            code.match_indices("fn ").map(|(at, _)| at).filter(|&at| at == 0 || !is_word(code.as_bytes()[at - 1]));
        starts.filter_map(|at| function(code, at)).collect()
    }

    /// A complaint about the line that holds byte `at`.
    pub(crate) fn complain(&self, at: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line_of(&self.text, at))
    }
}

/// The line that holds byte `at`, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Whether `byte` can be part of a name.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn function(code: &str, at: usize) -> Option<Function> {
    let rest = &code[at + 3..];
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut depth = 0_i32;
    for (offset, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => {
                let text = &code[at..closing(code, at + 3 + offset)];
                let lines = text.lines().filter(|line| !line.trim_start().starts_with('(')).count();
                return (!name.is_empty()).then_some(Function { name, line: line_of(code, at), lines });
            }
            _ => {}
        }
    }
    None
}

/// The byte of the brace that closes the one at `open`.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return open + offset,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

fn blanked(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// `text` with comments and the insides of literals blanked out, byte for byte.
fn mask(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let before = code.as_bytes().last().copied();
        let length = literal_length(rest, before.is_some_and(is_word));
        let (piece, after) = rest.split_at(length.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8)));
        code.push_str(&if length.is_some() || !piece.is_ascii() { blanked(piece) } else { piece.to_owned() });
        rest = after;
    }
    code
}

/// The length of the comment or literal that `rest` starts with.
fn literal_length(rest: &str, in_word: bool) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest));
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')).filter(|_| !in_word)?;
    let hashes = raw.bytes().take_while(|&byte| byte == b'#').count();
    if raw[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let head = rest.len() - raw.len() + hashes + 1;
        return Some(rest[head..].find(&end).map_or(rest.len(), |at| head + at + end.len()));
    }
    None
}

/// The length of the character literal that `rest` starts with; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return rest[3..].find('\'').map(|at| at + 4);
    }
    chars.next().filter(|&(_, second)| second == '\'').map(|(at, _)| at + 1)
}

/// The length of the string literal that `rest` starts with.
fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}
