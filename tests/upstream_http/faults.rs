//! What goes wrong on the way.

use std::net::TcpStream;
use std::time::Duration;

use mailweir::engine::Ratio;
use mailweir::upstream::http::ServerOptions;
use mailweir::upstream::{Model, Schedule, check};

use crate::{World, body, header, slow, until};

type Set = fn(&mut Model) -> &mut Schedule<Ratio>;

async fn world(set: Set) -> World {
    let mut model = Model::new([]);
    *set(&mut model) = Schedule::always(Ratio::ONE);
    World::new(model).await
}

#[tokio::test]
async fn a_cut_connection_gives_no_answer_and_only_the_log_knows_what_happened() {
    let rows: [(Set, u64); 2] =
        [(|model| &mut model.faults.cut_before_body, 0), (|model| &mut model.faults.cut_after_body, 1)];
    for (set, executed) in rows {
        let world = world(set).await;
        let error = world.send("<1@x>").send().await.expect_err("no answer");
        assert!(!error.is_timeout() && !error.is_connect(), "{error:?}");
        assert_eq!(check::counts(&world.server.log()).executed, executed);
    }
}

#[tokio::test]
async fn a_lost_request_and_a_lost_answer_leave_the_client_waiting_and_shutdown_ends_it() {
    let rows: [(Set, u64); 2] =
        [(|model| &mut model.faults.request_lost, 0), (|model| &mut model.faults.response_lost, 1)];
    for (set, executed) in rows {
        let world = world(set).await;
        let impatient = world.send("<1@x>").timeout(Duration::from_millis(200));
        assert!(impatient.send().await.expect_err("no answer").is_timeout());
        let patient = tokio::spawn(world.send("<2@x>").send());
        let upstream = world.server.upstream();
        until(|| upstream.lock().expect("not poisoned").log().len() as u64 == 2 * executed).await;
        assert_eq!(check::counts(&world.server.log()).executed, 2 * executed);
        world.server.shutdown().await;
        assert!(!patient.await.expect("no panic").expect_err("no answer").is_timeout());
    }
}

#[tokio::test]
async fn errors_have_their_status_and_code_and_the_log_tells_whether_the_email_was_taken() {
    let rows: [(Set, u16, &str, u64); 3] = [
        (|model| &mut model.faults.error_before_charge, 503, "serviceNotAvailable", 0),
        (|model| &mut model.faults.error_after_charge, 503, "serviceNotAvailable", 0),
        (|model| &mut model.faults.timeout_after_acceptance, 504, "UnknownError", 1),
    ];
    for (set, status, code, executed) in rows {
        let world = world(set).await;
        let answer = world.send("<1@x>").send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(body(answer).await["error"]["code"], code);
        assert_eq!((world.logged(), check::counts(&world.server.log()).executed), (vec![status], executed));
    }
}

#[tokio::test]
async fn a_504_that_took_the_email_shows_in_sent_items() {
    let world = world(|model| &mut model.faults.timeout_after_acceptance).await;
    assert_eq!(world.send("<1@x>").send().await.expect("an answer").status(), 504);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.copies("<1@x>").await, 1);
}

#[tokio::test]
async fn a_202_may_carry_a_retry_after_and_a_doubled_answer_comes_once() {
    let pacing = world(|model| &mut model.faults.accepted_with_retry_after).await;
    let answer = pacing.send("<1@x>").send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), header(&answer, "retry-after").as_deref()), (202, Some("1")));
    let doubled = world(|model| &mut model.faults.response_duplicated).await;
    for id in ["<1@x>", "<2@x>"] {
        assert_eq!(doubled.send(id).send().await.expect("an answer").status(), 202);
    }
}

#[tokio::test]
async fn a_request_that_the_client_gave_up_on_arrives_all_the_same() {
    let mut model = Model::new([]);
    slow(&mut model, Duration::from_secs(300));
    model.latency.up = model.latency.service; // given up long before it arrives
    let world = World::new(model).await;
    let impatient = world.send("<1@x>").timeout(Duration::from_millis(200));
    assert!(impatient.send().await.expect_err("no answer").is_timeout());
    let upstream = world.server.upstream();
    world.server.shutdown().await; // lets what is under way arrive at once
    assert_eq!(check::counts(upstream.lock().expect("not poisoned").log().iter()).executed, 1);
}

#[tokio::test]
async fn connections_above_the_bound_wait_for_one_to_end() {
    let mut options = ServerOptions::default();
    options.connections_max = 2;
    let world = World::with(Model::new([]), options).await; // its client keeps one open
    let idle = TcpStream::connect(world.server.address()).expect("the second");
    let other = reqwest::Client::builder().no_proxy().build().expect("client");
    let url = format!("{}/v1.0/users/a@x.example/sendMail", world.server.url());
    let send = |timeout: u64| {
        let request = other.post(&url).bearer_auth(&world.token).json(&crate::email("<1@x>"));
        request.timeout(Duration::from_millis(timeout)).send()
    };
    assert!(send(300).await.expect_err("a third waits").is_timeout());
    drop(idle);
    assert_eq!(send(5_000).await.expect("an answer").status(), 202);
}

#[tokio::test]
async fn after_shutdown_the_port_is_closed() {
    let world = World::new(Model::new([])).await;
    let address = world.server.address();
    world.server.shutdown().await;
    assert!(TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_err());
}
