//! Taking replies apart.

use redis::Value;

use super::fault::damaged;
use crate::store::StoreError;

/// The items of an array.
pub(super) fn items(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        other => Err(odd("an array", &other)),
    }
}

/// Bytes; `None` where there is nothing.
pub(super) fn bytes(value: Value) -> Result<Option<Vec<u8>>, StoreError> {
    match value {
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) => Ok(Some(text.into_bytes())),
        Value::Nil => Ok(None),
        other => Err(odd("a text", &other)),
    }
}

/// Bytes that have to be there.
pub(super) fn some_bytes(value: Option<Value>) -> Result<Vec<u8>, StoreError> {
    bytes(value.unwrap_or(Value::Nil))?.ok_or_else(|| damaged("an answer with a gap"))
}

/// A number, as a number or as text.
pub(super) fn number(value: Option<Value>) -> Result<i64, StoreError> {
    match value {
        Some(Value::Int(number)) => Ok(number),
        Some(Value::BulkString(bytes)) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<f64>().ok());
            // Scores are whole numbers below 2^53.
            number.map(|number| number as i64).ok_or_else(|| damaged("an answer that is no number"))
        }
        other => Err(odd("a number", &other.unwrap_or(Value::Nil))),
    }
}

fn odd(expected: &str, found: &Value) -> StoreError {
    let kind = match found {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
        Value::Array(_) => "an array",
        _ => "something else",
    };
    damaged(format!("an answer that is {kind} where {expected} belongs"))
}
