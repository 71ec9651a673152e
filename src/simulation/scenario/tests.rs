//! What a scenario's text comes to before it runs.

use super::Scenario;
use crate::upstream::Algorithm;

fn scenario(rest: &str) -> Result<Scenario, String> {
    let load = "[[load]]\nmailbox = \"m{n}@a.example\"\nmailboxes = 2\nlane = \"foreground\"\ncount = 1\n";
    let text = format!("until = \"1h\"\n{rest}\n{load}");
    Scenario::from_toml(&text, "here").map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}

#[test]
fn each_mailbox_of_a_load_has_its_own_tenant() {
    let config = "[config.mailboxes.\"m1@a.example\"]\ntenant = \"acme\"\n[config.mailboxes.\"m2@a.example\"]\ntenant = \"zenith\"";
    let world = scenario(config).expect("a scenario").world(1);
    let tenants: Vec<_> = world.planned().into_iter().map(|one| one.tenant.expect("a tenant")).collect();
    assert_eq!(tenants.iter().map(|tenant| &**tenant).collect::<Vec<_>>(), ["acme", "zenith"]);
}

#[test]
fn a_draft_takes_two_requests() {
    let requests = |mode: &str| {
        let graph = format!("{{ mode = \"{mode}\", tenant = \"t\", client_id = \"c\", client_secret = \"s\" }}");
        let config = format!("[config]\ntransport = {{ kind = \"graph\", graph = {graph} }}");
        scenario(&config).expect("a scenario").world(1).planned()[0].cost.requests
    };
    assert_eq!((requests("send-mail"), requests("draft-then-send")), (1, 2));
}

#[test]
fn what_would_be_ignored_is_refused() {
    for (key, table) in [
        ("depth", "[[upstream.limit]]\nlimits = [\"9 requests / 1m\"]\nalgorithm = \"fixed\"\ndepth = 3"),
        (
            "phase",
            "[[upstream.limit]]\nlimits = [\"9 requests / 1m\"]\nalgorithm = \"bucket\"\ndepth = 3\nphase = \"3s\"",
        ),
        ("phase", "[[upstream.limit]]\nlimits = [\"9 requests / 1m\"]\nphase = \"3s\""),
        ("id", "[[upstream.block]]\nscope = \"application\"\nid = \"acme\""),
    ] {
        let said = scenario(table).expect_err("it is refused");
        assert!(said.contains(&format!("].{key}")), "{table}: {said}");
    }
    let fixed = "[[upstream.limit]]\nlimits = [\"9 requests / 1m\"]\nalgorithm = \"fixed\"\nphase = \"3s\"";
    let model = scenario(fixed).expect("a scenario");
    let model = model.provider.model(&model.config, 1);
    assert_eq!(model.limits[0].algorithm, Algorithm::Fixed { phase: std::time::Duration::from_secs(3) });
}
