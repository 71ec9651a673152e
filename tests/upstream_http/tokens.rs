//! Who gets in.

use std::time::Duration;

use mailweir::upstream::Model;
use mailweir::upstream::http::{ServerOptions, UpstreamServer};

use crate::{World, body, header};

#[tokio::test]
async fn a_token_is_given_for_the_right_secret_and_for_nothing_else() {
    let world = World::new(Model::new([])).await;
    let rows = [
        ("client_credentials", "mailweir", "upstream-secret", 200, None),
        ("client_credentials", "mailweir", "wrong", 401, Some("invalid_client")),
        ("client_credentials", "other", "upstream-secret", 400, Some("unauthorized_client")),
        ("password", "mailweir", "upstream-secret", 400, Some("unsupported_grant_type")),
    ];
    for (grant, id, secret, status, error) in rows {
        let answer = world.token_request(grant, id, secret).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{grant} {id}");
        let body = body(answer).await;
        assert_eq!(body["error"].as_str(), error);
        assert_eq!(body["expires_in"].as_u64(), error.is_none().then_some(3_600));
    }
}

#[tokio::test]
async fn a_token_works_until_it_expires_and_a_refused_one_is_not_counted() {
    let mut options = ServerOptions::default();
    options.token_lifetime = Duration::from_secs(100);
    let world = World::with(Model::new([]), options).await;
    world.advance(Duration::from_micros(99_999_999));
    assert_eq!(world.send("<1@x>").send().await.expect("an answer").status(), 202);
    world.advance(Duration::from_micros(1));
    let expired = world.send("<2@x>").send().await.expect("an answer");
    assert_eq!(expired.status(), 401);
    assert!(header(&expired, "www-authenticate").is_some());
    assert_eq!(body(expired).await["error"]["code"], "InvalidAuthenticationToken");
    assert_eq!(world.logged(), [202]);
}

#[tokio::test]
async fn without_a_token_of_this_server_nothing_is_sent() {
    let (world, other) = (World::new(Model::new([])).await, World::new(Model::new([])).await);
    let url = format!("{}/v1.0/users/a@x.example/sendMail", world.server.url());
    let none = world.client.post(&url).json(&crate::email("<1@x>"));
    let foreign = world.client.post(&url).json(&crate::email("<1@x>")).bearer_auth(&other.token);
    let basic = world.client.post(&url).json(&crate::email("<1@x>")).basic_auth("mailweir", Some("upstream-secret"));
    for request in [none, foreign, basic] {
        assert_eq!(request.send().await.expect("an answer").status(), 401);
    }
    assert!(world.logged().is_empty());
}

#[tokio::test]
async fn no_secret_appears_in_a_debug_form() {
    let options = ServerOptions::default();
    let server = UpstreamServer::start(mailweir::upstream::Upstream::new(Model::new([]), 1), || {
        mailweir::engine::Timestamp::EPOCH
    })
    .await
    .expect("a free port");
    assert!(!format!("{options:?} {server:?}").contains(&options.client_secret));
}
