//! The settings of `[callers]`: ceilings as text, `billing = 500 emails / 1h`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{Codec, items};
use super::id::{LABEL_BYTES_MAX, check_id};
use super::value::{Value, Wrong};
use crate::engine::callers::CallerCeiling;

/// What stands for "no ceiling".
pub(crate) const UNLIMITED: &str = "unlimited";

/// One ceiling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling;

impl Codec for Ceiling {
    type Out = CallerCeiling;

    fn read(&self, value: &Value) -> Result<CallerCeiling, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a ceiling in quotes")) };
        text.parse().map_err(|error: crate::engine::callers::CeilingError| Wrong::malformed(error.to_string()))
    }

    fn show(&self, out: &CallerCeiling) -> Value {
        Value::Text(out.to_string())
    }

    fn allowed(&self) -> String {
        "a ceiling such as \"500 emails, 5_000 recipients / 1h\"".to_owned()
    }
}

/// A list of callers with ceilings of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overrides(pub(crate) usize);

impl Codec for Overrides {
    type Out = BTreeMap<Arc<str>, Option<CallerCeiling>>;

    fn read(&self, value: &Value) -> Result<Self::Out, Wrong> {
        let list = items(value, self.0, one)?;
        let count = list.len();
        let map: Self::Out = list.into_iter().collect();
        if map.len() < count {
            return Err(Wrong::malformed("a caller stands in it twice"));
        }
        Ok(map)
    }

    fn show(&self, out: &Self::Out) -> Value {
        let text = |(name, ceiling): (&Arc<str>, &Option<CallerCeiling>)| match ceiling {
            Some(ceiling) => Value::Text(format!("{name} = {ceiling}")),
            None => Value::Text(format!("{name} = {UNLIMITED}")),
        };
        Value::List(out.iter().map(text).collect())
    }

    fn allowed(&self) -> String {
        format!("at most {} callers such as \"billing = 500 emails, 5_000 recipients / 1h\"", self.0)
    }
}

/// `NAME = CEILING`. The last `=` divides: no ceiling has one, a name may.
fn one(text: &str) -> Result<(Arc<str>, Option<CallerCeiling>), Wrong> {
    let (name, ceiling) = text.rsplit_once('=').ok_or_else(|| Wrong::malformed("no `=` after the caller's name"))?;
    let name = name.trim();
    check_id(name, LABEL_BYTES_MAX)
        .map_err(|_| Wrong::malformed(format!("no caller's name: one line of 1 to {LABEL_BYTES_MAX} bytes")))?;
    let ceiling = match ceiling.trim() {
        UNLIMITED => None,
        text => Some(Ceiling.read(&Value::Text(text.to_owned()))?),
    };
    Ok((Arc::from(name), ceiling))
}
