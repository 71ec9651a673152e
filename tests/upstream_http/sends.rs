//! Sends, throttles, and what the log says of them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use mailweir::engine::{Lane, Ratio, ScopeKind, Unit};
use mailweir::upstream::http::ServerOptions;
use mailweir::upstream::{Algorithm, ConcurrencyLimit, Model, RetryAfterPolicy, ScopeHeader, UpstreamLimit, check};
use serde_json::json;

use crate::{MINUTE, World, body, header, per_minute, slow, until};

#[tokio::test]
async fn a_json_send_is_accepted_with_an_empty_body_and_logged_as_it_was_sent() {
    let world = World::new(Model::new([])).await;
    let message = json!({"message": {"internetMessageId": "<7@x>",
        "toRecipients": [{"emailAddress": {"address": "b@X.example", "name": "B"}}],
        "ccRecipients": [{"emailAddress": {"address": "c@y.example"}}],
        "bccRecipients": [{"emailAddress": {"address": "d@z.example"}}]}, "saveToSentItems": true});
    let bytes = message.to_string().len() as u64;
    let request = world.post("users/a%40x.example/sendMail").json(&message);
    let request = request.header("x-ms-throttle-priority", "High").header("client-request-id", "mine");
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 202);
    assert_eq!(header(&answer, "client-request-id").as_deref(), Some("mine"));
    assert_eq!(header(&answer, "date").as_deref(), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
    let request_id = header(&answer, "request-id").expect("an id");
    let groups: Vec<_> = request_id.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12], "{request_id}");
    assert_eq!(answer.text().await.expect("a body"), "");
    let log = world.server.log();
    let [arrival] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!((&*arrival.mailbox, arrival.tenant.as_deref()), ("a@x.example", Some("contoso")));
    assert_eq!((&*arrival.key, arrival.lane, arrival.executed), ("<7@x>", Some(Lane::Foreground), true));
    assert_eq!((arrival.cost.recipients, arrival.cost.external_recipients), (3, 2));
    assert_eq!(arrival.cost.bytes, bytes);
}

#[tokio::test]
async fn a_mime_send_counts_the_recipients_of_its_headers_and_the_bytes_on_the_wire() {
    let world = World::new(Model::new([])).await;
    let mime = "From: a@x.example\r\nTo: \"B, b\" <b@y.example>,\r\n c@y.example\r\nBcc: d@x.example\r\n\
        Message-ID: <m@x>\r\nSubject: s\r\n\r\nTo: not@a.header\r\n";
    assert_eq!(world.mime(mime).send().await.expect("an answer").status(), 202);
    let log = world.server.log();
    assert_eq!((log[0].cost.recipients, log[0].cost.external_recipients), (3, 2));
    assert_eq!(log[0].cost.bytes, (mime.len() as u64).div_ceil(3) * 4);
    assert_eq!(&*log[0].key, "<m@x>");
}

#[tokio::test]
async fn a_bad_body_is_refused_with_its_code_and_counts_as_a_request() {
    let world = World::new(per_minute(3)).await;
    let not_base64 = world.post("users/a@x.example/sendMail").header("content-type", "text/plain").body("%%%");
    let no_recipients = world.mime("Subject: s\r\n\r\n");
    let no_message = world.post("users/a@x.example/sendMail").json(&json!({}));
    let rows = [
        (not_base64, "ErrorMimeContentInvalidBase64String"),
        (no_recipients, "ErrorInvalidRecipients"),
        (no_message, "ErrorInvalidRequest"),
    ];
    for (request, code) in rows {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 400);
        let body = body(answer).await;
        assert_eq!(body["error"]["code"], code);
        assert!(body["error"]["innerError"]["request-id"].is_string() && body["error"]["message"].is_string());
    }
    assert_eq!(world.send("<1@x>").send().await.expect("an answer").status(), 429);
    assert_eq!(world.logged(), [400, 400, 400, 429]);
    assert_eq!(check::counts(&world.server.log()).executed, 0);
}

#[tokio::test]
async fn the_send_above_the_limit_is_throttled_until_the_instant_it_is_told() {
    let mut model = per_minute(2);
    (model.scope_header, model.usage_from) = (ScopeHeader::Path, Some(Ratio::percent(80)));
    let world = World::new(model).await;
    assert_eq!(header(&world.send("<1@x>").send().await.expect("an answer"), "x-ms-throttle-limit-percentage"), None);
    let full = world.send("<2@x>").send().await.expect("an answer");
    assert_eq!(header(&full, "x-ms-throttle-limit-percentage").as_deref(), Some("1.00"));
    world.advance(Duration::from_millis(20_500));
    let throttled = world.send("<3@x>").send().await.expect("an answer");
    assert_eq!(throttled.status(), 429);
    assert_eq!(header(&throttled, "retry-after").as_deref(), Some("40"));
    assert_eq!(header(&throttled, "x-ms-throttle-scope").as_deref(), Some("User/ReadWrite/mailweir/a@x.example"));
    assert_eq!(body(throttled).await["error"]["code"], "TooManyRequests");
    world.advance(Duration::from_secs(39));
    assert_eq!(world.send("<3@x>").send().await.expect("an answer").status(), 429);
    world.advance(Duration::from_secs(1));
    assert_eq!(world.send("<3@x>").send().await.expect("an answer").status(), 202);
}

#[tokio::test]
async fn each_scope_has_its_words_in_the_header() {
    let rows = [
        (ScopeKind::Tenant, ScopeHeader::Path, "Tenant_Application/ReadWrite/mailweir/contoso"),
        (ScopeKind::Application, ScopeHeader::Path, "Application/ReadWrite/mailweir/contoso"),
        (ScopeKind::Application, ScopeHeader::Word, "Application"),
        (ScopeKind::Mailbox, ScopeHeader::Word, "User"),
    ];
    for (scope, form, expected) in rows {
        let mut model = Model::new([UpstreamLimit::requests(0, MINUTE).at_scope(scope)]);
        model.scope_header = form;
        let throttled = World::new(model).await.send("<1@x>").send().await.expect("an answer");
        assert_eq!(header(&throttled, "x-ms-throttle-scope").as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn retry_after_comes_in_every_form() {
    let rows = [
        (RetryAfterPolicy::None, None),
        (RetryAfterPolicy::Constant(1), Some("1")),
        (RetryAfterPolicy::Malformed("30,120".into()), Some("30,120")),
        (RetryAfterPolicy::Date, Some("Tue, 14 Nov 2023 22:14:20 GMT")), // a minute after its own Date
    ];
    for (policy, expected) in rows {
        let mut model = per_minute(1);
        model.retry_after = policy;
        let world = World::new(model).await;
        assert_eq!(world.send("<1@x>").send().await.expect("an answer").status(), 202);
        let throttled = world.send("<2@x>").send().await.expect("an answer");
        assert_eq!(header(&throttled, "retry-after").as_deref(), expected);
    }
}

#[tokio::test]
async fn recipients_are_a_budget_of_their_own() {
    let recipients =
        UpstreamLimit::new(ScopeKind::Mailbox, Unit::Recipients, 5, Duration::from_secs(86_400), Algorithm::Rolling);
    let world = World::new(Model::new([recipients])).await;
    let to = |list: &str| format!("To: {list}\r\n\r\n");
    assert_eq!(world.mime(&to("a@y, b@y, c@y")).send().await.expect("an answer").status(), 202);
    assert_eq!(world.mime(&to("a@y, b@y, c@y")).send().await.expect("an answer").status(), 429);
    assert_eq!(world.mime(&to("a@y, b@y")).send().await.expect("an answer").status(), 202);
}

#[tokio::test]
async fn one_send_too_many_at_once_is_a_concurrency_throttle_and_shutdown_answers_the_rest() {
    let mut model = Model::new([]);
    model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 1)];
    slow(&mut model, Duration::from_secs(300));
    let world = World::new(model).await;
    let first = tokio::spawn(world.send("<1@x>").send());
    until(|| world.logged().len() == 1).await;
    let second = world.send("<2@x>").send().await.expect("an answer");
    assert_eq!((second.status().as_u16(), header(&second, "retry-after").as_deref()), (429, Some("1")));
    let error = body(second).await;
    assert_eq!(error["error"]["code"], "ApplicationThrottled");
    assert!(error["error"]["message"].as_str().is_some_and(|message| message.contains("MailboxConcurrency")));
    world.server.shutdown().await;
    assert_eq!(first.await.expect("no panic").expect("an answer").status(), 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_sends_at_once_are_twenty_arrivals_and_the_limit_holds() {
    let world = World::new(per_minute(12)).await;
    let ids: BTreeSet<String> = (0..20).map(|n| format!("<{n}@x>")).collect();
    let statuses =
        join_all(ids.iter().map(|id| async { world.send(id).send().await.expect("an answer").status() })).await;
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 12);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 8);
    let log = world.server.log();
    let logged: BTreeSet<String> = log.iter().map(|arrival| arrival.key.to_string()).collect();
    assert_eq!((log.len(), logged), (20, ids));
    let counts = check::counts(&log);
    assert_eq!((counts.accepted, counts.refused, counts.duplicates), (12, 8, 0));
}

#[tokio::test]
async fn sent_items_show_each_copy_once_its_lag_is_over() {
    let world = World::new(Model::new([])).await;
    for id in ["<o'neil@x>", "<twice@x>", "<twice@x>"] {
        assert_eq!(world.send(id).send().await.expect("an answer").status(), 202);
    }
    let mut unsaved = crate::email("<unsaved@x>");
    unsaved["saveToSentItems"] = false.into();
    let answer = world.post("users/a@x.example/sendMail").json(&unsaved).send().await.expect("an answer");
    assert_eq!(answer.status(), 202);
    world.advance(Duration::from_micros(1_999_999));
    assert_eq!(world.copies("<o'neil@x>").await, 0);
    world.advance(Duration::from_micros(1));
    assert_eq!(world.copies("<o'neil@x>").await, 1);
    assert_eq!(world.copies("<twice@x>").await, 2);
    assert_eq!([world.copies("<unsaved@x>").await, world.copies("<other@x>").await], [0, 0]);
    assert_eq!(world.logged().len(), 4, "reads are not logged");
}

#[tokio::test]
async fn a_body_over_the_bound_is_413_and_at_the_bound_it_is_read() {
    let mut options = ServerOptions::default();
    options.body_bytes_max = crate::email("<1@x>").to_string().len();
    let world = World::with(Model::new([]), options).await;
    assert_eq!(world.send("<1@x>").send().await.expect("an answer").status(), 202);
    let large = world.send("<11@x>").send().await.expect("an answer");
    assert_eq!(large.status(), 413);
    assert_eq!(body(large).await["error"]["code"], "ErrorMessageSizeExceeded");
    assert_eq!(world.logged(), [202]);
}

#[tokio::test]
async fn what_is_not_there_is_404() {
    let world = World::new(Model::new([])).await;
    for path in ["users/a@x.example/send", "me/sendMail", "$batches"] {
        assert_eq!(world.post(path).json(&json!({})).send().await.expect("an answer").status(), 404, "{path}");
    }
    let inbox = format!("{}/v1.0/users/a@x.example/mailFolders/inbox/messages", world.server.url());
    assert_eq!(world.client.get(inbox).bearer_auth(&world.token).send().await.expect("an answer").status(), 404);
}
