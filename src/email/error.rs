//! Why an email was refused: the field and the fault, never the content.

use std::fmt;

/// Where in an email a fault is, as callers write it: `sender`, `to[2]`, `headers[0]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    name: &'static str,
    index: Option<usize>,
}

impl Field {
    pub(super) const fn one(name: &'static str) -> Self {
        Self { name, index: None }
    }

    pub(super) const fn item(name: &'static str, index: usize) -> Self {
        Self { name, index: Some(index) }
    }

    /// The field's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The position within a list, from 0.
    #[must_use]
    pub const fn index(&self) -> Option<usize> {
        self.index
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}[{index}]", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// What is wrong with the form of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressFault {
    /// Nothing there.
    Empty,
    /// No `@`.
    NoAt,
    /// The part before the `@` is empty, longer than 64 bytes, or holds what an address cannot hold unquoted.
    Local,
    /// The part after the `@` is no domain: empty, longer than 255 bytes, or with an impossible label.
    Domain,
    /// Not an address, nor a name with an address in angle brackets.
    Mailbox,
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::NoAt => "it has no `@`",
            Self::Local => "the part before the `@` is empty, too long, or has a character that needs quoting",
            Self::Domain => "the part after the `@` is not a domain",
            Self::Mailbox => "it is neither an address nor a name with an address in angle brackets",
        })
    }
}

/// Why an email was refused. Nothing was stored. No variant carries an address, a subject or a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmailError {
    /// Nobody to send it to.
    #[error("no recipients: name at least one")]
    NoRecipients,
    /// More recipients than one email may have.
    #[error("{count} recipients or more, at most {max} are allowed: split the email")]
    TooManyRecipients {
        /// How many, as far as they were counted.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// More bytes than one email may have.
    #[error("{bytes} bytes, at most {max} are allowed: move attachments elsewhere and link them")]
    TooLarge {
        /// How many.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// A line break, a NUL or another control character, where it would start a header of its own.
    #[error("`{field}` has a control character at byte {at}: remove it")]
    ControlCharacter {
        /// Where.
        field: Field,
        /// The byte, from 0.
        at: usize,
    },
    /// Longer than the field may be.
    #[error("`{field}` has {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Where.
        field: Field,
        /// How many.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// More items than the list may have.
    #[error("`{field}` has {count} items, at most {max} are allowed")]
    TooMany {
        /// Where.
        field: Field,
        /// How many.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// No address.
    #[error("`{field}` is not an email address: {fault}")]
    Address {
        /// Where.
        field: Field,
        /// What is wrong with it.
        fault: AddressFault,
    },
    /// A part that is needed is not there.
    #[error("`{field}` is missing")]
    Missing {
        /// Which.
        field: Field,
    },
    /// The name of an extra header is no header name, or belongs to the email's own structure.
    #[error("`{field}` has a name that cannot be used: {reason}")]
    HeaderName {
        /// Where.
        field: Field,
        /// Why.
        reason: &'static str,
    },
    /// The `Message-ID` is not of the form `<left@right>`.
    #[error("`message_id` is not of the form <left@right>")]
    MessageId,
    /// The MIME has no header block.
    #[error("line {line} of the MIME is not a header: start with header fields, then an empty line, then the body")]
    Header {
        /// The line, from 1.
        line: usize,
    },
    /// The parts could not be put together.
    #[error("the parts do not make an email: {reason}")]
    Parts {
        /// Why.
        reason: &'static str,
    },
}

impl EmailError {
    /// The field at fault, where it is a single one.
    #[must_use]
    pub const fn field(&self) -> Option<Field> {
        match self {
            Self::ControlCharacter { field, .. }
            | Self::TooLong { field, .. }
            | Self::TooMany { field, .. }
            | Self::Address { field, .. }
            | Self::Missing { field }
            | Self::HeaderName { field, .. } => Some(*field),
            Self::NoRecipients | Self::TooManyRecipients { .. } => Some(Field::one("recipients")),
            Self::TooLarge { .. } | Self::Header { .. } => Some(Field::one("mime")),
            Self::MessageId => Some(Field::one("message_id")),
            Self::Parts { .. } => None,
        }
    }
}
