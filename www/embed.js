// <serve-lab>: an experiment of ServeLab inside another page.
//
//   <script src="https://example.org/servelab/embed.js" async></script>
//   <serve-lab experiment="multi-tenant" policies="round-robin,prefix-affinity" show="question stage results"></serve-lab>
//
// Attributes: experiment (a preset), policies, set (settings as in an address: "workload.rate=0.9&replicas=8"), seed; show (parts, see PARTS), controls
// and fixed (settings that are shown, or shown and locked: "workload.rate,replicas"; without them all are shown); height ("auto" or pixels); scheme
// ("light", "dark"; otherwise as the browser tells a frame); src (folder of the page, the script's own otherwise).
// Events: "servelab:ready", "servelab:finished" with the report as its detail.
(() => {
  const home = document.currentScript ? new URL(".", document.currentScript.src).href : new URL(".", document.baseURI).href;
  const PARTS = ["question", "predict", "stage", "controls", "results", "charts"];
  const NEAR = "400px";
  let count = 0;

  class ServeLab extends HTMLElement {
    static observedAttributes = ["experiment", "policies", "set", "seed", "show", "controls", "fixed", "scheme", "height", "src"];

    connectedCallback() {
      this.style.display ||= "block";
      this.frame ??= this.make();
      this.append(this.frame);
      this.listen = (event) => event.source === this.frame.contentWindow && this.hear(event.data);
      addEventListener("message", this.listen);
      // Nothing is loaded before the reader comes near.
      this.near = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.open(), { rootMargin: NEAR });
      this.near.observe(this);
    }

    disconnectedCallback() {
      removeEventListener("message", this.listen);
      this.near.disconnect();
    }

    attributeChangedCallback(name) {
      if (!this.frame) return;
      if (name === "scheme" || name === "height") this.dress();
      else if (this.opened) this.open(true);
    }

    make() {
      const frame = document.createElement("iframe");
      frame.title = this.getAttribute("title") ?? "ServeLab, an experiment";
      frame.allow = "clipboard-write";
      frame.style.cssText = "display:block;width:100%;border:0";
      this.name = `serve-lab-${++count}`;
      return frame;
    }

    dress() {
      const height = Number.parseInt(this.getAttribute("height"), 10);
      this.frame.style.height = `${height > 0 ? height : this.grown ?? 640}px`;
      // A frame's own "prefers-color-scheme" is the colour scheme of the element that it stands in.
      this.frame.style.colorScheme = this.getAttribute("scheme") ?? "inherit";
    }

    address() {
      const url = new URL(this.getAttribute("src") ?? home, document.baseURI);
      url.searchParams.set("embed", this.name);
      const words = (name) => (this.getAttribute(name) ?? "").split(/[\s,]+/).filter(Boolean);
      const parts = words("show").filter((part) => PARTS.includes(part));
      if (parts.length) url.searchParams.set("show", parts.join(" "));
      for (const name of ["controls", "fixed"]) if (this.hasAttribute(name)) url.searchParams.set(name, words(name).join(" "));
      const set = new URLSearchParams(this.getAttribute("set") ?? "");
      if (this.hasAttribute("experiment")) set.set("preset", this.getAttribute("experiment"));
      if (this.hasAttribute("policies")) set.set("policies", this.getAttribute("policies").replaceAll("-", "_"));
      if (this.hasAttribute("seed")) set.set("seed", this.getAttribute("seed"));
      // The preset stands first, as in an address that the page writes.
      const preset = set.get("preset");
      set.delete("preset");
      url.hash = [preset && `preset=${encodeURIComponent(preset)}`, set.toString()].filter(Boolean).join("&");
      return url.href;
    }

    open(again) {
      if (this.opened && !again) return;
      this.opened = true;
      this.near.disconnect();
      this.dress();
      this.frame.src = this.address();
    }

    hear(said) {
      if (said?.servelab !== this.name) return;
      if (said.type === "height") {
        this.grown = said.height;
        this.dress();
      } else if (said.type === "ready" || said.type === "finished") {
        this.dispatchEvent(new CustomEvent(`servelab:${said.type}`, { bubbles: true, detail: said.report }));
      }
    }
  }

  if (!customElements.get("serve-lab")) customElements.define("serve-lab", ServeLab);
})();
