//! An email as the scheduler sees it: an envelope and RFC 5322 bytes.

use std::fmt;
use std::sync::Arc;

/// An envelope and RFC 5322 bytes. Cheap to clone; the bytes never change between attempts.
#[derive(Clone, PartialEq, Eq)]
pub struct Email {
    sender: Arc<str>,
    recipients: Arc<[Arc<str>]>,
    mime: Arc<[u8]>,
}

/// Shows counts only: no address, subject or body ever reaches a log.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email").field("recipients", &self.recipients.len()).field("bytes", &self.mime.len()).finish()
    }
}

impl Email {
    /// The envelope sender.
    #[must_use]
    pub fn sender(&self) -> &str {
        &self.sender
    }

    /// The envelope recipients.
    pub fn recipients(&self) -> impl ExactSizeIterator<Item = &str> {
        self.recipients.iter().map(AsRef::as_ref)
    }

    /// The RFC 5322 bytes.
    #[must_use]
    pub fn mime(&self) -> &[u8] {
        &self.mime
    }
}
