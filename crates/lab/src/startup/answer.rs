//! A cold start told stage by stage.

use super::{config, floors, probing};
use crate::catalog::words_of;
use crate::configuration::probes::deployment;
use crate::words::{count, duration};
use servelab_engine::Nanos;
use servelab_fleet::startup::{SharedLink, Stage, StageWork, StartupConfig};
use servelab_spec::coldstart::{ColdStart, ColdStartQuery, Fate, Saving, StagePart};
use servelab_spec::experiment::{Spec, StartupSpec};
use servelab_spec::validate::SpecError;

/// Most replicas that start at once: as many as a spec may have.
const MOST_TOGETHER: u32 = 512;

/// Most requests in flight on one replica.
const MOST_IN_FLIGHT: u32 = 100_000;

/// The switches that make a start shorter.
const SWITCHES: [&str; 9] =
    ["warm_node", "image_pulled", "streamed", "mapped", "nvme", "host_cache", "compile_cache", "few_graphs", "sleep"];

/// What happens when `query.together` replicas start at once.
///
/// # Errors
/// The first setting at fault.
pub fn cold_start(query: &ColdStartQuery) -> Result<ColdStart, SpecError> {
    Spec { startup: query.startup, ..Spec::default() }.validate()?;
    for (field, value, low, high) in
        [("together", query.together, 1, MOST_TOGETHER), ("in_flight", query.in_flight, 0, MOST_IN_FLIGHT)]
    {
        if value < low || value > high {
            return Err(SpecError::new(field, value, format!("accepted is a whole number from {low} to {high}")));
        }
    }
    if !(0.0..=86_400.0).contains(&query.grace_s) {
        return Err(SpecError::new("grace_s", query.grace_s, "accepted is a number from 0 to 86400 (s)"));
    }
    let config = config(&query.startup);
    let container =
        config.stages[..config.restart_at()].iter().fold(Nanos::ZERO, |at, &(_, work)| at + config.alone(work));
    let probed = probing::follow(&config, container, query.in_flight);
    let stages = stages(&config, query.together);
    let together_s = stages.iter().map(|stage| stage.together_s).sum();
    Ok(ColdStart {
        serves_s: config.nominal().as_secs(),
        ready_s: config.nominal_ready().as_secs(),
        together_s,
        savings: savings(&query.startup),
        container_s: container.as_secs(),
        sentence: sentence(query, &config, container, &probed),
        stages,
        probes: probed.marks,
        fate: probed.fate,
        floors: floors::floors(&query.floors)?,
        manifest: deployment(&query.startup, query.grace_s),
    })
}

fn stages(config: &StartupConfig, together: u32) -> Vec<StagePart> {
    let mut start = Nanos::ZERO;
    let part = |stage: Stage| {
        let works: Vec<StageWork> = config.stages.iter().filter(|part| part.0 == stage).map(|part| part.1).collect();
        let sum = |each: &dyn Fn(StageWork) -> Nanos| works.iter().fold(Nanos::ZERO, |sum, &work| sum + each(work));
        let alone = sum(&|work| config.alone(work));
        let shared = sum(&|work| among(config, work, together));
        // A stage that takes what is stated for it has nothing to explain.
        let stated = matches!(works[..], [StageWork::Fixed(_)]);
        let how: Vec<String> = works.iter().filter(|_| !stated).map(|&work| how(config, work)).collect();
        let begins = start;
        start += alone;
        StagePart {
            stage,
            label: stage.label().into(),
            help: stage.sentence().into(),
            start_s: begins.as_secs(),
            seconds: alone.as_secs(),
            together_s: shared.as_secs(),
            how: how.join(" + "),
        }
    };
    Stage::ALL.into_iter().map(part).collect()
}

/// How long `work` takes when `together` replicas begin it at the same instant.
fn among(config: &StartupConfig, work: StageWork, together: u32) -> Nanos {
    let StageWork::Shared { bytes, link } = work else { return config.alone(work) };
    let mut link = SharedLink::new(config.link(link));
    (0..together).for_each(|id| link.join(Nanos::ZERO, id, bytes));
    let mut last = Nanos::ZERO;
    while let Some((end, id)) = link.next() {
        last = end;
        link.finish(end, id);
    }
    last
}

fn how(config: &StartupConfig, work: StageWork) -> String {
    let gb = |bytes: u64| bytes as f64 / 1e9;
    let over = |bytes, bytes_per_s| format!("{} GB ÷ {} GB/s", rounded(gb(bytes)), rounded(gb(bytes_per_s)));
    match work {
        StageWork::Fixed(time) => duration(time.as_secs()),
        StageWork::Measured => "measured".into(),
        StageWork::Transfer { bytes, bytes_per_s } => over(bytes, bytes_per_s),
        StageWork::Shared { bytes, link } => over(bytes, config.link(link).alone()),
    }
}

/// Three significant digits, without zeros at the end.
fn rounded(value: f64) -> String {
    let decimals = (2.0 - libm::floor(libm::log10(value.max(1e-9)))).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn savings(startup: &StartupSpec) -> Vec<Saving> {
    let serves = |startup: &StartupSpec| config(startup).nominal().as_secs();
    let mut out = Vec::new();
    for name in SWITCHES {
        let set = |on| {
            let mut changed = *startup;
            // One of the two ways to overlap at a time.
            match name {
                "streamed" if on => changed.mapped = false,
                "mapped" if on => changed.streamed = false,
                _ => {}
            }
            *switch(&mut changed, name) = on;
            changed
        };
        let key = format!("startup.{name}");
        let (label, help) = words_of(&key);
        out.push(Saving {
            on: *switch(&mut startup.to_owned(), name),
            saves_s: serves(&set(false)) - serves(&set(true)),
            with: "on".into(),
            without: "off".into(),
            label: label.into(),
            help: help.into(),
            key,
        });
    }
    for bits in [8.0, 4.0] {
        let set = |bits| StartupSpec { bits, ..*startup };
        out.push(Saving {
            key: "startup.bits".into(),
            with: bits.to_string(),
            without: "16".into(),
            label: format!("{bits}-bit weights"),
            help: words_of("startup.bits").1.into(),
            on: startup.bits == bits,
            saves_s: serves(&set(16.0)) - serves(&set(bits)),
        });
    }
    out
}

/// The switch of that name; what is not one is `sleep`.
fn switch<'a>(startup: &'a mut StartupSpec, name: &str) -> &'a mut bool {
    match name {
        "warm_node" => &mut startup.warm_node,
        "image_pulled" => &mut startup.image_pulled,
        "streamed" => &mut startup.streamed,
        "mapped" => &mut startup.mapped,
        "nvme" => &mut startup.nvme,
        "host_cache" => &mut startup.host_cache,
        "compile_cache" => &mut startup.compile_cache,
        "few_graphs" => &mut startup.few_graphs,
        _ => &mut startup.sleep,
    }
}

fn sentence(query: &ColdStartQuery, config: &StartupConfig, container: Nanos, probed: &probing::Probed) -> String {
    let say = |at: Nanos| duration(at.as_secs());
    let serves = config.nominal();
    let decided = probed.decided.unwrap_or(serves);
    match probed.fate {
        Fate::Serves => match probed.rotation {
            _ if config.is_instant() => "A replica serves the moment it is asked for.".into(),
            Some(rotation) if rotation > serves => {
                let late = say(rotation.since(serves));
                format!(
                    "It can serve after {} and is sent requests {late} later, when its probe has noticed.",
                    say(serves)
                )
            }
            _ => format!("It serves after {}, and is sent requests from then on.", say(serves)),
        },
        Fate::NeverReady => {
            format!("It can serve after {}, and its probes never find it ready: it is sent nothing.", say(serves))
        }
        Fate::TooEarly => {
            let rotation = probed.rotation.unwrap_or(Nanos::ZERO);
            format!(
                "It is sent requests after {} and serves after {}: the first users wait up to {}.",
                say(rotation),
                say(serves),
                say(serves.since(rotation))
            )
        }
        Fate::KilledForEver => format!(
            "Its container is killed after {} and would need {}; the next one begins with the weights again and goes the same way, for ever.",
            say(decided.since(container)),
            say(serves.since(container))
        ),
        Fate::OutUnderLoad | Fate::KilledUnderLoad => {
            let answer = config.probes.map_or(Nanos::ZERO, |probes| probes.answer.at(query.in_flight));
            let what =
                if probed.fate == Fate::OutUnderLoad { "taken out of rotation" } else { "killed, with all it runs," };
            format!(
                "With {} requests in flight a health answer takes {}, and it is {what} {} after it began to serve.",
                count(query.in_flight.into()),
                say(answer),
                say(decided.since(serves))
            )
        }
    }
}
