//! One timer per actor.
//!
//! An actor walks all its pending timers at every message, so many of them would make every message slow. The engine
//! keeps the deadlines and names the earliest; a later one never re-arms, it is looked at when the earlier has rung.

use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, SpawnHandle, fut};

use crate::engine::Timestamp;

/// Shortest sleep. An engine that named an instant in the past would otherwise spin.
const SLEEP_MIN: Duration = Duration::from_micros(100);

/// An actor with one timer.
pub(crate) trait Timed: Actor<Context = Context<Self>> {
    fn timer(&mut self) -> &mut Timer;

    /// Where wake-ups are counted.
    #[cfg(feature = "test-util")]
    fn world(&self) -> &super::world::World;

    /// One bounded turn of work. Ends with arming the timer.
    fn turn(&mut self, ctx: &mut Context<Self>);
}

#[derive(Debug, Default)]
pub(crate) struct Timer {
    armed: Option<(Timestamp, SpawnHandle)>,
}

impl Timer {
    /// Has the actor's next turn no later than `due`.
    pub(crate) fn arm<A: Timed>(actor: &mut A, ctx: &mut Context<A>, now: Timestamp, due: Option<Timestamp>) {
        let Some(due) = due.filter(|due| *due != Timestamp::NEVER) else { return };
        if let Some((armed, handle)) = actor.timer().armed {
            if armed <= due {
                return;
            }
            ctx.cancel_future(handle);
        }
        let handle = ctx.run_later(due.since(now).max(SLEEP_MIN), |actor, ctx| {
            actor.timer().armed = None;
            #[cfg(feature = "test-util")]
            actor.world().count_wake();
            actor.turn(ctx);
        });
        actor.timer().armed = Some((due, handle));
    }

    /// Has the actor's next turn as soon as the other actors of the thread have had theirs.
    pub(crate) fn soon<A: Timed>(ctx: &mut Context<A>) {
        ctx.spawn(fut::wrap_future(tokio::task::yield_now()).map(|(), actor: &mut A, ctx| actor.turn(ctx)));
    }
}
