//! How one kind of setting is read, shown and bounded.
//!
//! A codec knows its bounds, so "zero or absurd" is refused where the value is read, with what is allowed in the same
//! breath, and the same bounds check a configuration that was made in code.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::Duration;

use super::human::{
    DURATION_FORM, SHARE_FORM, SIZE_FORM, parse_duration, parse_share, parse_size, show_duration, show_size,
};
use super::secret::Secret;
use super::value::{Value, Wrong};
use crate::engine::limit::LimitError;
use crate::engine::{Limit, Ratio};

/// Reads, shows and bounds one kind of setting.
pub(crate) trait Codec: Debug + Send + Sync {
    /// What the setting holds.
    type Out;
    /// Reads what a key was given.
    fn read(&self, value: &Value) -> Result<Self::Out, Wrong>;
    /// Shows it so that [`Codec::read`] gives the same back.
    fn show(&self, out: &Self::Out) -> Value;
    /// What is allowed, in words.
    fn allowed(&self) -> String;
}

/// A duration between two others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) Duration, pub(crate) Duration);

impl Codec for Span {
    type Out = Duration;

    fn read(&self, value: &Value) -> Result<Duration, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a duration in quotes")) };
        let span = parse_duration(text).ok_or_else(|| Wrong::malformed("not a duration"))?;
        bounded(span, self.0, self.1)
    }

    fn show(&self, out: &Duration) -> Value {
        Value::Text(show_duration(*out))
    }

    fn allowed(&self) -> String {
        format!("{DURATION_FORM} from {} to {}", show_duration(self.0), show_duration(self.1))
    }
}

/// A share or factor between two others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(pub(crate) Ratio, pub(crate) Ratio);

impl Codec for Share {
    type Out = Ratio;

    fn read(&self, value: &Value) -> Result<Ratio, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a share in quotes")) };
        let share = parse_share(text).ok_or_else(|| Wrong::malformed("not a share"))?;
        bounded(share, self.0, self.1)
    }

    fn show(&self, out: &Ratio) -> Value {
        Value::Text(out.to_string())
    }

    fn allowed(&self) -> String {
        format!("{SHARE_FORM}, from {} to {}", self.0, self.1)
    }
}

/// Two shares, the lower one first: `10%..50%`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareRange(pub(crate) Ratio, pub(crate) Ratio);

impl Codec for ShareRange {
    type Out = (Ratio, Ratio);

    fn read(&self, value: &Value) -> Result<(Ratio, Ratio), Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a range of shares in quotes")) };
        let (low, high) = text.split_once("..").ok_or_else(|| Wrong::malformed("not a range of shares"))?;
        let low = parse_share(low).ok_or_else(|| Wrong::malformed("its lower end is not a share"))?;
        let high = parse_share(high).ok_or_else(|| Wrong::malformed("its upper end is not a share"))?;
        if low > high {
            return Err(Wrong::out_of_range("its lower end is above its upper end"));
        }
        Ok((bounded(low, self.0, self.1)?, bounded(high, self.0, self.1)?))
    }

    fn show(&self, out: &(Ratio, Ratio)) -> Value {
        Value::Text(format!("{}..{}", out.0, out.1))
    }

    fn allowed(&self) -> String {
        format!("two shares such as \"10%..50%\", the lower one first, from {} to {}", self.0, self.1)
    }
}

/// Whole-number types that a key can hold.
pub(crate) trait Whole: Copy + Debug + Send + Sync {
    /// From a number already inside the bounds.
    fn from_number(number: u64) -> Option<Self>;
    /// To a number.
    fn to_number(self) -> u64;
}

macro_rules! whole {
    ($($kind:ty: $from:expr, $to:expr;)*) => {$(
        impl Whole for $kind {
            fn from_number(number: u64) -> Option<Self> {
                let from: fn(u64) -> Option<Self> = $from;
                from(number)
            }
            fn to_number(self) -> u64 {
                let to: fn(Self) -> u64 = $to;
                to(self)
            }
        }
    )*};
}

whole! {
    u32: |n| n.try_into().ok(), u64::from;
    u64: Some, |n| n;
    usize: |n| n.try_into().ok(), |n| u64::try_from(n).unwrap_or(u64::MAX);
    NonZeroU32: |n| u32::try_from(n).ok().and_then(NonZeroU32::new), |n| u64::from(n.get());
}

/// A whole number between two others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count<T>(pub(crate) T, pub(crate) T);

impl<T: Whole> Codec for Count<T> {
    type Out = T;

    fn read(&self, value: &Value) -> Result<T, Wrong> {
        let Value::Integer(number) = value else { return Err(Wrong::type_of(value, "a whole number")) };
        let number = u64::try_from(*number).map_err(|_| Wrong::out_of_range("below zero"))?;
        let number = bounded(number, self.0.to_number(), self.1.to_number())?;
        T::from_number(number).ok_or_else(|| Wrong::out_of_range("too large"))
    }

    fn show(&self, out: &T) -> Value {
        Value::Integer(i64::try_from(out.to_number()).unwrap_or(i64::MAX))
    }

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.to_number(), self.1.to_number())
    }
}

/// A size between two others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64, pub(crate) u64);

impl Codec for Size {
    type Out = u64;

    fn read(&self, value: &Value) -> Result<u64, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a size in quotes")) };
        let bytes = parse_size(text).ok_or_else(|| Wrong::malformed("not a size"))?;
        bounded(bytes, self.0, self.1)
    }

    fn show(&self, out: &u64) -> Value {
        Value::Text(show_size(*out))
    }

    fn allowed(&self) -> String {
        format!("{SIZE_FORM} from {} to {}", show_size(self.0), show_size(self.1))
    }
}

/// One of a few words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq + Debug + Send + Sync> Codec for Word<T> {
    type Out = T;

    fn read(&self, value: &Value) -> Result<T, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a word in quotes")) };
        let found = self.0.iter().find(|(word, _)| word == text);
        found.map(|(_, out)| *out).ok_or_else(|| Wrong::malformed("not one of the words that are allowed here"))
    }

    fn show(&self, out: &T) -> Value {
        let found = self.0.iter().find(|(_, known)| known == out);
        Value::Text(found.map_or("", |(word, _)| word).to_owned())
    }

    fn allowed(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        words.join(" or ")
    }
}

/// A setting that may also be a word that stands for "none".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Or<C>(pub(crate) &'static str, pub(crate) C);

impl<C: Codec> Codec for Or<C> {
    type Out = Option<C::Out>;

    fn read(&self, value: &Value) -> Result<Self::Out, Wrong> {
        match value {
            Value::Text(text) if text == self.0 => Ok(None),
            other => self.1.read(other).map(Some),
        }
    }

    fn show(&self, out: &Self::Out) -> Value {
        out.as_ref().map_or_else(|| Value::Text(self.0.to_owned()), |out| self.1.show(out))
    }

    fn allowed(&self) -> String {
        format!("\"{}\", or {}", self.0, self.1.allowed())
    }
}

/// A line of text up to so many bytes; empty means "not set".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line(pub(crate) usize);

impl Codec for Line {
    type Out = String;

    fn read(&self, value: &Value) -> Result<String, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a string")) };
        if text.len() > self.0 {
            return Err(Wrong::out_of_range(format!("{} bytes long", text.len())));
        }
        if text.chars().any(char::is_control) {
            return Err(Wrong::malformed("it has a line break or another control character in it"));
        }
        Ok(text.clone())
    }

    fn show(&self, out: &String) -> Value {
        Value::Text(out.clone())
    }

    fn allowed(&self) -> String {
        format!("one line of at most {} bytes, or \"\"", self.0)
    }
}

/// A secret line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden(pub(crate) Line);

impl Codec for Hidden {
    type Out = Secret;

    fn read(&self, value: &Value) -> Result<Secret, Wrong> {
        match value {
            Value::Secret(secret) => self.0.read(&Value::Text(secret.expose().to_owned())).map(Secret::new),
            other => self.0.read(other).map(Secret::new),
        }
    }

    fn show(&self, out: &Secret) -> Value {
        Value::Secret(out.clone())
    }

    fn allowed(&self) -> String {
        self.0.allowed()
    }
}

/// A list of domain names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domains(pub(crate) usize);

impl Codec for Domains {
    type Out = Vec<String>;

    fn read(&self, value: &Value) -> Result<Vec<String>, Wrong> {
        items(value, self.0, |text| {
            let labels = |text: &str| text.split('.').all(|label| !label.is_empty() && label.len() <= 63);
            let spelled = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.'));
            let fits = spelled && labels(text) && text.len() <= 253;
            fits.then(|| text.to_lowercase()).ok_or_else(|| Wrong::malformed("not a domain name"))
        })
    }

    fn show(&self, out: &Vec<String>) -> Value {
        Value::List(out.iter().cloned().map(Value::Text).collect())
    }

    fn allowed(&self) -> String {
        format!("at most {} domain names such as \"contoso.example\"", self.0)
    }
}

/// A list of limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits(pub(crate) usize);

impl Codec for Limits {
    type Out = Vec<Limit>;

    fn read(&self, value: &Value) -> Result<Vec<Limit>, Wrong> {
        items(value, self.0, |text| text.parse().map_err(|error| of_limit(&error)))
    }

    fn show(&self, out: &Vec<Limit>) -> Value {
        Value::List(out.iter().map(|limit| Value::Text(limit.to_string())).collect())
    }

    fn allowed(&self) -> String {
        format!("at most {} limits such as \"30 requests / 1m\"", self.0)
    }
}

/// A limit's own words, told apart by whether it could be read at all.
fn of_limit(error: &LimitError) -> Wrong {
    let unreadable = matches!(
        error,
        LimitError::Form { .. }
            | LimitError::Amount { .. }
            | LimitError::Unit { .. }
            | LimitError::Window { .. }
            | LimitError::Kind { .. }
    );
    if unreadable { Wrong::malformed(error.to_string()) } else { Wrong::out_of_range(error.to_string()) }
}

pub(crate) fn items<T>(value: &Value, most: usize, read: impl Fn(&str) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
    let Value::List(list) = value else { return Err(Wrong::type_of(value, "an array of strings")) };
    if list.len() > most {
        return Err(Wrong::out_of_range(format!("{} items", list.len())));
    }
    let at = |index: usize, wrong: Wrong| Wrong { item: Some(index), ..wrong };
    let each = |(index, item): (usize, &Value)| match item {
        Value::Text(text) => read(text).map_err(|wrong| at(index, wrong)),
        other => Err(at(index, Wrong::type_of(other, "a string"))),
    };
    list.iter().enumerate().map(each).collect()
}

fn bounded<T: PartialOrd>(value: T, least: T, most: T) -> Result<T, Wrong> {
    if value < least {
        return Err(Wrong::out_of_range("below what is allowed"));
    }
    if value > most { Err(Wrong::out_of_range("above what is allowed")) } else { Ok(value) }
}
