//! Drafts: created, found, sent once, gone.

use mailweir::upstream::Model;
use mailweir::upstream::http::ServerOptions;
use serde_json::{Value, json};

use crate::{MINUTE, World, body, email, per_minute};

async fn create(world: &World, id: &str) -> (u16, Value) {
    let answer = world.post("users/a@x.example/messages").json(&email(id)["message"]).send().await.expect("an answer");
    (answer.status().as_u16(), body(answer).await)
}

fn escaped(id: &Value) -> String {
    id.as_str().expect("an id").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

async fn send(world: &World, draft: &Value) -> u16 {
    let path = format!("users/a@x.example/messages/{}/send", escaped(draft));
    world.post(&path).send().await.expect("an answer").status().as_u16()
}

async fn get(world: &World, path: &str) -> (u16, Value) {
    let url = format!("{}/v1.0/users/{path}", world.server.url());
    let answer = world.client.get(url).bearer_auth(&world.token).send().await.expect("an answer");
    (answer.status().as_u16(), body(answer).await)
}

async fn found(world: &World, mailbox: &str) -> usize {
    let filter = "$filter=internetMessageId%20eq%20%27%3C1@x%3E%27";
    let (status, body) = get(world, &format!("{mailbox}/mailFolders/Drafts/messages?{filter}")).await;
    assert_eq!(status, 200);
    body["value"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_draft_is_found_until_it_is_sent_and_shows_in_sent_items_after_the_delay() {
    let mut options = ServerOptions::default();
    options.sent_items_lag = MINUTE;
    let world = World::with(Model::new([]), options).await;
    let (status, draft) = create(&world, "<1@x>").await;
    assert_eq!((status, &draft["isDraft"], &draft["internetMessageId"]), (201, &json!(true), &json!("<1@x>")));
    let path = format!("a@x.example/messages/{}", escaped(&draft["id"]));
    assert_eq!((found(&world, "a@x.example").await, found(&world, "b@x.example").await), (1, 0));
    assert_eq!(get(&world, &path).await.0, 200);
    assert_eq!(get(&world, &path.replacen('a', "b", 1)).await.0, 404, "another mailbox's");
    assert_eq!(world.copies("<1@x>").await, 0);
    assert_eq!(send(&world, &draft["id"]).await, 202);
    assert_eq!((found(&world, "a@x.example").await, get(&world, &path).await.0), (0, 404), "gone");
    world.advance(MINUTE - std::time::Duration::from_micros(1));
    assert_eq!(world.copies("<1@x>").await, 0, "not visible yet");
    world.advance(std::time::Duration::from_micros(1));
    assert_eq!(world.copies("<1@x>").await, 1);
}

#[tokio::test]
async fn a_draft_is_sent_once_however_often_and_at_the_same_time() {
    let world = World::new(Model::new([])).await;
    let (_, draft) = create(&world, "<1@x>").await;
    let (a, b, c) = futures::join!(send(&world, &draft["id"]), send(&world, &draft["id"]), send(&world, &draft["id"]));
    let mut answers = [a, b, c];
    answers.sort_unstable();
    assert_eq!(answers, [202, 404, 404]);
    assert_eq!(mailweir::upstream::check::counts(&world.server.log()).executed, 1);
}

#[tokio::test]
async fn both_requests_count_against_the_limit_and_a_refused_send_leaves_the_draft() {
    let world = World::new(per_minute(3)).await;
    let (_, first) = create(&world, "<1@x>").await;
    assert_eq!(send(&world, &first["id"]).await, 202);
    let (_, second) = create(&world, "<1@x>").await;
    assert_eq!(send(&world, &second["id"]).await, 429);
    assert_eq!(found(&world, "a@x.example").await, 1, "still there");
    assert_eq!(world.logged(), [201, 202, 201, 429]);
    world.advance(MINUTE);
    assert_eq!(send(&world, &second["id"]).await, 202);
    assert_eq!(send(&world, &json!("AAMkAGUx+/99=")).await, 404, "one that never was");
}
