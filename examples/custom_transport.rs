//! A transport of your own: it drops emails into a folder, as the pickup folder of many mail servers expects them.
//!
//! A transport makes one attempt and says how it ended. What matters is to be honest about three things: whether the email
//! was taken, whether any of it can have been, and what has to change if it never will be. The scheduler does the rest.
//!
//! `cargo run --example custom_transport`

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use mailweir::engine::Wall;
use mailweir::transport::{Answer, Attempt, Sent, Subject, Transport, Verdict};
use mailweir::{Config, Email, Lane, Scheduler, Submission};

const MAILBOX: &str = "reports@contoso.example";

/// Writes each email as a file; the server that watches the folder sends it.
#[derive(Clone, Debug)]
struct Pickup {
    folder: Arc<Path>,
}

impl Pickup {
    /// Writes under a name that the server ignores, then renames: it never sees half an email. The name is the
    /// operation's id, so a second attempt replaces the first instead of adding to it.
    fn drop_off(&self, attempt: &Attempt) -> io::Result<()> {
        // One name per id: what a file name cannot hold is written as its number.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let shown = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
        let name: String = attempt.operation_id.bytes().map(shown).collect();
        let (partial, finished) = (self.folder.join(format!(".{name}")), self.folder.join(format!("{name}.eml")));
        std::fs::write(&partial, attempt.email.mime())?;
        std::fs::rename(partial, finished)
    }
}

/// What a failure to write means for the scheduler.
fn verdict(error: &io::Error) -> Verdict {
    match error.kind() {
        // Nothing has left: the charge comes back, and it is tried again.
        ErrorKind::StorageFull | ErrorKind::Interrupted => Verdict::Transient { sent: Sent::No, retry_after: None },
        // A person has to mend it; the mailbox waits until then.
        ErrorKind::NotFound | ErrorKind::PermissionDenied => Verdict::Permanent { of: Subject::Mailbox },
        // Whether the rename took place is not known: say so, and it is not sent twice.
        _ => Verdict::Unknown,
    }
}

impl Transport for Pickup {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        let pickup = self.clone();
        Box::pin(async move {
            // Files block, so they have a thread of their own.
            let written = tokio::task::spawn_blocking(move || pickup.drop_off(&attempt)).await;
            match written {
                Ok(Ok(())) => Verdict::Accepted.into(),
                Ok(Err(error)) => verdict(&error).into(),
                Err(_panicked) => Verdict::Unknown.into(),
            }
        })
    }
}

fn report(n: usize) -> Email {
    let mime = format!("From: {MAILBOX}\r\nTo: board@contoso.example\r\nSubject: Report {n}\r\n\r\nAll is well.\r\n");
    Email::from_mime(MAILBOX, ["board@contoso.example"], mime.into_bytes()).expect("a fixed email")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let pickup = Pickup { folder: folder.path().into() };
    let scheduler = Scheduler::builder(Config::default(), pickup).start().await?;
    let handle = scheduler.handle();

    for n in 1..=3 {
        let submission = Submission::new(MAILBOX, report(n)).lane(Lane::Foreground).operation_id(format!("report-{n}"));
        let ticket = handle.submit(submission).await?;
        println!("{}: {:?}", ticket.operation_id(), ticket.outcome().await?);
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.path())?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    println!("in the pickup folder: {:?}", files.iter().filter_map(|file| file.file_name()).collect::<Vec<_>>());

    // The folder goes away: the mailbox is suspended, the email stays with the scheduler.
    drop(folder);
    let ticket = handle.submit(Submission::new(MAILBOX, report(4)).operation_id("report-4")).await?;
    // Until its first attempt has failed nothing binds it.
    let mut why = handle.explain(&ticket.operation_id()).await?;
    for _ in 0..500 {
        if why.iter().any(|wait| wait.wall == Wall::Hold) {
            break;
        }
        // Between two looks: the condition ends the loop, and the bound if it never comes.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        why = handle.explain(&ticket.operation_id()).await?;
    }
    for wait in why {
        println!("without the folder: {} waits for {} until a person resumes it", ticket.operation_id(), wait.wall);
    }
    println!("{:?}", scheduler.shutdown().await);
    Ok(())
}
