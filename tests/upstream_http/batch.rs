//! `$batch`: an outer 200 says nothing about its items.

use std::collections::BTreeMap;

use base64::Engine as _;
use mailweir::engine::Ratio;
use mailweir::upstream::{Model, Schedule, check};
use serde_json::{Value, json};

use crate::{World, body, email, per_minute};

fn item(id: &str) -> Value {
    json!({"id": id, "method": "POST", "url": "/users/a@x.example/sendMail",
        "headers": {"Content-Type": "application/json"}, "body": email(&format!("<{id}@x>"))})
}

async fn batch(world: &World, items: &[Value]) -> (u16, Value) {
    let answer = world.post("$batch").json(&json!({"requests": items})).send().await.expect("an answer");
    (answer.status().as_u16(), body(answer).await)
}

fn statuses(body: &Value) -> BTreeMap<String, u64> {
    let responses = body["responses"].as_array().expect("a list").iter();
    responses
        .map(|item| (item["id"].as_str().expect("id").to_owned(), item["status"].as_u64().expect("status")))
        .collect()
}

#[tokio::test]
async fn each_item_has_its_own_status_and_wait_and_they_come_in_any_order() {
    let world = World::new(per_minute(5)).await;
    let ids: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
    let (status, body) = batch(&world, &ids.iter().map(|id| item(id)).collect::<Vec<_>>()).await;
    assert_eq!(status, 200);
    let responses = body["responses"].as_array().expect("a list");
    let order: Vec<&str> = responses.iter().filter_map(|item| item["id"].as_str()).collect();
    assert_eq!(order.len(), 20);
    assert_ne!(order, ids, "shuffled");
    let by_id = statuses(&body);
    assert_eq!(by_id.len(), 20);
    assert_eq!(by_id.values().filter(|status| **status == 202).count(), 5);
    for refused in responses.iter().filter(|item| item["status"] == 429) {
        assert_eq!(refused["headers"]["retry-after"], "60");
        assert_eq!(refused["body"]["error"]["code"], "TooManyRequests");
    }
    assert!(responses.iter().filter(|item| item["status"] == 202).all(|item| item["body"].is_null()));
    assert_eq!(world.logged().len(), 20, "each item arrives by itself");
}

#[tokio::test]
async fn a_mime_item_a_bad_item_and_an_unknown_item_are_judged_apart() {
    let world = World::new(Model::new([])).await;
    let encoded = base64::engine::general_purpose::STANDARD.encode("To: b@y, c@y\r\nMessage-ID: <m@x>\r\n\r\n");
    let mime = json!({"id": "mime", "method": "post", "url": "users/a%40x.example/sendmail",
        "headers": {"content-type": "text/plain"}, "body": encoded});
    let mut bad = item("bad");
    bad["body"] = json!({"message": {}});
    let mut unknown = item("unknown");
    unknown["url"] = "/users/a@x.example/messages".into();
    let (status, body) = batch(&world, &[mime, bad, unknown]).await;
    assert_eq!(status, 200);
    let expected = [("bad", 400), ("mime", 202), ("unknown", 404)];
    assert_eq!(statuses(&body), expected.map(|(id, status)| (id.to_owned(), status)).into());
    let log = world.server.log();
    let sent = log.iter().find(|arrival| arrival.executed).expect("one was taken");
    assert_eq!((sent.cost.recipients, &*sent.mailbox, &*sent.key), (2, "a@x.example", "<m@x>"));
}

#[tokio::test]
async fn twenty_one_items_none_and_doubled_ids_are_refused_as_a_whole() {
    let world = World::new(Model::new([])).await;
    let too_many: Vec<Value> = (0..21).map(|n| item(&n.to_string())).collect();
    let mut dependent = item("2");
    dependent["dependsOn"] = json!(["1"]);
    for items in [too_many, Vec::new(), vec![item("a"), item("A")], vec![json!({"id": "1"})], vec![dependent]] {
        let (status, body) = batch(&world, &items).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("BadRequest")), "{} items", items.len());
    }
    let broken = world.post("$batch").body("{").send().await.expect("an answer");
    assert_eq!(broken.status(), 400);
    assert!(world.logged().is_empty());
}

#[tokio::test]
async fn an_item_whose_answer_is_lost_is_missing_although_it_was_taken() {
    let mut model = Model::new([]);
    model.faults.response_lost = Schedule::always(Ratio::ONE);
    let world = World::new(model).await;
    let (status, body) = batch(&world, &[item("1"), item("2")]).await;
    assert_eq!((status, statuses(&body).len()), (200, 0));
    assert_eq!(check::counts(&world.server.log()).executed, 2);
}
