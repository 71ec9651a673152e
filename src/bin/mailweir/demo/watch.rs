//! What is seen while it runs, on standard error: a progress bar where that is a terminal, a line now and then where it
//! is not, and the scheduler's `tracing` events in between.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mailweir::Lane;
use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::Timestamp;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::drive::Progress;
use super::plan::Plan;
use super::stage::Stage;

/// What is shown unless `RUST_LOG` says otherwise: breaker transitions, and what nobody should miss.
const FILTER: &str = "warn,mailweir::breaker=info";
/// Where there is no terminal, a line this often.
const LINE_EVERY_S: u64 = 5;

/// The display.
pub(crate) struct Watch {
    /// Hidden where standard error is no terminal.
    bar: ProgressBar,
    progress: Arc<Progress>,
    totals: [usize; 2],
    line_due_s: AtomicU64,
}

impl Watch {
    /// Says what is about to happen, and starts to show it.
    pub(crate) fn start(plan: &Plan, stage: &Stage) -> Result<Self, Box<dyn Error>> {
        let color = std::env::var_os("NO_COLOR").is_none();
        let totals = Lane::ALL.map(|lane| plan.lane(lane).count());
        let bar =
            if io::stderr().is_terminal() { ProgressBar::new(plan.emails.len() as u64) } else { ProgressBar::hidden() };
        let template = if color { "{bar:30.cyan/blue} {msg}" } else { "{bar:30} {msg}" };
        bar.set_style(ProgressStyle::with_template(template)?.progress_chars("━━╌"));
        let since = Since { clock: Arc::clone(&stage.clock), start: stage.start };
        let events = tracing_subscriber::fmt()
            .with_env_filter(filter()?)
            .with_timer(since)
            .with_ansi(color && !bar.is_hidden())
            .with_writer(AroundBar(bar.clone()));
        events.try_init().map_err(|error| error.to_string())?;
        let watch = Self { bar, progress: Arc::default(), totals, line_due_s: AtomicU64::new(0) };
        watch.say(&introduction(plan, stage, totals));
        Ok(watch)
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Brings the display up to date, `elapsed` after the start.
    pub(crate) fn show(&self, elapsed: Duration) {
        let done = Lane::ALL.map(|lane| self.progress.accepted(lane));
        let text = format!(
            "{:>4.1} s  people {}/{}  campaign {}/{}",
            elapsed.as_secs_f64(),
            done[0],
            self.totals[0],
            done[1],
            self.totals[1]
        );
        if !self.bar.is_hidden() {
            self.bar.set_message(text);
            self.bar.set_position(done.iter().sum::<usize>() as u64);
        } else if elapsed.as_secs() >= self.line_due_s.load(Ordering::Relaxed) {
            self.line_due_s.store(elapsed.as_secs() / LINE_EVERY_S * LINE_EVERY_S + LINE_EVERY_S, Ordering::Relaxed);
            self.say(&format!("accepted by {}\n", text.trim_start()));
        }
    }

    /// Leaves the last state standing, and a line between it and what follows.
    pub(crate) fn finish(&self) {
        let visible = !self.bar.is_hidden();
        self.bar.abandon();
        let _ = io::stderr().write_all(if visible { b"\n\n" } else { b"\n" });
    }

    fn say(&self, text: &str) {
        // Nobody is left to tell when standard error is closed.
        let _ = AroundBar(self.bar.clone()).make_writer().write_all(text.as_bytes());
    }
}

fn introduction(plan: &Plan, stage: &Stage, [people, campaign]: [usize; 2]) -> String {
    let throttle = plan.throttle;
    format!(
        "{mailboxes} mailboxes, each with {limits}\n\
         a campaign of {campaign} emails in the background, {people} people in the foreground, seed {seed}\n\
         one throttle: {throttled} is refused from {from} s to {until} s\n\
         upstream: {url}, with Graph's wire format\n\
         outbox: SQLite in {outbox}, removed at the end\n\n",
        mailboxes = plan.mailboxes.len(),
        limits = stage.limits().collect::<Vec<_>>().join(", "),
        seed = plan.seed,
        throttled = plan.mailboxes[throttle.mailbox],
        from = throttle.from.as_secs_f64(),
        until = throttle.until.as_secs_f64(),
        url = stage.url,
        outbox = stage.outbox().display(),
    )
}

fn filter() -> Result<EnvFilter, Box<dyn Error>> {
    let text = std::env::var("RUST_LOG").unwrap_or_else(|_| FILTER.to_owned());
    text.parse().map_err(|error| format!("RUST_LOG is \"{text}\": {error}").into())
}

/// Seconds since the start, as everywhere else in the demo.
struct Since {
    clock: Arc<SystemClock>,
    start: Timestamp,
}

impl FormatTime for Since {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        write!(writer, "{:>4.1} s", self.clock.now().since(self.start).as_secs_f64())
    }
}

/// Standard error, with the bar out of the way while a line is written.
struct AroundBar(ProgressBar);

/// One line on its way.
struct Line(ProgressBar);

impl<'a> MakeWriter<'a> for AroundBar {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0.clone())
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
