//! An email as the scheduler sees it: an envelope and RFC 5322 bytes.
//!
//! It is checked once, when it is made, and never changes after that: the bytes of an operation are the same in every
//! attempt, and whatever counts recipients, bytes or duplicates counts the same thing every time. An email is one
//! pointer, because every waiting operation holds several of them.
//!
//! Three ways in: raw MIME ([`Email::from_mime`]), plain parts (`Email::parts`, feature `lettre`) and a
//! `lettre::Message` (`TryFrom`, feature `lettre`).
//!
//! What is not promised: the MIME is not parsed beyond its header block, so a broken body is the provider's to refuse;
//! and nobody can tell an injected header from an intended one in MIME that the caller assembled. Parts are checked
//! field by field before they become bytes.

mod address;
mod error;
mod header;
#[cfg(feature = "lettre")]
mod parts;

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

pub use error::{AddressFault, EmailError, Field};
#[cfg(feature = "lettre")]
pub use parts::EmailParts;

use crate::engine::Cost;

/// Bounds that an email keeps. The defaults are the widest that a provider we know of takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmailBounds {
    /// Most envelope recipients; 1,000 is the hard maximum of Exchange Online.
    pub recipients_max: usize,
    /// Most MIME bytes; 150,000,000 is what Exchange Online takes in five minutes from one mailbox, so nothing larger
    /// can ever leave.
    pub bytes_max: usize,
}

impl EmailBounds {
    /// The defaults.
    pub const DEFAULT: Self = Self { recipients_max: 1_000, bytes_max: 150_000_000 };

    /// What Microsoft Graph takes in one `sendMail` as MIME: 500 recipients (the tenant's default), and a request of
    /// about 4 MB, which is 3 MB before base64.
    pub const GRAPH: Self = Self { recipients_max: 500, bytes_max: 3_000_000 };

    /// These bounds with another maximum of recipients.
    #[must_use]
    pub const fn recipients_max(self, recipients_max: usize) -> Self {
        Self { recipients_max, ..self }
    }

    /// These bounds with another maximum of bytes.
    #[must_use]
    pub const fn bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }
}

impl Default for EmailBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// An envelope and RFC 5322 bytes. Cheap to clone; the bytes never change between attempts.
#[derive(Clone, PartialEq, Eq)]
pub struct Email {
    content: Arc<Content>,
}

struct Content {
    sender: Box<str>,
    recipients: Box<[Box<str>]>,
    mime: Arc<[u8]>,
    /// The fingerprint of the parts that it was built from, where its bytes are others at every building.
    of_parts: Option<u64>,
}

/// The same envelope and the same bytes.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        (&self.sender, &self.recipients, &self.mime) == (&other.sender, &other.recipients, &other.mime)
    }
}

impl Eq for Content {}

/// Shows counts only: no address, subject or body ever reaches a log.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email")
            .field("recipients", &self.content.recipients.len())
            .field("bytes", &self.content.mime.len())
            .finish()
    }
}

impl Email {
    /// An email from its envelope and its finished RFC 5322 bytes, within [`EmailBounds::DEFAULT`].
    ///
    /// Addresses are bare (`ann@contoso.example`, no display name, no angle brackets). The bytes need a header block;
    /// they are sent as they are.
    ///
    /// # Errors
    /// [`EmailError`] names the field and what is wrong with it, never its content.
    pub fn from_mime<R>(sender: &str, recipients: R, mime: impl Into<Arc<[u8]>>) -> Result<Self, EmailError>
    where
        R: IntoIterator,
        R::Item: AsRef<str>,
    {
        Self::checked(sender, recipients, mime.into(), None)
    }

    fn checked<R>(sender: &str, recipients: R, mime: Arc<[u8]>, of_parts: Option<u64>) -> Result<Self, EmailError>
    where
        R: IntoIterator,
        R::Item: AsRef<str>,
    {
        address::check(sender, Field::one("sender"))?;
        let recipients = recipients
            .into_iter()
            .enumerate()
            .map(|(index, recipient)| {
                address::check(recipient.as_ref(), Field::item("recipients", index))?;
                Ok(Box::from(recipient.as_ref()))
            })
            .take(EmailBounds::DEFAULT.recipients_max + 1)
            .collect::<Result<Box<[Box<str>]>, EmailError>>()?;
        let content = Content { sender: Box::from(sender), recipients, mime, of_parts };
        let email = Self { content: Arc::new(content) };
        email.check(EmailBounds::DEFAULT)?;
        header::check(&email.content.mime)?;
        Ok(email)
    }

    /// Whether this email keeps `bounds`.
    ///
    /// # Errors
    /// The first bound that it does not keep.
    pub fn check(&self, bounds: EmailBounds) -> Result<(), EmailError> {
        let (count, bytes) = (self.content.recipients.len(), self.content.mime.len());
        if count == 0 {
            return Err(EmailError::NoRecipients);
        }
        if count > bounds.recipients_max {
            return Err(EmailError::TooManyRecipients { count, max: bounds.recipients_max });
        }
        if bytes > bounds.bytes_max {
            return Err(EmailError::TooLarge { bytes, max: bounds.bytes_max });
        }
        Ok(())
    }

    /// The envelope sender.
    #[must_use]
    pub fn sender(&self) -> &str {
        &self.content.sender
    }

    /// The envelope recipients.
    pub fn recipients(&self) -> impl ExactSizeIterator<Item = &str> {
        self.content.recipients.iter().map(AsRef::as_ref)
    }

    /// The RFC 5322 bytes.
    #[must_use]
    pub fn mime(&self) -> &[u8] {
        &self.content.mime
    }

    /// What sending this takes from the budgets: one request, its recipients, those outside `own_domains`, its bytes.
    ///
    /// Bytes are counted in base64 (four for three), as they cross the wire to Microsoft Graph. Over SMTP fewer leave;
    /// an over-count can only make us slower, an under-count breaks the provider's limit. Domains are compared without
    /// regard to case; a subdomain is another domain. With no own domain every recipient is external.
    #[must_use]
    pub fn cost<D: AsRef<str>>(&self, own_domains: &[D]) -> Cost {
        let external = self
            .recipients()
            .filter(|recipient| {
                let domain = address::domain(recipient);
                !own_domains.iter().any(|own| own.as_ref().eq_ignore_ascii_case(domain))
            })
            .count();
        let bytes = u64::try_from(self.content.mime.len()).unwrap_or(u64::MAX).div_ceil(3).saturating_mul(4);
        Cost {
            external_recipients: u32::try_from(external).unwrap_or(u32::MAX),
            ..Cost::email(u32::try_from(self.content.recipients.len()).unwrap_or(u32::MAX), bytes)
        }
    }

    /// A stable number for this content: FNV-1a (64 bits) over envelope and bytes, each with its length before it.
    ///
    /// Of an email that was built from parts without a `Message-ID` or a `Date` of its own, it is taken over the parts: built
    /// again, it is the same email with another id and a later date.
    ///
    /// It is the same in every process and version, so it can be stored beside an idempotency key to tell "the same
    /// again" from "another email under the same key". It guards against mistakes, not against an adversary who looks
    /// for a collision.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        if let Some(of_parts) = self.content.of_parts {
            return of_parts;
        }
        let mut hasher = fnv::FnvHasher::default();
        let mut field = |bytes: &[u8]| {
            hasher.write(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.write(bytes);
        };
        field(self.content.sender.as_bytes());
        field(&u64::try_from(self.content.recipients.len()).unwrap_or(u64::MAX).to_le_bytes());
        for recipient in self.recipients() {
            field(recipient.as_bytes());
        }
        field(&self.content.mime);
        hasher.finish()
    }

    /// The `Message-ID` of the MIME, angle brackets included: what reconciliation looks for.
    ///
    /// `None` when there is none, or none that has the form of RFC 5322 (section 3.6.4).
    #[must_use]
    pub fn internet_message_id(&self) -> Option<&str> {
        header::message_id(&self.content.mime)
    }

    /// Header fields of the MIME in order, as (name, raw value with its folds).
    #[cfg(feature = "graph")]
    pub(crate) fn header_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        header::fields(&self.content.mime)
    }
}
