//! What the provider really does: its limits, what it says, and what goes wrong with it.

mod limits;

use std::sync::Arc;
use std::time::Duration;

use super::Trouble;
use super::codecs::RetryAfterForm;
use crate::config::{Config, Count, Fields, Line, Or, Share, Size, Span, Word};
use crate::engine::{Cost, Ratio, Scope, ScopeKind, Timestamp};
use crate::simulation::START;
use crate::upstream::{
    Algorithm, Block, ConcurrencyLimit, Early, Faults, Foreign, Latency, LogNormal, Model, Penalty, Profile, Refusals,
    RetryAfterPolicy, Schedule, ScopeHeader, UpstreamLimit,
};

/// Longest run.
pub(super) const END: Duration = Duration::from_secs(366 * 86_400);
const INSTANT: Span = Span(Duration::ZERO, END);
const SHARE: Share = Share(Ratio::ZERO, Ratio::ONE);
const PROFILES: [(&str, Profile); 4] = [("A", Profile::A), ("B", Profile::B), ("C", Profile::C), ("D", Profile::D)];
const REFUSALS: [(&str, Refusals); 2] = [("counted", Refusals::Counted), ("free", Refusals::NotCounted)];
const SCOPES: [(&str, ScopeKind); 3] =
    [("mailbox", ScopeKind::Mailbox), ("tenant", ScopeKind::Tenant), ("application", ScopeKind::Application)];
const EARLY: [(&str, Early); 2] = [("ignored", Early::Ignored), ("restarts", Early::Restarts)];

/// The provider of a scenario.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Provider {
    /// How windows count and whether refusals do, where nothing else is said.
    pub profile: Profile,
    /// Its limits; `None`: those that are declared.
    limits: Option<Vec<(UpstreamLimit, Counting)>>,
    refusals: Option<Refusals>,
    retry_after: RetryAfterPolicy,
    usage_from: Option<Ratio>,
    /// Bounds on requests in flight; `None`: those that are declared.
    concurrency: Option<Vec<ConcurrencyLimit>>,
    latency: Latency,
    faults: Faults,
    scale: Schedule<Ratio>,
    blocks: Vec<Block>,
    foreign: Vec<Foreign>,
    penalty: Option<Penalty>,
    /// Budgets that somebody else spends at one instant.
    pub(super) burns: Vec<Burn>,
    troubles: Vec<Trouble>,
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// As the profile has it.
    Profile,
    /// As its own table says.
    Own,
}

/// Somebody else spends so much at one instant.
#[derive(Clone, Debug)]
pub(super) struct Burn {
    pub(super) at: Duration,
    pub(super) mailbox: Arc<str>,
    pub(super) tenant: Option<Arc<str>>,
    pub(super) cost: Cost,
}

type FaultOf = fn(&mut Faults) -> &mut Schedule<Ratio>;

/// What can go wrong with a request.
#[derive(Clone, Copy, Debug)]
struct FaultName(FaultOf);

impl PartialEq for FaultName {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

const FAULTS: [(&str, FaultName); 9] = [
    ("request-lost", FaultName(|faults| &mut faults.request_lost)),
    ("cut-before-body", FaultName(|faults| &mut faults.cut_before_body)),
    ("error-before-charge", FaultName(|faults| &mut faults.error_before_charge)),
    ("error-after-charge", FaultName(|faults| &mut faults.error_after_charge)),
    ("timeout-after-acceptance", FaultName(|faults| &mut faults.timeout_after_acceptance)),
    ("cut-after-body", FaultName(|faults| &mut faults.cut_after_body)),
    ("response-lost", FaultName(|faults| &mut faults.response_lost)),
    ("response-duplicated", FaultName(|faults| &mut faults.response_duplicated)),
    ("accepted-with-retry-after", FaultName(|faults| &mut faults.accepted_with_retry_after)),
];

impl Default for Provider {
    fn default() -> Self {
        Self {
            profile: Profile::A,
            limits: None,
            refusals: None,
            retry_after: RetryAfterPolicy::Exact,
            usage_from: None,
            concurrency: None,
            latency: Latency::default(),
            faults: Faults::default(),
            scale: Schedule::always(Ratio::ONE),
            blocks: Vec::new(),
            foreign: Vec::new(),
            penalty: None,
            burns: Vec::new(),
            troubles: Vec::new(),
        }
    }
}

impl Provider {
    /// What goes wrong on purpose, up to the end of the run.
    pub(super) fn troubles(&self, end: Duration) -> Vec<Trouble> {
        let cut = |trouble: &Trouble| Trouble { until: trouble.until.min(end), ..trouble.clone() };
        self.troubles.iter().filter(|trouble| trouble.from < end).map(cut).collect()
    }

    /// Why a refusal need not be ours; `None`: the provider keeps exactly what is declared, nothing goes wrong with it, and it
    /// serves nobody else.
    #[must_use]
    pub fn deviates(&self, config: &Config) -> Option<&'static str> {
        let reasons = [
            (self.limits.is_some(), "the provider has limits of its own"),
            (self.concurrency.as_ref().is_some_and(|own| !own.is_empty()), "the provider has connections of its own"),
            (!self.troubles.is_empty(), "something goes wrong on purpose, or others send"),
            (self.penalty.is_some(), "the provider has a penalty box"),
            (!config.mailboxes.is_empty(), "mailboxes have limits of their own, of which the provider does not know"),
        ];
        reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why)
    }

    /// The upstream of one run. `seed` gives the phases of fixed windows.
    #[must_use]
    pub fn model(&self, config: &Config, seed: u64) -> Model {
        let declared = declared(config);
        let rows: Vec<_> = match &self.limits {
            Some(own) => own.clone(),
            None => declared.into_iter().map(|limit| (limit, Counting::Profile)).collect(),
        };
        let mut model = self.profile.model(rows.iter().map(|(limit, _)| limit.clone()), seed);
        for (limit, (own, _)) in model.limits.iter_mut().zip(rows.iter()).filter(|(_, row)| row.1 == Counting::Own) {
            limit.algorithm = own.algorithm;
        }
        let bound = |kind, scope: &crate::engine::policy::ScopePolicy| {
            scope.concurrency.map(|most| ConcurrencyLimit::new(kind, most.get()))
        };
        model.concurrency = self.concurrency.clone().unwrap_or_else(|| {
            let scopes = [
                bound(ScopeKind::Mailbox, &config.mailbox),
                bound(ScopeKind::Tenant, &config.tenant),
                bound(ScopeKind::Application, &config.application),
            ];
            scopes.into_iter().flatten().collect()
        });
        model.refusals = self.refusals.unwrap_or(model.refusals);
        model.retry_after = self.retry_after.clone();
        model.usage_from = self.usage_from;
        // Its 429s name their scope (docs/scenarios.md), as the engines alone are told it.
        model.scope_header = ScopeHeader::Word;
        model.latency = self.latency;
        model.faults = self.faults.clone();
        model.blocks = self.blocks.clone();
        model.foreign = self.foreign.clone();
        model.penalty = self.penalty;
        model.scaled(&self.scale)
    }
}

fn declared(config: &Config) -> Vec<UpstreamLimit> {
    let scopes = [
        (ScopeKind::Mailbox, &config.mailbox),
        (ScopeKind::Tenant, &config.tenant),
        (ScopeKind::Application, &config.application),
    ];
    let rows = scopes.into_iter().flat_map(|(kind, scope)| scope.limits.iter().map(move |limit| (kind, limit)));
    rows.map(|(kind, limit)| UpstreamLimit::declared(kind, limit, Algorithm::Rolling)).collect()
}

/// Reads `[upstream]`; without one it is what is declared, on profile A.
pub(super) fn read(fields: Option<Fields<'_, '_>>, config: &Config, mailboxes: &[Arc<str>]) -> Provider {
    let mut provider = Provider::default();
    let Some(mut fields) = fields else { return provider };
    provider.profile = fields.or("profile", &Word(&PROFILES), Profile::A);
    provider.refusals = fields.get("refusals", &Word(&REFUSALS));
    provider.retry_after = fields.or("retry_after", &RetryAfterForm, RetryAfterPolicy::Exact);
    provider.usage_from = fields.or("usage_from", &Or("never", SHARE), None);
    provider.limits = limits::read(&mut fields);
    concurrency(&mut fields, &mut provider);
    if let Some(latency) = fields.table("latency") {
        provider.latency = self::latency(latency);
    }
    provider.faults.timeout_lingers = fields.or("timeout_lingers", &INSTANT, Duration::ZERO);
    fields.tables("fault").into_iter().for_each(|fault| self::fault(fault, &mut provider));
    fields.tables("scale").into_iter().for_each(|scale| self::scale(scale, &mut provider));
    fields.tables("block").into_iter().for_each(|block| self::block(block, &mut provider, mailboxes));
    fields.tables("foreign").into_iter().for_each(|foreign| self::foreign(foreign, &mut provider, config, mailboxes));
    fields.tables("burn").into_iter().for_each(|burn| self::burn(burn, &mut provider, config, mailboxes));
    provider.penalty = fields.table("penalty").and_then(penalty);
    fields.close();
    provider
}

fn concurrency(fields: &mut Fields<'_, '_>, provider: &mut Provider) {
    let names = [
        ("concurrency", ScopeKind::Mailbox),
        ("tenant_concurrency", ScopeKind::Tenant),
        ("application_concurrency", ScopeKind::Application),
    ];
    for (name, kind) in names {
        if let Some(most) = fields.get(name, &Or("unlimited", Count(1_u32, 1_000_000))) {
            let bounds = provider.concurrency.get_or_insert_default();
            bounds.extend(most.map(|most| ConcurrencyLimit::new(kind, most)));
        }
    }
}

fn latency(mut fields: Fields<'_, '_>) -> Latency {
    let default = Latency::default();
    let spread = fields.or("spread", &Share(Ratio::ZERO, Ratio::percent(800)), default.service.sigma);
    let mut span = |name, otherwise: LogNormal| LogNormal::new(fields.or(name, &INSTANT, otherwise.median), spread);
    let (up, service, down) = (span("up", default.up), span("service", default.service), span("down", default.down));
    let refusal = fields.or("refusal", &INSTANT, default.refusal);
    let longest = fields.or("longest", &INSTANT, default.longest);
    fields.close();
    Latency { up, service, down, refusal, longest }
}

/// `from` and `until` as they are written; without an end, for ever.
fn span(fields: &mut Fields<'_, '_>) -> (Duration, Duration) {
    let from = fields.or("from", &INSTANT, Duration::ZERO);
    let until = fields.or("until", &INSTANT, END);
    if until <= from {
        fields.conflict("until", "it ends before it begins", "an instant after from");
    }
    (from, until.max(from))
}

const fn instant(after: Duration) -> Timestamp {
    Timestamp::from_micros(START.as_micros() + after.as_micros() as u64)
}

fn fault(mut fields: Fields<'_, '_>, provider: &mut Provider) {
    let kind = fields.need("kind", &Word(&FAULTS));
    let rate = fields.need("rate", &SHARE);
    let (from, until) = span(&mut fields);
    fields.close();
    if let (Some(FaultName(of)), Some(rate)) = (kind, rate) {
        let schedule = of(&mut provider.faults);
        *schedule = schedule.clone().between(instant(from), instant(until), rate);
        let name = FAULTS.iter().find(|(_, fault)| Some(*fault) == kind).map_or("fault", |(name, _)| name);
        provider.troubles.push(Trouble { name: format!("{rate} {name}"), from, until });
    }
}

fn scale(mut fields: Fields<'_, '_>, provider: &mut Provider) {
    let factor = fields.need("factor", &Share(Ratio::ZERO, Ratio::percent(1_000)));
    let (from, until) = span(&mut fields);
    fields.close();
    if let Some(factor) = factor {
        provider.scale = provider.scale.clone().between(instant(from), instant(until), factor);
        provider.troubles.push(Trouble { name: format!("limits at {factor}"), from, until });
    }
}

fn block(mut fields: Fields<'_, '_>, provider: &mut Provider, mailboxes: &[Arc<str>]) {
    let kind = fields.or("scope", &Word(&SCOPES), ScopeKind::Mailbox);
    let id = fields.get("id", &Line(253)).filter(|id| !id.is_empty()).map(Arc::from);
    if kind == ScopeKind::Application && id.is_some() {
        fields.conflict("id", "there is one application", "no id, or scope = \"mailbox\" or \"tenant\"");
    }
    if kind == ScopeKind::Tenant && id.is_none() {
        fields.conflict("id", "which tenant?", "the tenant's id");
    }
    let (from, until) = span(&mut fields);
    fields.close();
    let scope = match (kind, id.or_else(|| mailboxes.first().cloned())) {
        (ScopeKind::Mailbox, Some(id)) => Scope::Mailbox(id),
        (ScopeKind::Tenant, Some(id)) => Scope::Tenant(id),
        _ => Scope::Application,
    };
    provider.troubles.push(Trouble { name: format!("{scope} blocked"), from, until });
    provider.blocks.push(Block { scope, from: instant(from), until: instant(until) });
}

/// Whose budget somebody else spends: the mailbox, which is the first one unless said, and its tenant.
fn whose(fields: &mut Fields<'_, '_>, config: &Config, mailboxes: &[Arc<str>]) -> Option<(Arc<str>, Option<Arc<str>>)> {
    let mailbox = fields.get("mailbox", &Line(253)).map(Arc::from).or_else(|| mailboxes.first().cloned())?;
    let tenant = fields.get("tenant", &Line(253)).map(Arc::from);
    let tenant = tenant.or_else(|| config.tenant_of(&mailbox).cloned());
    Some((mailbox, tenant))
}

fn cost(fields: &mut Fields<'_, '_>, requests: u32) -> Cost {
    let recipients = fields.or("recipients", &Count(0_u32, 1_000_000), requests);
    let bytes = fields.or("bytes", &Size(0, 1 << 40), 4_096 * u64::from(requests));
    Cost { requests, ..Cost::email(recipients, bytes) }
}

fn foreign(mut fields: Fields<'_, '_>, provider: &mut Provider, config: &Config, mailboxes: &[Arc<str>]) {
    let who = whose(&mut fields, config, mailboxes);
    let per_hour = fields.need("per_hour", &Count(1_u32, 100_000_000));
    let cost = cost(&mut fields, 1);
    let (from, until) = span(&mut fields);
    fields.close();
    if let (Some((mailbox, tenant)), Some(rate)) = (who, per_hour) {
        let per_hour = Schedule::always(0).between(instant(from), instant(until), rate);
        provider.troubles.push(Trouble { name: format!("{rate}/h by somebody else"), from, until });
        provider.foreign.push(Foreign { mailbox, tenant, cost, per_hour });
    }
}

fn burn(mut fields: Fields<'_, '_>, provider: &mut Provider, config: &Config, mailboxes: &[Arc<str>]) {
    let who = whose(&mut fields, config, mailboxes);
    let at = fields.need("at", &INSTANT);
    let requests = fields.need("requests", &Count(1_u32, 1_000_000));
    let cost = cost(&mut fields, requests.unwrap_or(1));
    fields.close();
    if let (Some((mailbox, tenant)), Some(at), Some(requests)) = (who, at, requests) {
        provider.troubles.push(Trouble { name: format!("{requests} spent by somebody else"), from: at, until: at });
        provider.burns.push(Burn { at, mailbox, tenant, cost });
    }
}

fn penalty(mut fields: Fields<'_, '_>) -> Option<Penalty> {
    let refusals = fields.need("refusals", &Count(1_u32, 1_000_000));
    let within = fields.need("within", &INSTANT);
    let lasts = fields.need("lasts", &INSTANT);
    let early = fields.or("early", &Word(&EARLY), Early::Ignored);
    fields.close();
    Some(Penalty { refusals: refusals?, within: within?, lasts: lasts?, early })
}
