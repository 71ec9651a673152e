//! Back to TOML: every key, so that what is in force can be read without knowing the defaults.

use std::fmt::Write;

use super::Config;
use super::keys;
use super::value::{Value, quoted};
use crate::redact::{userinfo, without_credentials};

impl Config {
    /// The whole configuration as TOML. Reading it gives an equal configuration, except for secrets, which are left
    /// out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let mut open = String::new();
        for key in keys::of_config() {
            let (table, name) = key.path.rsplit_once('.').unwrap_or(("", &key.path));
            if table != open {
                let gap = if out.is_empty() { "" } else { "\n" };
                put(&mut out, format_args!("{gap}[{table}]\n"));
                table.clone_into(&mut open);
            }
            put_value(&mut out, name, &key.show(self));
        }
        for (id, own) in &self.mailboxes {
            put(&mut out, format_args!("\n[mailboxes.{}]\n", quoted(id)));
            for name in own.names() {
                if let Some(value) = own.shown(name) {
                    put_value(&mut out, name, &value);
                }
            }
        }
        out
    }
}

fn put_value(out: &mut String, name: &str, value: &Value) {
    match value {
        Value::Secret(secret) if secret.is_empty() => put(out, format_args!("{name} = \"\"\n")),
        // A password in a URL is one too.
        Value::Text(text) if userinfo(text).is_some() => {
            put(out, format_args!("# {name} is {}, and not printed whole\n", quoted(&without_credentials(text))));
        }
        Value::Secret(_) => put(out, format_args!("# {name} is set, and not printed\n")),
        other => put(out, format_args!("{name} = {}\n", other.toml())),
    }
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    out.write_fmt(line).expect("a string takes everything that is written to it");
}
