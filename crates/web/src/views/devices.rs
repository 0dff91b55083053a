//! Which device computes, and what a step costs on each, measured side by side.

use crate::format::{duration, whole};
use crate::link::Host;
use crate::state::App;
use crate::views::files::TableBox;
use crate::views::terms::prose;
use crate::{control, env, text};
use leptos::prelude::*;
use servelab_spec::protocol::DeviceReport;

/// The devices.
#[component]
pub(super) fn Devices() -> impl IntoView {
    let app = App::here();
    let measuring = move |host: Host| app.measuring.with(|measuring| measuring.contains(&host));
    let used = Memo::new(move |_| {
        app.run.report.with(|report| report.as_ref().map(|report| text::device_used(&report.cost.device)))
    });
    let verdict = Memo::new(move |_| app.devices.with(|devices| verdict(devices)));
    view! {
        <section class="devices" aria-label=text::DEVICES_REGION data-testid="device">
            <h2>{text::DEVICES}</h2>
            <p>{move || used.get().unwrap_or_else(|| text::DEVICE_NONE.into())}</p>
            {move || verdict.get().map(|words| view! { <p data-testid="verdict"><strong>{words}</strong></p> })}
            <Show when=move || app.devices.with(|devices| !devices.is_empty())>
                <TableBox label=text::DEVICES_TABLE name="devices">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">{text::DEVICE}</th>
                                <th scope="col">{text::DECODE_1}</th>
                                <th scope="col">{text::DECODE_8}</th>
                                <th scope="col">{text::PREFILL_128}</th>
                                <th scope="col">{text::KERNELS}</th>
                            </tr>
                        </thead>
                        <tbody>{move || app.devices.get().into_iter().map(row).collect_view()}</tbody>
                    </table>
                </TableBox>
            </Show>
            <p class="exports">
                <button type="button" disabled=move || measuring(Host::Bench) on:click=move |_| control::measure(app, Host::Bench)>
                    {move || if measuring(Host::Bench) { text::MEASURING } else { text::MEASURE_CPU }}
                </button>
                <Show when=env::has_webgpu fallback=|| view! { <span class="muted">{text::NO_WEBGPU}</span> }>
                    <button type="button" data-testid="measure-gpu" disabled=move || measuring(Host::Gpu) on:click=move |_| control::measure(app, Host::Gpu)>
                        {move || if measuring(Host::Gpu) { text::MEASURING } else { text::MEASURE_GPU }}
                    </button>
                </Show>
            </p>
            <p class="muted results-note">{prose(text::DEVICES_NOTE)}</p>
        </section>
    }
}

fn row(device: DeviceReport) -> impl IntoView {
    let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ms| duration(ms / 1e3));
    let kernels = device.kernels_per_step.map_or_else(|| "–".to_owned(), |kernels| whole(kernels.into()));
    let name = text::device_name(&device);
    match device.error {
        Some(error) => {
            view! { <tr><th scope="row">{name}</th><td colspan="4">{text::sentence(&error)}</td></tr> }.into_any()
        }
        None => view! {
            <tr data-testid=format!("device-{}", device.kind)>
                <th scope="row">{name}</th>
                <td class="num">{ms(device.decode_1_ms)}</td>
                <td class="num">{ms(device.decode_8_ms)}</td>
                <td class="num">{ms(device.prefill_128_ms)}</td>
                <td class="num">{kernels}</td>
            </tr>
        }
        .into_any(),
    }
}

/// Which of two measured devices is the faster one, and by how much.
fn verdict(devices: &[DeviceReport]) -> Option<String> {
    let time = |kind: &str| devices.iter().find(|device| device.kind == kind).and_then(|device| device.decode_8_ms);
    let (cpu, gpu) = (time("cpu")?, time("webgpu")?);
    let positive = cpu > 0.0 && gpu > 0.0;
    positive.then(|| if cpu <= gpu { text::cpu_faster(gpu / cpu) } else { text::gpu_faster(cpu / gpu) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_both_devices() {
        let device =
            |kind: &str, ms: f64| DeviceReport { kind: kind.into(), decode_8_ms: Some(ms), ..DeviceReport::default() };
        assert!(verdict(&[device("cpu", 8.0)]).is_none());
        assert_eq!(verdict(&[device("cpu", 8.0), device("webgpu", 24.0)]), Some(text::cpu_faster(3.0)));
        assert_eq!(verdict(&[device("cpu", 8.0), device("webgpu", 2.0)]), Some(text::gpu_faster(4.0)));
    }
}
