//! Who sends what, and when: fixed by the seed before anything starts.
//!
//! People arrive by the plan, not when the program gets round to them: a late program then shows as a longer wait and
//! not as a shorter queue. The optimum is computed from the same plan.

use std::error::Error;
use std::time::Duration;

use mailweir::config::Config;
use mailweir::email::{Email, EmailError};
use mailweir::engine::{Cost, Limit, Unit};
use mailweir::upstream::Random;
use mailweir::{Lane, Submission};

/// The mailboxes; the first one meets the throttle.
const MAILBOXES: [&str; 3] = ["news@contoso.example", "alerts@contoso.example", "noreply@contoso.example"];
/// The campaign takes this part of what a mailbox may send while people arrive: the rest is for them, for the reserve,
/// and for what the throttle costs.
const CAMPAIGN_PERCENT: u64 = 60;
/// People, as a part of what a mailbox may send.
const PEOPLE_PERCENT: u64 = 10;

/// Everything that will happen.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mailboxes: [&'static str; 3],
    pub(crate) emails: Vec<Planned>,
    pub(crate) throttle: Throttle,
    /// Longest run; what is not accepted by then counts as not finished.
    pub(crate) length_max: Duration,
}

/// One email.
#[derive(Debug)]
pub(crate) struct Planned {
    /// When it is submitted, from the start.
    pub(crate) after: Duration,
    /// The place of its mailbox in the plan.
    pub(crate) mailbox: usize,
    pub(crate) lane: Lane,
    /// Its `Message-ID`, by which the upstream's log names it.
    pub(crate) key: String,
    email: Email,
}

/// The upstream refuses everything from one mailbox for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttle {
    pub(crate) mailbox: usize,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(config: &Config, seed: u64, seconds: u32) -> Result<Self, Box<dyn Error>> {
        let span = Duration::from_secs(u64::from(seconds));
        let requests = config.mailbox.limits.iter().find(|limit| limit.unit() == Unit::Requests);
        let limit = requests.ok_or("config/demo.toml has no limit in requests under [mailbox]")?;
        let mut emails = campaign(limit, span)?;
        for place in 0..MAILBOXES.len() {
            emails.extend(people(place, limit, span, seed)?);
        }
        let throttle = Throttle { mailbox: 0, from: span / 3, until: span / 3 + span / 6 };
        let length_max = span + (span / 2).max(Duration::from_secs(12));
        Ok(Self { seed, mailboxes: MAILBOXES, emails, throttle, length_max })
    }

    /// The emails of one lane, with their places.
    pub(crate) fn lane(&self, lane: Lane) -> impl Iterator<Item = (usize, &Planned)> {
        self.emails.iter().enumerate().filter(move |(_, planned)| planned.lane == lane)
    }
}

impl Planned {
    /// What it takes at the upstream.
    pub(crate) fn cost(&self) -> Cost {
        self.email.cost(&["contoso.example"])
    }

    /// What is handed to the scheduler.
    pub(crate) fn submission(&self) -> Submission {
        let submission = Submission::new(MAILBOXES[self.mailbox], self.email.clone()).lane(self.lane);
        match self.lane {
            Lane::Foreground => submission.caller("sign-in"),
            Lane::Background => submission.campaign("november").caller("newsletter"),
        }
    }
}

/// How many of `limit` pass in `span`, in the long run.
fn in_span(limit: &Limit, span: Duration) -> u64 {
    let passes = u128::from(limit.amount()) * span.as_micros() / limit.window().as_micros().max(1);
    u64::try_from(passes).unwrap_or(u64::MAX)
}

/// All of it at the start, for the mailboxes in turn.
fn campaign(limit: &Limit, span: Duration) -> Result<Vec<Planned>, EmailError> {
    let each = in_span(limit, span) * CAMPAIGN_PERCENT / 100;
    let places = (0..each).flat_map(|number| (0..MAILBOXES.len()).map(move |place| (number, place)));
    places.map(|(number, place)| planned(Duration::ZERO, place, Lane::Background, number)).collect()
}

/// A Poisson stream per mailbox.
fn people(place: usize, limit: &Limit, span: Duration, seed: u64) -> Result<Vec<Planned>, EmailError> {
    let per_hour = in_span(limit, Duration::from_secs(3_600)) * PEOPLE_PERCENT / 100;
    let per_hour = u32::try_from(per_hour).unwrap_or(u32::MAX);
    let mut random = Random::stream(seed, 100 + place as u64);
    let mut people = Vec::new();
    let mut at = Duration::ZERO;
    while let Some(gap) = random.poisson_gap(per_hour) {
        at += gap;
        if at >= span {
            break;
        }
        people.push(planned(at, place, Lane::Foreground, people.len() as u64)?);
    }
    Ok(people)
}

fn planned(after: Duration, mailbox: usize, lane: Lane, number: u64) -> Result<Planned, EmailError> {
    let key = format!("<demo-{lane}-{mailbox}-{number}@contoso.example>");
    let (subject, text) = match lane {
        Lane::Foreground => ("Your sign-in code", format!("Your code is {:06}.\n", number * 7_919 % 1_000_000)),
        Lane::Background => ("The November letter", "Dear reader,\n\nhere is what happened in November.\n".to_owned()),
    };
    let parts = Email::parts().from(MAILBOXES[mailbox]).to(format!("reader-{mailbox}-{number}@fabrikam.example"));
    let email = parts.subject(subject).text(text).message_id(&*key).build()?;
    Ok(Planned { after, mailbox, lane, key, email })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan::new(&Config::preset("demo").expect("it is in this version"), seed, 36).expect("the parts are sound")
    }

    #[test]
    fn one_seed_is_one_plan_and_another_seed_is_another() {
        let instants = |seed| plan(seed).emails.iter().map(|planned| planned.after).collect::<Vec<_>>();
        assert_eq!(instants(1), instants(1));
        assert_ne!(instants(1), instants(2));
    }

    #[test]
    fn every_email_has_a_key_of_its_own() {
        let plan = plan(7);
        let mut keys: Vec<_> = plan.emails.iter().map(|planned| &planned.key).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!((keys.len(), count > 500), (count, true), "{count} emails");
    }

    #[test]
    fn the_throttle_falls_into_the_campaign() {
        let plan = plan(7);
        assert!(plan.throttle.from < plan.throttle.until && plan.throttle.until < plan.length_max);
    }
}
