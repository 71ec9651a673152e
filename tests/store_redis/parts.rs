//! The table of a shared budget, over one server.

use std::time::Duration;

use mailweir::engine::chunks::{Part, Row};
use mailweir::engine::cost::Unit;
use mailweir::engine::{Scope, Timestamp};
use mailweir::store::fleet::{MemberId, NewPart, Put};

use crate::fleet::{LONG, Member};
use crate::redis_server::RedisServer;

#[tokio::test]
async fn a_part_of_a_shared_budget_is_written_only_over_the_table_that_was_read() {
    let server = RedisServer::start();
    let (one, two) = (Member::of(&server).await, Member::of(&server).await);
    let scope = Scope::Tenant("contoso".into());
    let read = async |member: &Member| member.fleet.parts(member.id, LONG, scope.clone()).await.unwrap();
    let put = async |member: &Member, version: u64, held: u64, over: &[MemberId]| {
        let row = Row {
            unit: Unit::Requests,
            window: 60_000,
            held,
            held_until: Timestamp::from_micros(1_800_000_000_000_000),
            used: vec![(250, 3)],
            wants: [1, 0],
            least: 1,
            since: None,
            reserve: 6,
        };
        let part = Part { at: Timestamp::from_micros(1_790_000_000_000_000), rows: vec![row] };
        let new = NewPart { part, version, over: over.to_vec(), keep: Duration::from_secs(60) };
        member.fleet.put_part(member.id, scope.clone(), new).await.unwrap()
    };
    let empty = read(&one).await;
    assert!(empty.parts.is_empty() && empty.failover_ago.is_none(), "{empty:?}");
    assert_eq!(read(&two).await.version, empty.version);
    assert_eq!(put(&one, empty.version, 5, &[]).await, Put::Written);
    assert_eq!(put(&two, empty.version, 7, &[]).await, Put::Stale, "somebody has written");
    assert_eq!(put(&one, empty.version, 5, &[]).await, Put::Stale, "and a repetition finds its own");
    let found = read(&two).await;
    assert_eq!(
        found.parts.iter().map(|(member, part)| (*member, part.rows[0].held)).collect::<Vec<_>>(),
        [(one.id, 5)]
    );
    assert_eq!(put(&two, found.version, 7, &[one.id]).await, Put::Written);
    let found = read(&one).await;
    assert_eq!(found.parts.keys().copied().collect::<Vec<_>>(), [two.id], "the other one's was over");
    assert_eq!(found.parts[&two.id].rows[0].used, [(250, 3)]);
}
