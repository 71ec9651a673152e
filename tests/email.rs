//! An email is checked once, names the field at fault, and never shows its content.
#![cfg(feature = "runtime")]

use mailweir::email::{AddressFault, Email, EmailBounds, EmailError};

const MIME: &[u8] =
    b"From: noreply@contoso.example\r\nTo: ann@fabrikam.example\r\nMessage-ID: <1@contoso.example>\r\n\r\nHello\r\n";

fn email(recipients: &[&str], mime: &[u8]) -> Result<Email, EmailError> {
    Email::from_mime("noreply@contoso.example", recipients, mime)
}

fn fault(address: &str) -> Option<AddressFault> {
    match email(&["ann@fabrikam.example", address], MIME) {
        Ok(_) => None,
        Err(EmailError::Address { field, fault }) => {
            assert_eq!(field.to_string(), "recipients[1]");
            Some(fault)
        }
        Err(other) => panic!("{address:?}: {other}"),
    }
}

#[test]
fn an_email_keeps_its_envelope_and_its_bytes() {
    let email = email(&["ann@fabrikam.example", "bob@contoso.example"], MIME).unwrap();
    assert_eq!(email.sender(), "noreply@contoso.example");
    assert_eq!(email.recipients().collect::<Vec<_>>(), ["ann@fabrikam.example", "bob@contoso.example"]);
    assert_eq!(email.mime(), MIME);
    assert!(std::ptr::eq(email.mime(), email.clone().mime()), "a clone shares the bytes");
}

#[test]
fn debug_shows_counts_and_no_content() {
    let shown = format!("{:?}", email(&["ann@fabrikam.example"], MIME).unwrap());
    assert_eq!(shown, format!("Email {{ recipients: 1, bytes: {} }}", MIME.len()));
}

#[test]
fn no_recipients_are_refused() {
    assert_eq!(email(&[], MIME).unwrap_err(), EmailError::NoRecipients);
}

#[test]
fn recipients_are_taken_up_to_the_bound_and_refused_above_it() {
    let many = |n: usize| Email::from_mime("a@b.example", (0..n).map(|i| format!("r{i}@b.example")), MIME);
    assert_eq!(many(1_000).unwrap().recipients().len(), 1_000);
    assert_eq!(many(1_001).unwrap_err(), EmailError::TooManyRecipients { count: 1_001, max: 1_000 });
    assert_eq!(many(5_000).unwrap_err(), EmailError::TooManyRecipients { count: 1_001, max: 1_000 }, "counting stops");
    assert_eq!(many(500).unwrap().check(EmailBounds::GRAPH), Ok(()));
    let refused = many(501).unwrap().check(EmailBounds::GRAPH);
    assert_eq!(refused, Err(EmailError::TooManyRecipients { count: 501, max: 500 }));
}

#[test]
fn bytes_are_taken_up_to_the_bound_and_refused_above_it() {
    let sized = email(&["ann@fabrikam.example"], MIME).unwrap();
    assert_eq!(sized.check(EmailBounds::DEFAULT.bytes_max(MIME.len())), Ok(()));
    let max = MIME.len() - 1;
    let refused = sized.check(EmailBounds::DEFAULT.bytes_max(max));
    assert_eq!(refused, Err(EmailError::TooLarge { bytes: MIME.len(), max }));
}

#[test]
fn a_control_character_in_an_address_is_refused_with_its_position() {
    for (address, at) in [
        ("ann@fabrikam.example\r\nBcc: eve@evil.example", 20),
        ("ann@fabrikam.example\n", 20),
        ("a\0nn@fabrikam.example", 1),
        ("ann\u{85}@fabrikam.example", 3),
        ("ann\u{2028}@fabrikam.example", 3),
    ] {
        let refused = email(&[address], MIME).unwrap_err();
        assert!(
            matches!(refused, EmailError::ControlCharacter { field, at: found }
            if field.to_string() == "recipients[0]" && found == at),
            "{address:?}: {refused}"
        );
    }
}

#[test]
fn the_form_of_an_address_is_checked() {
    for good in [
        "ann@fabrikam.example",
        "ann+tag@fabrikam.example",
        "o'hara@fabrikam.example",
        "\"ann smith\"@fabrikam.example",
        "ann@localhost",
        "ann@[192.0.2.1]",
        "ann@[IPv6:2001:db8::1]",
        "жанна@пример.example",
    ] {
        assert_eq!(fault(good), None, "{good}");
    }
    for (bad, why) in [
        ("", AddressFault::Empty),
        ("ann", AddressFault::NoAt),
        ("@fabrikam.example", AddressFault::Local),
        ("ann smith@fabrikam.example", AddressFault::Local),
        ("Ann <ann@fabrikam.example>", AddressFault::Local),
        ("ann@eve@fabrikam.example", AddressFault::Local),
        ("ann,bob@fabrikam.example", AddressFault::Local),
        ("\"ann\"smith\"@fabrikam.example", AddressFault::Local),
        ("ann@", AddressFault::Domain),
        ("ann@fabrikam..example", AddressFault::Domain),
        ("ann@-fabrikam.example", AddressFault::Domain),
        ("ann@fabrikam.example>", AddressFault::Domain),
        ("ann@[999.0.2.1]", AddressFault::Domain),
    ] {
        assert_eq!(fault(bad), Some(why), "{bad:?}");
    }
}

#[test]
fn an_address_is_taken_up_to_its_length_and_refused_above_it() {
    let local = "a".repeat(64);
    let label = "b".repeat(63);
    let longest = format!("{local}@{label}.{label}.{label}.{label}");
    assert_eq!(longest.len(), 320);
    assert_eq!(fault(&longest), None);
    assert_eq!(fault(&format!("a{local}@fabrikam.example")), Some(AddressFault::Local));
    let refused = email(&[&format!("{longest}c")], MIME).unwrap_err();
    assert!(matches!(refused, EmailError::TooLong { bytes: 321, max: 320, .. }), "{refused}");
}

#[test]
fn a_refusal_names_the_field_and_never_the_content() {
    let secret = "eve secret@fabrikam.example";
    for refused in [
        email(&[secret], MIME).unwrap_err(),
        email(&["evesecret\n@fabrikam.example"], MIME).unwrap_err(),
        Email::from_mime(secret, ["ann@fabrikam.example"], MIME).unwrap_err(),
        email(&["ann@fabrikam.example"], b"secret\r\n\r\nsecret").unwrap_err(),
    ] {
        let shown = format!("{refused} {refused:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(refused.field().is_some());
    }
}

#[test]
fn bytes_without_a_header_block_are_refused_with_the_line() {
    for (mime, line) in [
        (&b""[..], 1),
        (b"\r\nbody only", 1),
        (b" folded: first\r\n\r\n", 1),
        (b"Subject: ok\r\nno colon here\r\n\r\n", 2),
        (b"Subject: ok\r\nX: nul\0\r\n\r\n", 2),
        (b"Subject: ok\rX: bare\r\n\r\n", 1),
    ] {
        let refused = email(&["ann@fabrikam.example"], mime);
        assert_eq!(refused.unwrap_err(), EmailError::Header { line }, "{}", String::from_utf8_lossy(mime));
    }
    assert!(email(&["ann@fabrikam.example"], b"Subject: bare line feeds\nTo: ann\n\nbody\0with nul").is_ok());
}

#[test]
fn cost_counts_requests_recipients_externals_and_base64_bytes() {
    let email = email(&["ann@fabrikam.example", "bob@CONTOSO.example", "cid@eu.contoso.example"], MIME).unwrap();
    let cost = email.cost(&["contoso.example"]);
    assert_eq!((cost.requests, cost.recipients, cost.external_recipients, cost.quota_units), (1, 3, 2, 0));
    assert_eq!(cost.bytes, MIME.len().div_ceil(3) as u64 * 4);
    assert_eq!(email.cost::<&str>(&[]).external_recipients, 3);
}

#[test]
fn the_fingerprint_is_stable_and_tells_contents_apart() {
    let one = email(&["ann@fabrikam.example"], MIME).unwrap();
    assert_eq!(one.fingerprint(), email(&["ann@fabrikam.example"], MIME).unwrap().fingerprint());
    // Stored beside idempotency keys: another value would turn every stored repeat into a conflict.
    assert_eq!(one.fingerprint(), FINGERPRINT, "{:#x}", one.fingerprint());
    for other in [
        email(&["ann@fabrikam.example", "bob@fabrikam.example"], MIME).unwrap(),
        email(&["bob@fabrikam.example"], MIME).unwrap(),
        email(&["ann@fabrikam.example"], b"Subject: x\r\n\r\n").unwrap(),
        Email::from_mime("noreply@contoso.exampl", ["eann@fabrikam.example"], MIME).unwrap(),
    ] {
        assert_ne!(one.fingerprint(), other.fingerprint());
    }
}

/// Computed apart from the code under test, from the definition of FNV-1a.
const FINGERPRINT: u64 = 0x98e4_38dc_b5ee_0d09;

#[test]
fn the_message_id_is_read_from_the_header_block_alone() {
    let id = |mime: &str| {
        let email = email(&["ann@fabrikam.example"], mime.as_bytes()).unwrap();
        email.internet_message_id().map(str::to_owned)
    };
    assert_eq!(id("Message-ID: <1@a.example>\r\n\r\n").as_deref(), Some("<1@a.example>"));
    assert_eq!(id("From: a\r\nmessage-id:\r\n  <1@a.example>\r\nTo: b\r\n\r\n").as_deref(), Some("<1@a.example>"));
    assert_eq!(id("From: a\n\nMessage-ID: <1@a.example>\n"), None, "in the body");
    assert_eq!(id("X-Message-ID: <1@a.example>\r\n\r\n"), None);
    for bad in ["1@a.example", "<a.example>", "<1@a.example", "<1 2@a.example>", "<@a>", "<a@>", "<1@a>,<2@a>", ""] {
        assert_eq!(id(&format!("Message-ID: {bad}\r\n\r\n")), None, "{bad}");
    }
}

#[cfg(feature = "lettre")]
mod parts {
    use super::*;

    fn parts() -> mailweir::email::EmailParts {
        Email::parts().from("Contoso <noreply@contoso.example>").to("ann@fabrikam.example").text("Hello")
    }

    fn mime(email: &Email) -> String {
        String::from_utf8_lossy(email.mime()).into_owned()
    }

    #[test]
    fn parts_become_an_envelope_and_mime() {
        let email = parts()
            .cc("Bob <bob@fabrikam.example>")
            .bcc("eve@fabrikam.example")
            .subject("Grüße")
            .html("<p>Hello</p>")
            .message_id("<7@contoso.example>")
            .header("X-Campaign", "spring")
            .build()
            .unwrap();
        assert_eq!(email.sender(), "noreply@contoso.example");
        let recipients: Vec<_> = email.recipients().collect();
        assert_eq!(recipients, ["ann@fabrikam.example", "bob@fabrikam.example", "eve@fabrikam.example"]);
        let mime = mime(&email);
        assert!(!mime.contains("eve@"), "a blind copy shows in no header");
        assert!(mime.contains("X-Campaign: spring\r\n") && mime.contains("multipart/alternative"), "{mime}");
        assert!(mime.contains("Subject: =?utf-8?"), "{mime}");
        assert_eq!(email.internet_message_id(), Some("<7@contoso.example>"));
    }

    #[test]
    fn a_message_id_is_minted_at_the_senders_domain() {
        let (one, two) = (parts().build().unwrap(), parts().build().unwrap());
        let id = one.internet_message_id().unwrap();
        assert!(id.ends_with("@contoso.example>"), "{id}");
        assert_ne!(Some(id), two.internet_message_id());
    }

    /// A crash between two buildings must not make a conflict of the same email.
    #[test]
    fn the_same_parts_are_the_same_email_whatever_was_minted() {
        let both = || parts().html("<p>Hello</p>");
        for build in [parts, both] {
            let email = || build().build().unwrap();
            assert_ne!(email().internet_message_id(), email().internet_message_id());
            assert_eq!(email().fingerprint(), email().fingerprint());
            for other in [
                build().subject("Hi"),
                build().text("hello"),
                build().to("bob@fabrikam.example"),
                build().cc("ann@fabrikam.example"),
                build().header("X-Campaign", "spring"),
                build().reply_to("help@contoso.example"),
                build().message_id("<7@contoso.example>"),
            ] {
                assert_ne!(other.build().unwrap().fingerprint(), email().fingerprint());
            }
            let date = std::time::UNIX_EPOCH;
            let whole = || build().message_id("<7@contoso.example>").date(date).build().unwrap();
            assert_eq!(mime(&whole()), mime(&whole()), "nothing is minted, so the bytes are the same");
            let from_bytes = Email::from_mime(whole().sender(), whole().recipients(), whole().mime()).unwrap();
            assert_eq!(from_bytes.fingerprint(), whole().fingerprint());
        }
    }

    #[test]
    fn header_injection_is_refused_in_every_part() {
        const EVIL: &str = "x\r\nBcc: eve@evil.example";
        for (part, refused) in [
            ("from", parts().from(format!("{EVIL} <a@b.example>")).build()),
            ("reply_to", parts().reply_to(EVIL).build()),
            ("to[1]", parts().to(EVIL).build()),
            ("cc[0]", parts().cc(EVIL).build()),
            ("bcc[0]", parts().bcc(EVIL).build()),
            ("subject", parts().subject(EVIL).build()),
            ("headers[0]", parts().header("X-A", EVIL).build()),
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, EmailError::ControlCharacter { .. }), "{part}: {refused}");
            assert_eq!(refused.field().unwrap().to_string(), part);
        }
        let refused = parts().message_id("<1@a>\r\nBcc: eve@evil.example").build().unwrap_err();
        assert_eq!(refused, EmailError::MessageId);
    }

    #[test]
    fn header_names_that_are_ours_or_no_names_are_refused() {
        for name in ["Bcc", "from", "Content-Type", "content-transfer-encoding", "X A", "X:A", "", "X\r\nBcc", "Ü"] {
            let refused = parts().header("X-Fine", "1").header(name, "v").build().unwrap_err();
            assert!(matches!(refused, EmailError::HeaderName { field, .. } if field.index() == Some(1)), "{name:?}");
        }
    }

    #[test]
    fn missing_parts_and_bounds_are_named() {
        assert_eq!(Email::parts().from("a@b.example").text("x").build().unwrap_err(), EmailError::NoRecipients);
        let no_from = Email::parts().to("a@b.example").text("x").build().unwrap_err();
        assert_eq!(no_from.field().unwrap().to_string(), "from");
        let no_body = Email::parts().from("a@b.example").to("a@b.example").build().unwrap_err();
        assert_eq!(no_body.field().unwrap().to_string(), "text");
        let many = |n| (0..n).fold(parts(), |p, i| p.bcc(format!("r{i}@b.example"))).build();
        assert_eq!(many(999).unwrap().recipients().len(), 1_000);
        assert_eq!(many(1_000).unwrap_err(), EmailError::TooManyRecipients { count: 1_001, max: 1_000 });
        let headers = |n| (0..n).fold(parts(), |p, i| p.header(format!("X-{i}"), "v")).build();
        assert!(headers(64).is_ok());
        assert!(matches!(headers(65), Err(EmailError::TooMany { count: 65, max: 64, .. })));
        let subject = |n| parts().subject("s".repeat(n)).build();
        assert!(subject(8_192).is_ok());
        assert!(matches!(subject(8_193), Err(EmailError::TooLong { bytes: 8_193, .. })));
    }

    #[test]
    fn a_lettre_message_keeps_its_blind_recipients_in_the_envelope() {
        let message = lettre::Message::builder()
            .from("noreply@contoso.example".parse().unwrap())
            .to("ann@fabrikam.example".parse().unwrap())
            .bcc("eve@fabrikam.example".parse().unwrap())
            .subject("x")
            .body(String::from("Hello"))
            .unwrap();
        let email = Email::try_from(message.clone()).unwrap();
        assert_eq!(email.recipients().collect::<Vec<_>>(), ["ann@fabrikam.example", "eve@fabrikam.example"]);
        assert_eq!(email.mime(), message.formatted());
        assert_eq!(email.internet_message_id(), None);
    }
}
