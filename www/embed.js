// <serve-lab>: an experiment of ServeLab inside another page; README.md, "On your own page", has its attributes.
(() => {
  const home = new URL(".", document.currentScript?.src || document.baseURI).href;
  // Without an origin (a sandboxed frame, a disk) nothing can be fetched as a script: there the page is one file.
  const FILE = origin === "null" ? "servelab.html" : "";
  const all = new Set();
  let count = 0;

  // A host may switch by a class, by an attribute, or as the system does; some fade.
  const look = () => all.forEach((one) => one.dress());
  const watch = () => {
    for (const at of [document.documentElement, document.body]) new MutationObserver(look).observe(at, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
    addEventListener("transitionend", look);
  };

  // What is painted behind an element, as bytes of red, green, blue and alpha; none where nothing is.
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = getComputedStyle(at).backgroundColor;
      brush.fillRect(0, 0, 1, 1);
      const rgba = brush.getImageData(0, 0, 1, 1).data;
      if (rgba[3] > 127) return rgba;
    }
  };

  class ServeLab extends HTMLElement {
    static observedAttributes = ["experiment", "policies", "set", "seed", "show", "controls", "fixed", "scheme", "height", "src"];

    connectedCallback() {
      this.style.display ||= "block";
      this.frame ??= this.make();
      this.append(this.frame);
      this.listen = (event) => event.source === this.frame.contentWindow && this.hear(event.data);
      addEventListener("message", this.listen);
      if (count === 1 && !all.size) watch();
      all.add(this);
      // Nothing is loaded before the reader comes near.
      this.near = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.open(), { rootMargin: "400px" });
      this.near.observe(this);
    }

    disconnectedCallback() {
      removeEventListener("message", this.listen);
      all.delete(this);
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
      const rgba = behind(this);
      const seen = rgba && (rgba[0] * 3 + rgba[1] * 6 + rgba[2] < 1280 ? "dark" : "light");
      this.frame.style.colorScheme = this.getAttribute("scheme") ?? seen ?? "inherit";
    }

    address() {
      const url = new URL(this.getAttribute("src") ?? home, document.baseURI);
      if (url.pathname.endsWith("/")) url.pathname += FILE;
      url.searchParams.set("embed", this.name);
      const words = (name) => (this.getAttribute(name) ?? "").split(/[\s,]+/).filter(Boolean);
      for (const name of ["show", "controls", "fixed"]) if (this.hasAttribute(name)) url.searchParams.set(name, words(name).join(" "));
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
