// Hotboard on a page. The edge counts a page when a browser requests it. This script
// reports the views that the edge cannot see, and fills in <hot-list> and
// <hot-count>. docs/script.md describes its use.
(() => {
  "use strict";
  const config = { honorOptOut: false }; // the edge replaces this object

  const script = document.currentScript || document.querySelector('script[src*="hotboard.js"]');
  if (!script || customElements.get("hot-list")) return; // the page includes it twice

  const url = (path) => new URL(path, script.src).href;
  const happens = (target, type) => new Promise((resolve) => target.addEventListener(type, resolve, { once: true }));
  const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const ready = document.readyState === "loading" ? happens(document, "DOMContentLoaded") : Promise.resolve();

  // seen resolves when the page is visible.
  const seen = async () => {
    if (document.prerendering) await happens(document, "prerenderingchange");
    while (document.hidden) await happens(document, "visibilitychange");
  };

  const post = (path, body) => fetch(url(path), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    keepalive: true, // survives leaving the page
  });

  // Views

  const start = location.pathname;
  let latest = 0;

  // view reports a page once it is visible. If another page has replaced it by
  // then, nobody has seen it.
  const view = async (navigation, page = location.pathname + location.search) => {
    const mine = ++latest;
    const body = { page, navigation };
    if (location.pathname === start) { // the attributes describe the loaded page only
      const { item, list, published } = script.dataset;
      Object.assign(body, { articleId: item, list, publishedAt: published });
    }
    await seen();
    if (mine !== latest) return;
    try {
      for (let tries = 0; tries < 3; tries++) {
        const answer = await post("api/views", body);
        if (answer.status !== 503) return;
        await sleep(Math.min(Number(answer.headers.get("Retry-After")) || 10, 60)); // the edge has not stored it
      }
    } catch (e) {
      // The edge may have stored it: a retry could count it twice.
    }
  };

  const watch = () => {
    const loaded = location.pathname + location.search; // before a router rewrites it
    ready.then(() => { // the timing entry is complete once the page has arrived
      const nav = performance.getEntriesByType("navigation")[0] || {};
      if (document.prerendering || nav.activationStart > 0) view("prerender", loaded);
      // A revalidated page has a transferSize: the edge answered 304 for it.
      else if ("always" in script.dataset || nav.deliveryType === "navigational-prefetch" || nav.transferSize === 0) view("load", loaded);
    });
    addEventListener("pageshow", (event) => {
      if (event.persisted) view("restore"); // from the back/forward cache
    });

    // A single-page application shows another page when the path changes, unless
    // it only corrects the address of the current page.
    const path = () => location.pathname.replace(/\/$/, "");
    let shown = path();
    const moved = (how) => {
      if (path() === shown) return;
      shown = path();
      if (how !== "replace") view("spa");
    };
    if (window.navigation) {
      navigation.addEventListener("currententrychange", (event) => moved(event.navigationType));
      return;
    }
    for (const how of ["push", "replace"]) {
      const name = how + "State";
      const native = history[name];
      history[name] = function (...args) {
        native.apply(this, args);
        moved(how);
      };
    }
    addEventListener("popstate", () => moved("traverse"));
  };

  const optedOut = config.honorOptOut && (navigator.globalPrivacyControl || navigator.doNotTrack === "1");
  if (!optedOut && window === window.top) watch(); // the edge does not count pages in frames either

  // Elements

  let locale; // the page's; undefined means the browser's
  try {
    locale = Intl.getCanonicalLocales(document.documentElement.lang)[0];
  } catch (e) {
    // The page has no valid language.
  }

  const setText = (element, value) => {
    const text = typeof value === "number" ? value.toLocaleString(locale) : String(value == null ? "" : value);
    if (element.textContent !== text) element.textContent = text;
  };

  // Live is an element that shows counts, and updates every `refresh` seconds while
  // the page is visible. Its attribute `state` holds the outcome.
  class Live extends HTMLElement {
    connectedCallback() { this.soon(); }
    disconnectedCallback() { this.soon(); }
    attributeChangedCallback() { this.soon(); }

    soon() { // once for all changes in one turn
      const turn = this.turn = {};
      clearTimeout(this.timer);
      ready.then(() => turn === this.turn && this.isConnected && this.look(turn));
    }

    async look(turn) {
      if (!this.hasAttribute("state")) this.setAttribute("state", "loading");
      let state = "error"; // the content stays
      try {
        const answer = await this.load();
        if (turn !== this.turn) return; // an attribute has changed since
        state = this.show(answer);
      } catch (e) {
        if (turn !== this.turn) return;
      }
      this.setAttribute("state", state);
      const seconds = Number(this.getAttribute("refresh"));
      if (!(seconds > 0)) return;
      this.timer = setTimeout(async () => {
        await seen();
        if (turn === this.turn) this.look(turn);
      }, Math.max(seconds, 1) * 1000);
    }
  }

  const json = async (answer) => {
    answer = await answer;
    if (!answer.ok) throw new Error(answer.url + ": " + answer.status);
    return answer.json();
  };

  customElements.define("hot-list", class extends Live {
    static get observedAttributes() { return ["src", "list", "period", "limit", "refresh"]; }

    load() {
      const query = new URLSearchParams();
      for (const name of ["list", "period", "limit"]) {
        if (this.hasAttribute(name)) query.set(name, this.getAttribute(name));
      }
      // no-cache revalidates each time, and gets a short 304 if nothing has changed.
      const answer = fetch(this.getAttribute("src") || url("hot?" + query), { cache: "no-cache" });
      answer.then((a) => this.toggleAttribute("stale", a.headers.has("Hotboard-Stale")), () => {});
      return json(answer);
    }

    show(board) {
      // A listener may remove entries, or complete them.
      this.dispatchEvent(new CustomEvent("hotboard", { bubbles: true, detail: board }));
      let list = this.querySelector("ol");
      if (!list) this.append(list = document.createElement("ol"));
      const template = this.querySelector("template");
      const entries = new Map([...list.children].map((li) => [li.dataset.item, li]));
      // If the page lists entries itself, show no others, unless it has a template
      // for them: anybody can report a view of any id.
      if (this.own === undefined) this.own = new Set(entries.keys());
      const closed = this.own.size > 0 && !template;

      const focused = document.activeElement;
      const had = list.contains(focused);
      let next = list.firstElementChild;
      let shown = 0;
      for (const item of board.items) {
        let li = entries.get(item.id);
        if (!li && closed) continue;
        if (!li) li = this.entry(template);
        entries.delete(item.id);
        this.fill(li, item);
        if (li === next) next = li.nextElementSibling;
        else list.insertBefore(li, next);
        shown++;
      }
      for (const [id, li] of entries) {
        if (this.own.has(id)) li.hidden = true;
        else li.remove();
      }
      if (had && list.contains(focused)) focused.focus({ preventScroll: true }); // moving the entry lost the focus
      return shown ? "ready" : "empty";
    }

    entry(template) {
      if (template) return document.importNode(template.content.firstElementChild, true);
      const li = document.createElement("li");
      for (const [tag, field] of [["a", "title"], ["span", "views"]]) {
        const element = document.createElement(tag);
        element.dataset.field = field;
        li.append(element, " ");
      }
      return li;
    }

    fill(li, item) {
      const id = item.id.split("/").map(encodeURIComponent).join("/");
      const move = item.new ? "new" : item.change > 0 ? "up" : item.change < 0 ? "down" : "";
      li.hidden = false;
      li.dataset.item = item.id;
      li.dataset.move = move;
      for (const element of li.querySelectorAll("[data-field]")) {
        const field = element.dataset.field;
        setText(element, field === "title" && item.title == null ? item.id : item[field]);
      }
      // Anybody can report any id, so an id must not lead elsewhere: "//…" would be
      // another site, ".." another path.
      if (!this.hasAttribute("href") || /(^|\/)\.{0,2}(\/|$)/.test(item.id)) return;
      for (const a of li.querySelectorAll("a:not([href])")) a.href = this.getAttribute("href").replace("{id}", id);
    }
  });

  // count requests all items that the page needs in one call.
  const batches = new Map(); // by list
  const count = (list, id) => {
    let batch = batches.get(list);
    if (!batch || batch.ids.size >= 200) { // the API's maximum
      batch = { ids: new Set() };
      batch.items = sleep(0).then(async () => {
        batches.delete(list);
        const ids = [...batch.ids];
        const { items } = await json(post("api/items", { list, items: ids }));
        return new Map(ids.map((id, i) => [id, items[i]]));
      });
      batches.set(list, batch);
    }
    batch.ids.add(id);
    return batch.items.then((items) => items.get(id));
  };

  customElements.define("hot-count", class extends Live {
    static get observedAttributes() { return ["list", "item", "field", "refresh"]; }

    load() {
      return count(this.getAttribute("list") || script.dataset.list, this.getAttribute("item") || script.dataset.item);
    }

    show(item) {
      const field = this.getAttribute("field") || "views";
      setText(this, item ? field.split(".").reduce((value, name) => value && value[name], item) : 0);
      return item ? "ready" : "empty";
    }
  });
})();
