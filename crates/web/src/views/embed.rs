//! The panel for authors: two lines of HTML that show this experiment on another page.

use super::files::copy_button;
use crate::state::App;
use crate::views::terms::prose;
use crate::{address, env, text};
use leptos::prelude::*;

/// The panel, folded until somebody wants it.
#[component]
pub(super) fn Embed() -> impl IntoView {
    let app = App::here();
    // As a page without attributes has them: all but the settings.
    let shown = RwSignal::new(text::EMBED_PART.map(|(name, _)| name != "controls"));
    let settings = RwSignal::new(String::new());
    let code = Memo::new(move |_| {
        app.draft.track();
        let names = text::EMBED_PART.iter().zip(shown.get()).filter(|(_, on)| *on).map(|((name, _), _)| *name);
        let show: Vec<&str> = names.collect();
        tag(&address::link(app), &show.join(" "), settings.get().trim())
    });
    let parts = (0..text::EMBED_PART.len())
        .map(|at| {
            let (name, label) = text::EMBED_PART[at];
            view! {
                <label>
                    <input
                        type="checkbox"
                        data-testid=format!("embed-{name}")
                        prop:checked=move || shown.get()[at]
                        on:change=move |_| shown.update(|shown| shown[at] = !shown[at])
                    />
                    {label}
                </label>
            }
        })
        .collect_view();
    view! {
        <details class="cold embed" data-testid="embed">
            <summary><h2>{text::EMBED}</h2></summary>
            <p class="muted results-note">{prose(text::EMBED_NOTE)}</p>
            <fieldset class="embed-parts">
                <legend>{text::EMBED_PARTS}</legend>
                {parts}
            </fieldset>
            <label class="embed-settings">
                {text::EMBED_SETTINGS}
                <input
                    type="text"
                    data-testid="embed-settings"
                    placeholder=text::EMBED_SETTINGS_EXAMPLE
                    prop:value=move || settings.get()
                    on:input=move |event| settings.set(event_target_value(&event))
                />
            </label>
            <h3>{text::EMBED_CODE}</h3>
            <Show when=move || env::from_disk()>
                <p class="stale" role="note" data-testid="embed-disk">{text::EMBED_DISK}</p>
            </Show>
            <pre class="embed-code" tabindex="0" data-testid="embed-code">{move || code.get()}</pre>
            {copy_button("embed-copy", text::EMBED_COPY, move || code.get_untracked())}
        </details>
    }
}

/// The lines for the page at `link`. Values in an address hold no quote and no angle bracket: they are percent-coded there.
fn tag(link: &str, show: &str, settings: &str) -> String {
    let (page, set) = link.split_once('#').unwrap_or((link, ""));
    let page = page.split('?').next().unwrap_or(page);
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let escaped = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let controls = match settings {
        "" => String::new(),
        settings => format!(" controls=\"{}\"", escaped(settings)),
    };
    format!(
        "<script src=\"{}/embed.js\" async></script>\n<serve-lab set=\"{}\" show=\"{show}\"{controls}></serve-lab>",
        escaped(folder),
        escaped(set)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_holds_the_address_and_nothing_that_ends_it() {
        assert_eq!(
            tag("https://a.example/lab/?embed=x#preset=tiny-cache&seed=3", "stage results", ""),
            "<script src=\"https://a.example/lab/embed.js\" async></script>\n<serve-lab set=\"preset=tiny-cache&amp;seed=3\" show=\"stage results\"></serve-lab>"
        );
        let odd = tag("http://a/index.html#x=\"<", "stage", "workload.rate,\"");
        assert!(odd.contains("set=\"x=&quot;&lt;\"") && odd.contains("controls=\"workload.rate,&quot;\""), "{odd}");
    }
}
