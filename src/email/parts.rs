//! An email from plain parts, and from a `lettre::Message`.
//!
//! Folding, encoded words, transfer encodings and boundaries are lettre's work: writing them anew is how header
//! injection comes back. Every field is checked here first, so that the caller learns which one is wrong.

use std::hash::Hasher as _;
use std::time::{SystemTime, UNIX_EPOCH};

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, MultiPart, SinglePart};

use super::error::{AddressFault, EmailError, Field};
use super::{Email, EmailBounds, address, header};

/// Longest name-with-address: a line's length (RFC 5322, 2.1.1).
const MAILBOX_BYTES_MAX: usize = 998;
/// Longest subject or extra header value; lettre folds it.
const HEADER_BYTES_MAX: usize = 8_192;
/// Most extra headers.
const HEADERS_MAX: usize = 64;
/// Headers that the builder writes, or that decide how the body is read.
const RESERVED: [&str; 12] = [
    "From",
    "Sender",
    "To",
    "Cc",
    "Bcc",
    "Subject",
    "Date",
    "Message-ID",
    "Reply-To",
    "MIME-Version",
    "Received",
    "Return-Path",
];

/// The parts of an email. Addresses may carry a name: `Ann Example <ann@contoso.example>`.
///
/// ```
/// # use mailweir::email::Email;
/// let email = Email::parts()
///     .from("Contoso <noreply@contoso.example>")
///     .to("ann@fabrikam.example")
///     .subject("Your password")
///     .text("Follow the link.")
///     .build()?;
/// assert_eq!(email.recipients().collect::<Vec<_>>(), ["ann@fabrikam.example"]);
/// # Ok::<(), mailweir::email::EmailError>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct EmailParts {
    from: Option<String>,
    reply_to: Option<String>,
    to: Vec<String>,
    cc: Vec<String>,
    bcc: Vec<String>,
    subject: String,
    text: Option<String>,
    html: Option<String>,
    message_id: Option<String>,
    date: Option<SystemTime>,
    headers: Vec<(String, String)>,
}

/// Shows counts only, as [`Email`] does.
impl std::fmt::Debug for EmailParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let recipients = self.to.len() + self.cc.len() + self.bcc.len();
        f.debug_struct("EmailParts").field("recipients", &recipients).field("headers", &self.headers.len()).finish()
    }
}

impl EmailParts {
    /// Who it is from, and the envelope sender. Needed.
    pub fn from(mut self, mailbox: impl Into<String>) -> Self {
        self.from = Some(mailbox.into());
        self
    }

    /// Where answers go.
    pub fn reply_to(mut self, mailbox: impl Into<String>) -> Self {
        self.reply_to = Some(mailbox.into());
        self
    }

    /// One more recipient.
    pub fn to(mut self, mailbox: impl Into<String>) -> Self {
        self.to.push(mailbox.into());
        self
    }

    /// One more recipient of a copy.
    pub fn cc(mut self, mailbox: impl Into<String>) -> Self {
        self.cc.push(mailbox.into());
        self
    }

    /// One more recipient that the others do not see: it is in the envelope and not in the bytes.
    pub fn bcc(mut self, mailbox: impl Into<String>) -> Self {
        self.bcc.push(mailbox.into());
        self
    }

    /// The subject; empty by default.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }

    /// The body as plain text.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The body as HTML; with [`text`](Self::text) too, readers choose.
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// The `Message-ID`, angle brackets included. By default one is minted (UUIDv7 at the sender's domain).
    pub fn message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// The `Date`. By default the instant of [`build`](Self::build).
    pub fn date(mut self, date: SystemTime) -> Self {
        self.date = Some(date);
        self
    }

    /// One more header field.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Checks every part and puts them together.
    ///
    /// Whoever may submit it again under the same operation id, after a crash say, builds it again from the same parts: an
    /// email whose `Message-ID` or `Date` was left to us has the [fingerprint](Email::fingerprint) of its parts.
    ///
    /// # Errors
    /// [`EmailError`] names the part, with its position in a list.
    pub fn build(self) -> Result<Email, EmailError> {
        let count = self.to.len() + self.cc.len() + self.bcc.len();
        let max = EmailBounds::DEFAULT.recipients_max;
        if count == 0 {
            return Err(EmailError::NoRecipients);
        }
        if count > max {
            return Err(EmailError::TooManyRecipients { count, max });
        }
        let from = self.from.as_deref().ok_or(EmailError::Missing { field: Field::one("from") })?;
        let from = mailbox(from, Field::one("from"))?;
        let (to, cc) = (mailboxes(&self.to, "to")?, mailboxes(&self.cc, "cc")?);
        let bcc = mailboxes(&self.bcc, "bcc")?;
        let recipients: Vec<String> = [&to, &cc, &bcc].into_iter().flatten().map(|m| m.email.to_string()).collect();
        let sender = from.email.to_string();

        let mut builder = Message::builder().message_id(Some(self.id(&sender)?)).from(from);
        builder = to.into_iter().fold(builder, lettre::message::MessageBuilder::to);
        builder = cc.into_iter().fold(builder, lettre::message::MessageBuilder::cc);
        if let Some(reply_to) = &self.reply_to {
            builder = builder.reply_to(mailbox(reply_to, Field::one("reply_to"))?);
        }
        if let Some(date) = self.date {
            builder = builder.date(date);
        }
        value(&self.subject, Field::one("subject"))?;
        builder = builder.subject(self.subject.as_str());
        for header in self.extra_headers()? {
            builder = builder.raw_header(header);
        }
        let envelope = envelope(&sender, &recipients)?;
        let of_parts = self.fingerprint();
        let message = self.body(builder.envelope(envelope))?;
        Email::checked(&sender, recipients, message.formatted().into(), of_parts)
    }

    /// Of everything that was given; `None` where that is enough to make the same bytes again.
    fn fingerprint(&self) -> Option<u64> {
        if self.message_id.is_some() && self.date.is_some() {
            return None;
        }
        let mut hasher = fnv::FnvHasher::default();
        let mut field = |part: Option<&str>| {
            let part = part.map_or(&[][..], str::as_bytes);
            hasher.write(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.write(part);
        };
        let date = self.date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        let date = date.map(|date| date.as_secs().to_string());
        [&self.from, &self.reply_to, &self.text, &self.html, &self.message_id, &date]
            .into_iter()
            .for_each(|part| field(part.as_deref()));
        field(Some(&self.subject));
        for list in [&self.to, &self.cc, &self.bcc] {
            list.iter().for_each(|address| field(Some(address)));
            field(None);
        }
        self.headers.iter().for_each(|(name, value)| {
            field(Some(name));
            field(Some(value));
        });
        Some(hasher.finish())
    }

    fn id(&self, sender: &str) -> Result<String, EmailError> {
        match &self.message_id {
            Some(id) if header::is_message_id(id) && id.is_ascii() => Ok(id.clone()),
            Some(_) => Err(EmailError::MessageId),
            None => Ok(format!("<{}@{}>", uuid::Uuid::now_v7(), address::domain(sender))),
        }
    }

    fn extra_headers(&self) -> Result<Vec<HeaderValue>, EmailError> {
        if self.headers.len() > HEADERS_MAX {
            return Err(EmailError::TooMany {
                field: Field::one("headers"),
                count: self.headers.len(),
                max: HEADERS_MAX,
            });
        }
        let check = |(index, (name, text)): (usize, &(String, String))| {
            let field = Field::item("headers", index);
            let refuse = |reason| EmailError::HeaderName { field, reason };
            let content = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"));
            if content || RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
                return Err(refuse("it is written from the other parts"));
            }
            value(text, field)?;
            let sound = header::is_name(name.as_bytes());
            let name = HeaderName::new_from_ascii(name.clone());
            match name {
                Ok(name) if sound => Ok(HeaderValue::new(name, text.clone())),
                _ => Err(refuse("use up to 76 printable ASCII characters without colon or space")),
            }
        };
        self.headers.iter().enumerate().map(check).collect()
    }

    fn body(self, builder: lettre::message::MessageBuilder) -> Result<Message, EmailError> {
        let built = match (self.text, self.html) {
            (Some(text), Some(html)) => builder.multipart(
                MultiPart::alternative()
                    .boundary(boundary(&text, &html))
                    .singlepart(SinglePart::plain(text))
                    .singlepart(SinglePart::html(html)),
            ),
            (Some(text), None) => builder.singlepart(SinglePart::plain(text)),
            (None, Some(html)) => builder.singlepart(SinglePart::html(html)),
            (None, None) => return Err(EmailError::Missing { field: Field::one("text") }),
        };
        built.map_err(|_| EmailError::Parts { reason: "the builder refused them" })
    }
}

impl Email {
    /// An email from plain parts.
    pub fn parts() -> EmailParts {
        EmailParts::default()
    }
}

/// The envelope and the formatted bytes of a message built elsewhere.
impl TryFrom<Message> for Email {
    type Error = EmailError;

    fn try_from(message: Message) -> Result<Self, EmailError> {
        let envelope = message.envelope();
        let sender = envelope.from().ok_or(EmailError::Missing { field: Field::one("sender") })?;
        Self::from_mime(sender.as_ref(), envelope.to(), message.formatted())
    }
}

/// A boundary that stands in neither, and is the same for the same two: the library's own is random.
fn boundary(text: &str, html: &str) -> String {
    let mut hasher = fnv::FnvHasher::default();
    [text, html].into_iter().for_each(|part| hasher.write(part.as_bytes()));
    loop {
        let boundary = format!("mailweir-{:016x}", hasher.finish());
        if !text.contains(&boundary) && !html.contains(&boundary) {
            return boundary;
        }
        hasher.write(b"again");
    }
}

fn envelope(sender: &str, recipients: &[String]) -> Result<lettre::address::Envelope, EmailError> {
    // Every address was parsed by lettre before; the envelope is given explicitly so that `Bcc` never enters a header.
    let broken = |_| EmailError::Parts { reason: "the envelope was refused" };
    let to = recipients.iter().map(|r| r.parse().map_err(broken)).collect::<Result<Vec<_>, _>>()?;
    let from = sender.parse().map_err(broken)?;
    lettre::address::Envelope::new(Some(from), to).map_err(|_| EmailError::NoRecipients)
}

fn mailboxes(list: &[String], name: &'static str) -> Result<Vec<Mailbox>, EmailError> {
    list.iter().enumerate().map(|(index, text)| mailbox(text, Field::item(name, index))).collect()
}

fn mailbox(text: &str, field: Field) -> Result<Mailbox, EmailError> {
    address::control_free(text, field)?;
    if text.len() > MAILBOX_BYTES_MAX {
        return Err(EmailError::TooLong { field, bytes: text.len(), max: MAILBOX_BYTES_MAX });
    }
    if !text.contains('<') {
        address::check(text.trim(), field)?;
    }
    let fault = AddressFault::Mailbox;
    let mailbox: Mailbox = text.trim().parse().map_err(|_| EmailError::Address { field, fault })?;
    address::check(mailbox.email.as_ref(), field)?;
    Ok(mailbox)
}

fn value(text: &str, field: Field) -> Result<(), EmailError> {
    address::control_free(text, field)?;
    if text.len() > HEADER_BYTES_MAX {
        return Err(EmailError::TooLong { field, bytes: text.len(), max: HEADER_BYTES_MAX });
    }
    Ok(())
}
