//! The scripts. Each states its keys and arguments in its file.

use std::sync::LazyLock;

use redis::{Cmd, Script};

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($part:literal),+;)+) => {
        $($(#[$doc])*
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!(concat!("scripts/", $part)), "\n",)+)));)+

        /// All of them, to be loaded.
        pub(super) fn all() -> Vec<(&'static Script, &'static str)> {
            vec![$((&*$name, concat!($(include_str!(concat!("scripts/", $part)), "\n",)+)),)+]
        }
    };
}

scripts! {
    RESERVE = "row.lua", "reserve.lua";
    RELEASE = "release.lua";
    ROUTE = "route.lua";
    ROOM = "row.lua", "note.lua", "room.lua";
    INSERT = "row.lua", "note.lua", "lease.lua", "insert.lua";
    CLAIM = "row.lua", "lease.lua", "claim.lua";
    RECORD = "row.lua", "record.lua";
    KEEP = "row.lua", "note.lua", "keep.lua";
    PAGE = "page.lua";
    COUNTS = "row.lua", "counts.lua";
    ENDED = "row.lua", "note.lua", "ended.lua";
    FORGET = "row.lua", "forget.lua";
    GENERATION = "generation.lua";
    TIME = "time.lua";
    RIGHTS = "rights.lua";
    PRESENT = "row.lua", "present.lua";
    ACQUIRE = "row.lua", "lease.lua", "acquire.lua";
    RENEW = "row.lua", "lease.lua", "renew.lua";
    FREE = "row.lua", "lease.lua", "free.lua";
    POST = "row.lua", "lease.lua", "post.lua";
    INBOX = "row.lua", "lease.lua", "inbox.lua";
    ORPHAN = "row.lua", "lease.lua", "orphan.lua";
    COOL = "row.lua", "cool.lua";
    PROBE = "probe.lua";
}

/// A call of a script with its keys; arguments are added to it.
pub(super) fn call(script: &Script, keys: &[&str]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg(keys.len());
    for key in keys {
        command.arg(*key);
    }
    command
}
