// Hotboard on a page. The edge counts a page when it is asked for; this reports the
// views that it cannot see, and fills in <hot-list> and <hot-count>. docs/script.md
// says how to use it.
(() => {
  "use strict";
  const config = { honorOptOut: false }; // the edge writes its own here

  const script = document.currentScript || document.querySelector('script[src*="hotboard.js"]');
  if (!script || customElements.get("hot-list")) return; // it is on the page twice

  const url = (path) => new URL(path, script.src).href;
  const happens = (target, type) => new Promise((resolve) => target.addEventListener(type, resolve, { once: true }));
  const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const ready = document.readyState === "loading" ? happens(document, "DOMContentLoaded") : Promise.resolve();

  // seen resolves when somebody can see the page.
  const seen = async () => {
    if (document.prerendering) await happens(document, "prerenderingchange");
    while (document.hidden) await happens(document, "visibilitychange");
  };

  const post = (path, body) => fetch(url(path), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    keepalive: true, // goes on when the page is left
  });

  // Views

  const start = location.pathname;
  let latest = 0;

  // view reports that a page is shown, once it can be seen. When another one has
  // taken its place by then, nobody has seen it.
  const view = async (navigation, page = location.pathname + location.search) => {
    const mine = ++latest;
    const body = { page, navigation };
    if (location.pathname === start) { // what the attributes say is of the page that was loaded
      const { item, list, published } = script.dataset;
      Object.assign(body, { articleId: item, list, publishedAt: published });
    }
    await seen();
    if (mine !== latest) return;
    try {
      for (let tries = 0; tries < 3; tries++) {
        const answer = await post("api/views", body);
        if (answer.status !== 503) return;
        await sleep(Math.min(Number(answer.headers.get("Retry-After")) || 10, 60)); // it was not stored
      }
    } catch (e) {
      // It may have been stored or not: sending it again might count it twice.
    }
  };

  const watch = () => {
    const loaded = location.pathname + location.search; // before a router tidies it up
    ready.then(() => { // by then the whole page has arrived, and it is known from where
      const nav = performance.getEntriesByType("navigation")[0] || {};
      if (document.prerendering || nav.activationStart > 0) view("prerender", loaded);
      // A revalidated page has a transferSize: the edge has answered 304 for it.
      else if ("always" in script.dataset || nav.deliveryType === "navigational-prefetch" || nav.transferSize === 0) view("load", loaded);
    });
    addEventListener("pageshow", (event) => {
      if (event.persisted) view("restore"); // from the back/forward cache
    });

    // A single-page application shows another page when the path changes, unless
    // it only corrects the address of the one that it shows.
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
  if (!optedOut && window === window.top) watch(); // a page in a frame is no view for the edge either

  // Elements

  let locale; // of the page; undefined is the browser's
  try {
    locale = Intl.getCanonicalLocales(document.documentElement.lang)[0];
  } catch (e) {
    // It names none.
  }

  const setText = (element, value) => {
    const text = typeof value === "number" ? value.toLocaleString(locale) : String(value == null ? "" : value);
    if (element.textContent !== text) element.textContent = text;
  };

  // Live is an element that shows counts, and looks again every `refresh` seconds
  // while the page can be seen. Its attribute `state` says how that went.
  class Live extends HTMLElement {
    connectedCallback() { this.soon(); }
    disconnectedCallback() { this.soon(); }
    attributeChangedCallback() { this.soon(); }

    soon() { // once for all that happens to it in one go
      const turn = this.turn = {};
      clearTimeout(this.timer);
      ready.then(() => turn === this.turn && this.isConnected && this.look(turn));
    }

    async look(turn) {
      if (!this.hasAttribute("state")) this.setAttribute("state", "loading");
      let state = "error"; // what is shown stays
      try {
        const answer = await this.load();
        if (turn !== this.turn) return; // it is to show something else by now
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
      // no-cache asks each time, and gets a short 304 when nothing has changed.
      const answer = fetch(this.getAttribute("src") || url("hot?" + query), { cache: "no-cache" });
      answer.then((a) => this.toggleAttribute("stale", a.headers.has("Hotboard-Stale")), () => {});
      return json(answer);
    }

    show(board) {
      // A listener may leave entries out, or complete them.
      this.dispatchEvent(new CustomEvent("hotboard", { bubbles: true, detail: board }));
      let list = this.querySelector("ol");
      if (!list) this.append(list = document.createElement("ol"));
      const template = this.querySelector("template");
      const entries = new Map([...list.children].map((li) => [li.dataset.item, li]));
      // What the page lists itself is all that there may be, unless it says how
      // others look: anybody can report a view of anything.
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
      if (had && list.contains(focused)) focused.focus({ preventScroll: true }); // moving it has lost it
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
      // An id may be anything that somebody has reported, so it must not lead
      // elsewhere: "//…" would be another site, ".." another place.
      if (!this.hasAttribute("href") || /(^|\/)\.{0,2}(\/|$)/.test(item.id)) return;
      for (const a of li.querySelectorAll("a:not([href])")) a.href = this.getAttribute("href").replace("{id}", id);
    }
  });

  // count asks for items, all that the page wants to know at once.
  const batches = new Map(); // by list
  const count = (list, id) => {
    let batch = batches.get(list);
    if (!batch || batch.ids.size >= 200) { // which is as many as there may be
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
