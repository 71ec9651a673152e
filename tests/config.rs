//! The configuration: its defaults and presets, what overrides what, and that it reads back as it was printed.
#![cfg(feature = "config")]

use std::path::PathBuf;
use std::time::Duration;

use mailweir::config::{Config, ConfigError, MailboxOverride, Mailboxes, Secret, Source};
use mailweir::engine::{Limit, Ratio};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config").join(name)
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let documented = Config::from_path("config/default.toml").expect("the documented defaults are valid");
    assert_eq!(documented, Config::default());
}

#[test]
fn every_key_is_documented() {
    let documented = std::fs::read_to_string("config/default.toml").expect("it is there");
    let mut table = "";
    let written: Vec<String> = documented.lines().filter_map(|line| key_of(line, &mut table)).collect();
    let everything = Config::default().to_toml();
    let mut table = "";
    let known: Vec<String> = everything.lines().filter_map(|line| key_of(line, &mut table)).collect();
    assert!(known.len() > 80, "{known:?}");
    for key in &known {
        assert!(written.contains(key), "{key} is not in config/default.toml");
    }
    assert_eq!(written.len(), known.len());
}

fn key_of<'a>(line: &'a str, table: &mut &'a str) -> Option<String> {
    if let Some(name) = line.strip_prefix('[') {
        *table = name.strip_suffix(']').unwrap_or(name);
        return None;
    }
    let (key, _) = line.split_once(" = ").filter(|(key, _)| !key.starts_with('#'))?;
    Some(format!("{table}.{key}"))
}

#[test]
fn the_default_limits_are_those_of_the_product() {
    let config = Config::default();
    let shown: Vec<String> = config.mailbox.limits.iter().map(Limit::to_string).collect();
    let expected = ["30 requests / 1m", "10_000 recipients / 24h", "10_000 requests / 10m", "150MB / 5m"];
    let expected: Vec<Limit> = expected.iter().map(|text| text.parse().expect("a limit")).collect();
    assert_eq!(config.mailbox.limits, expected, "{shown:?}");
    assert_eq!(config.mailbox.concurrency.map(std::num::NonZeroU32::get), Some(4));
    assert_eq!(config.application.limits.len(), 1);
    assert_eq!((config.application.limits[0].amount(), config.application.concurrency), (130_000, None));
}

#[test]
fn every_preset_is_valid_and_differs_from_the_defaults() {
    for name in Config::presets() {
        let preset = Config::preset(name).unwrap_or_else(|error| panic!("{error}"));
        preset.validate().unwrap_or_else(|error| panic!("preset {name}: {error}"));
        assert!(!Config::default().diff(&preset).is_empty(), "{name}");
        let named = Config::from_toml(&format!("preset = \"{name}\""), "named").expect("a preset");
        assert_eq!(named, preset);
    }
    assert!(Config::preset("grahp").expect_err("a slip").to_string().contains("did you mean `graph`"));
}

#[test]
fn every_value_of_a_preset_has_a_date_and_a_source() {
    for name in Config::presets() {
        let text = std::fs::read_to_string(format!("config/{name}.toml")).expect("a preset's file");
        assert_eq!(unsourced(&text), Vec::<&str>::new(), "preset {name}");
    }
    // What the check is worth: a number in a comment is no year, and a year alone no source.
    for comment in ["", "# 120 a minute", "# Graph, 120 a minute", "# Since 2023", "# Graph, 20231", "# Graph (2023)\n"]
    {
        assert_eq!(unsourced(&format!("{comment}\nramp = \"2s\"")), ["ramp = \"2s\""], "{comment}");
    }
    assert_eq!(unsourced("# Graph (2023)\na = 1\nb = 2"), ["b = 2"], "one comment is of one value");
    assert_eq!(unsourced("limits = [\n# Ours (Nov 2026): short\n\"1 / 1m\",\n]"), Vec::<&str>::new());
}

/// The lines with a value and no comment right above that says of which year and whose it is.
fn unsourced(text: &str) -> Vec<&str> {
    const SOURCES: [&str; 4] = ["Graph", "Microsoft", "microsoft-graph-docs-contrib", "Ours ("];
    let year = |word: &str| word.len() == 4 && word.starts_with("20") && word.bytes().all(|b| b.is_ascii_digit());
    let (mut comment, mut found) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(more) = line.trim().strip_prefix('#') {
            comment.push_str(more);
            continue;
        }
        let dated = comment.split(|c: char| !c.is_alphanumeric()).any(year);
        let sourced = SOURCES.iter().any(|source| comment.contains(source));
        if line.contains(|c: char| c == '"' || c.is_ascii_digit()) && !(dated && sourced) {
            found.push(line.trim());
        }
        comment.clear();
    }
    found
}

#[test]
fn a_presets_numbers_stand_below_the_files_own() {
    let config = Config::from_path(fixture("valid.toml")).expect("a valid file");
    assert_eq!(config.submit.size_max, 3_000_000);
    assert_eq!(config.lanes.background_share, Ratio::percent(40));
    assert!(matches!(config.source("submit.size_max"), Source::Preset { ref name, .. } if &**name == "graph"));
    assert_eq!(config.source("lanes.background_share"), Source::File { line: 4 });
    assert_eq!(config.source("retry.backoff"), Source::Default);
}

#[test]
fn a_mailbox_differs_only_where_it_says_so() {
    let config = Config::from_path(fixture("valid.toml")).expect("a valid file");
    let id = "alerts@contoso.example";
    let policies = config.policies().expect("a valid file");
    let (own, base) = (policies.mailbox(id), policies.mailbox("other@contoso.example"));
    assert_eq!(own.scope.limits.len(), 2);
    assert_eq!(own.scope.concurrency, base.scope.concurrency);
    assert_eq!((own.lanes.background_share, base.lanes.background_share), (Ratio::percent(30), Ratio::percent(40)));
    assert_eq!((own.retry.attempts_max.get(), base.retry.attempts_max.get()), (3, 8));
    assert_eq!(*own, *config.mailbox_policy(id));
    assert_eq!(config.tenant_of(id).map(AsRef::as_ref), Some("acme"));
    assert_eq!(config.mailbox_source(id, "limits"), Source::Override { line: Some(8) });
    assert_eq!(config.mailbox_source(id, "lanes.background_share"), Source::Override { line: Some(9) });
    assert!(matches!(config.mailbox_source(id, "concurrency"), Source::Preset { .. }));
    assert!(std::sync::Arc::ptr_eq(&policies.mailbox("a"), &policies.mailbox("b")), "one policy for all others");
}

#[test]
fn a_closed_list_of_mailboxes_names_the_way_in() {
    let config = Config::from_toml("submit.mailboxes = \"listed\"\n[mailboxes.\"a@b.example\"]\n", "closed");
    let config = config.expect("one mailbox is listed");
    assert_eq!(config.submit.mailboxes, Mailboxes::Listed);
    config.permit_mailbox("a@b.example").expect("it is listed");
    let error = config.permit_mailbox("c@d.example").expect_err("it is not listed");
    assert!(matches!(&error, ConfigError::UnknownMailbox { mailbox } if mailbox == "c@d.example"));
    assert!(error.to_string().contains("[mailboxes.\"c@d.example\"]"), "{error}");
    Config::default().permit_mailbox("c@d.example").expect("any mailbox may send by default");
}

#[test]
fn a_printed_configuration_reads_back_equal() {
    let mut configs = vec![Config::default(), Config::from_path(fixture("valid.toml")).expect("a valid file")];
    configs.extend(Config::presets().iter().map(|name| Config::preset(name).expect("a preset")));
    let own = MailboxOverride::default()
        .concurrency(None)
        .tenant("a \"quoted\" tenant")
        .limits(["8 requests / 90s bucket(4)".parse().expect("a limit")])
        .set("lanes.foreground_expected_per_hour", "7")
        .and_then(|own| own.set("breaker.cooldown_first", "auto"))
        .expect("known keys");
    configs.push(Config::default().mailbox_override("odd \"id\"\\@x", own));
    for config in configs {
        let text = config.to_toml();
        let back = Config::from_toml(&text, "printed").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(back, config, "{text}");
        assert_eq!(back.to_toml(), text);
    }
}

#[test]
fn a_secret_is_left_out_of_what_is_printed() {
    let mut config = Config::default();
    config.transport.graph.client_secret = Secret::new("hunter2");
    let text = config.to_toml();
    assert!(!text.contains("hunter2") && text.contains("# client_secret is set"), "{text}");
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn secrets_come_from_where_the_configuration_says() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, "hunter2\r\n").expect("a scratch file");
    let mut graph = Config::default().transport.graph;
    assert!(matches!(graph.secret(), Err(ConfigError::SecretMissing { key: "transport.graph.client_secret", .. })));
    graph.client_secret_file = path.display().to_string();
    assert_eq!(graph.secret().expect("it is there").expose(), "hunter2");
    std::fs::write(&path, "\n").expect("a scratch file");
    assert!(graph.secret().expect_err("an empty secret").to_string().contains("it is empty"));
    graph.client_secret_file = folder.path().join("none").display().to_string();
    assert!(graph.secret().is_err());
    graph.client_secret_env = "MAILWEIR_TEST_NO_SUCH_VARIABLE".to_owned();
    let error = graph.secret().expect_err("no such variable").to_string();
    assert!(error.contains("client_secret_env") && error.contains("no such environment variable"), "{error}");
}

#[test]
fn a_configuration_made_in_code_meets_the_same_bounds() {
    let mut config = Config::default();
    config.lanes.background_share = Ratio::percent(101);
    config.retry.backoff = Duration::from_secs(3_601);
    config.mailbox.concurrency = std::num::NonZeroU32::new(1_000_001);
    let limit: Limit = "1 requests / 1m".parse().expect("a limit");
    let config = config.mailbox_override("a@b.example", MailboxOverride::default().limits([limit; 17]));
    let error = config.validate().expect_err("four things are wrong");
    for key in ["lanes.background_share", "retry.backoff", "mailbox.concurrency", "mailboxes.\"a@b.example\".limits"] {
        assert!(error.problems().iter().any(|problem| problem.key == key), "{key} in {error}");
    }
    assert!(config.policies().is_err());
}

#[test]
fn ids_made_in_code_meet_the_bounds_of_a_submission() {
    let with = |id: &str, tenant: &str| {
        Config::default().mailbox_override(id, MailboxOverride::default().tenant(tenant)).validate()
    };
    let mailbox = "a@b.example";
    with(&"m".repeat(256), &"t".repeat(128)).expect("both at the bound");
    for tenant in ["", "a\r\nb", "a\u{7f}", &"t".repeat(129)] {
        let error = with(mailbox, tenant).expect_err("no tenant");
        assert_eq!(error.problems()[0].key, "mailboxes.\"a@b.example\".tenant");
        assert!(!error.to_string().contains('\r'), "{error}");
    }
    for id in ["", "a\r\nb", &"m".repeat(257)] {
        assert_eq!(with(id, "t").expect_err("no mailbox").problems().len(), 1, "{id:?}");
    }
}

#[test]
fn an_override_in_code_refuses_keys_and_values_as_a_file_does() {
    let set = |key: &str, value: &str| MailboxOverride::default().set(key, value);
    set("lanes.background_share", "100%").expect("at the bound");
    let above = set("lanes.background_share", "100.0001%").expect_err("above it").to_string();
    assert!(above.contains("from 0% to 100%"), "{above}");
    let unknown = set("guard.clock_error", "1%").expect_err("no key of a mailbox").to_string();
    assert!(unknown.contains("no such key") && unknown.contains("lanes.background_share"), "{unknown}");
}

#[test]
fn what_may_surprise_is_noted() {
    let config = Config::from_toml("[mailbox]\nlimits = [\"20 recipients / 1h\", \"1MB / 1m\"]\n", "notes");
    let notes = config.expect("allowed").notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("submit.size_max = 25MB") || notes[1].contains("submit.size_max = 25MB"), "{notes:?}");
    let none = Config::from_toml("[mailbox]\nlimits = []\n", "none").expect("allowed").notes();
    assert!(none[0].contains("no limits"), "{none:?}");
    assert!(Config::default().notes().is_empty(), "{:?}", Config::default().notes());
}

proptest::proptest! {
    #[test]
    fn no_text_panics_and_every_place_is_inside_it(text in "[\\[\\]a-e.=\"'#, {}\n0-9_é-]{0,80}") {
        if let Err(error) = Config::from_toml(&text, "random") {
            for problem in error.problems() {
                let place = problem.place.as_ref().expect("what a text wrote has a place");
                proptest::prop_assert!(text.get(place.span.clone()).is_some(), "{place:?} {problem}");
                proptest::prop_assert!(place.line as usize <= text.matches('\n').count() + 1);
            }
        }
    }

    #[test]
    fn any_values_inside_the_bounds_print_and_read_back(
        share in 0_u32..=500_000, low in 0_u32..=500_000, backoff in 1_u64..=3_600_000, size in 1_000_u64..=1_000_000_000,
        amount in 1_u64..1_000_000, window in 1_u64..1_000_000_000, id in "[^\\pC]{1,40}",
    ) {
        let mut config = Config::default();
        config.lanes.background_share = Ratio::ppm(share.max(50_000));
        (config.lanes.reserve_min, config.lanes.reserve_max) = (Ratio::ppm(low), Ratio::ppm(500_000));
        config.retry.backoff = Duration::from_millis(backoff);
        config.retry.backoff_max = Duration::from_secs(86_400);
        config.submit.size_max = size;
        let limit = Limit::new(amount, mailweir::engine::Unit::Requests, Duration::from_millis(window)).expect("a limit");
        let config = config.mailbox_override(id, MailboxOverride::default().limits([limit]));
        let back = Config::from_toml(&config.to_toml(), "printed");
        proptest::prop_assert_eq!(back.map_err(|error| error.to_string()), Ok(config));
    }
}
