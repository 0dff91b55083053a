// What the page does inside somebody else's page: shows the parts that were asked for, says how high it is and when a run has ended.
// `embed.js` is the other end.
const asked = new URLSearchParams(location.search);
const name = asked.get("embed");

if (name !== null) {
  const root = document.documentElement;
  const words = (key) => (asked.get(key) ?? "").split(/\s+/).filter(Boolean);
  root.dataset.embed = name;
  root.dataset.show = words("show").join(" ") || "question predict stage results charts";

  const say = (type, more) => parent !== self && parent.postMessage({ servelab: name, type, ...more }, "*");

  // Settings by the ids of their fields. Names come from an address: only what a setting's name can be goes into a selector.
  const fields = (key) => words(key).filter((setting) => /^[a-z0-9_.]+$/.test(setting)).map((setting) => `#set-${setting.replaceAll(".", "-")}`);
  if (asked.has("controls") || asked.has("fixed")) {
    root.dataset.show += " controls";
    const kept = [...fields("controls"), ...fields("fixed")];
    const sheet = new CSSStyleSheet();
    const without = kept.length ? `:not(:has(${kept.join(",")}))` : "";
    sheet.replaceSync(`[data-embed] .controls :is(.param, .group)${without}, [data-embed] .controls > ${without || "*"} {display: none}`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  }
  const locked = fields("fixed").join(",");
  const lock = () => {
    if (locked) for (const field of document.querySelectorAll(locked)) field.closest(".param")?.setAttribute("inert", "");
    // A setting that is to be seen is in no closed group.
    for (const group of document.querySelectorAll(".controls details.group:not([open])")) if (group.checkVisibility()) group.open = true;
  };
  if (asked.has("controls") || asked.has("fixed")) new MutationObserver(lock).observe(document.body, { childList: true, subtree: true });

  let told = 0;
  const measure = () => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    if (height !== told) say("height", { height: (told = height) });
  };
  new ResizeObserver(measure).observe(document.body);
  addEventListener("servelab:ready", () => say("ready"));
  addEventListener("servelab:finished", (event) => say("finished", { report: JSON.parse(event.detail) }));
}
