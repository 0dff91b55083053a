//! What can be chosen.

use crate::Failure;
use crate::args::{Format, ListArgs, Listed};
use crate::run::write_json;
use crate::table::Table;
use servelab_lab::catalog::catalog as lab_catalog;
use servelab_lab::chart::CHARTS;
use servelab_spec::catalog::{ParamInfo, ParamKind};
use std::io::Write;

pub(crate) fn catalog(out: &mut impl Write) -> Result<(), Failure> {
    write_json(&lab_catalog(), out)
}

pub(crate) fn list(args: &ListArgs, out: &mut impl Write) -> Result<(), Failure> {
    let all = [
        Listed::Presets,
        Listed::Policies,
        Listed::Controllers,
        Listed::Clients,
        Listed::Costs,
        Listed::Startups,
        Listed::Settings,
        Listed::Charts,
        Listed::Script,
    ];
    let wanted = args.what.map_or(all.to_vec(), |what| vec![what]);
    match args.format {
        Format::Csv => Err(Failure::Request("--format csv: lists come as table, markdown or json".into())),
        Format::Json => {
            let catalog = lab_catalog();
            match args.what {
                None => write_json(&catalog, out),
                Some(Listed::Policies) => write_json(&catalog.policies, out),
                Some(Listed::Clients) => write_json(&catalog.clients, out),
                Some(Listed::Controllers) => write_json(&catalog.controllers, out),
                Some(Listed::Presets) => write_json(&catalog.presets, out),
                Some(Listed::Costs) => write_json(&catalog.costs, out),
                Some(Listed::Startups) => write_json(&catalog.startups, out),
                Some(Listed::Settings) => write_json(&catalog.settings, out),
                Some(Listed::Charts) => write_json(&CHARTS, out),
                Some(Listed::Script) => write_json(&catalog.script, out),
            }
        }
        Format::Table | Format::Markdown => {
            for (index, what) in wanted.into_iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                table(what).write(out)?;
            }
            Ok(())
        }
    }
}

fn table(what: Listed) -> Table {
    let catalog = lab_catalog();
    let mut table;
    match what {
        Listed::Presets => {
            table = Table::of_words(&["preset", "question"]);
            for preset in catalog.presets {
                table.row(vec![preset.name, preset.question]);
            }
        }
        Listed::Controllers => {
            table = Table::of_words(&["controller", "default", "accepted", "what it does"]);
            for controller in catalog.controllers {
                let bound = if controller.bound { " A bound, not a choice." } else { "" };
                let summary = format!("{}{bound}", controller.summary);
                table.row(vec![controller.name, String::new(), String::new(), summary]);
                parameters(&mut table, controller.params);
            }
        }
        Listed::Clients => {
            table = Table::of_words(&["client policy", "default", "accepted", "what it does"]);
            for client in catalog.clients {
                table.row(vec![client.name, String::new(), String::new(), client.summary]);
                parameters(&mut table, client.params);
            }
        }
        Listed::Policies => {
            table = Table::of_words(&["policy", "default", "accepted", "what it does"]);
            for policy in catalog.policies {
                table.row(vec![policy.name, String::new(), String::new(), policy.summary]);
                parameters(&mut table, policy.params);
            }
        }
        Listed::Costs => {
            table = Table::of_words(&["cost model", "a µs", "b", "c", "d", "e", "where from"]);
            for cost in catalog.costs {
                let c = cost.coefficients;
                let numbers =
                    [c.step_us, c.prefill_token_us, c.prefill_context_us, c.decode_sequence_us, c.decode_context_us];
                let mut row = vec![cost.name];
                row.extend(numbers.map(|number| number.to_string()));
                row.push(format!("{}: {}", cost.label, cost.source));
                table.row(row);
            }
        }
        Listed::Startups => {
            table = Table::of_words(&["cold start", "what starts", "where the numbers come from"]);
            for info in catalog.startups {
                table.row(vec![info.name, info.label, info.source]);
            }
        }
        Listed::Settings => {
            table = Table::of_words(&["setting", "default", "accepted", "what it changes"]);
            for setting in catalog.settings {
                let default = match &setting.kind {
                    ParamKind::Switch => if setting.default == 0.0 { "off" } else { "on" }.into(),
                    ParamKind::Choice(options) => options.get(setting.default as usize).cloned().unwrap_or_default(),
                    _ => setting.default.to_string(),
                };
                let range = accepted(&setting, false);
                table.row(vec![setting.name, default, range, setting.help]);
            }
        }
        Listed::Charts => {
            table = Table::of_words(&["chart", "what it shows"]);
            for (id, meaning) in CHARTS {
                table.row(vec![id.into(), meaning.into()]);
            }
        }
        Listed::Script => {
            table = Table::of_words(&["in a script", "what it is", "signal", "what it means"]);
            for value in catalog.script.values {
                let unit = if value.unit.is_empty() { String::new() } else { format!(", {}", value.unit) };
                table.row(vec![value.name, format!("{}{unit}", value.kind), value.tier, value.help]);
            }
        }
    }
    table
}

/// A row for each parameter of what stands above it.
fn parameters(table: &mut Table, params: Vec<ParamInfo>) {
    for param in params {
        let name = format!("  {}", param.name);
        table.row(vec![name, param.default.to_string(), accepted(&param, true), param.help]);
    }
}

/// Policies take choices by index, settings by name.
fn accepted(param: &ParamInfo, by_index: bool) -> String {
    match &param.kind {
        ParamKind::Switch if by_index => "0 or 1".into(),
        ParamKind::Switch => "on or off".into(),
        ParamKind::Choice(options) if by_index => {
            let each: Vec<String> = options.iter().enumerate().map(|(at, option)| format!("{at} {option}")).collect();
            each.join(", ")
        }
        ParamKind::Choice(options) => options.join(", "),
        ParamKind::Number | ParamKind::Integer => {
            let unit = if param.unit.is_empty() { String::new() } else { format!(" {}", param.unit) };
            format!("{} to {}{unit}", param.min, param.max)
        }
    }
}
