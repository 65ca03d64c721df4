// Adds to <hot-list>: the tabs, how far an entry has moved since the last update,
// and its score relative to the first.

const SHOW_MOVE = 6000; // how long an arrow stays, in ms

const list = document.querySelector("hot-list");
const entries = new Map([...list.querySelectorAll("li")].map((li) => [li.dataset.item, li]));
const numbers = new Intl.NumberFormat("en");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let ranks = null; // id → rank at the last update, of the same period

list.addEventListener("hotboard", ({ detail: { items } }) => { // before <hot-list> sorts the entries
  const best = items.reduce((most, item) => Math.max(most, item.score), 0);
  for (const item of items) {
    item.count = `${numbers.format(item.views)} ${item.views === 1 ? "view" : "views"}`;
    const li = entries.get(item.id);
    if (!li) continue;
    li.style.setProperty("--heat", best > 0 ? item.score / best : 0);
    if (ranks && ranks.has(item.id)) mark(li, ranks.get(item.id) - item.rank);
  }
  const before = ranks && new Map([...entries.values()].map((li) => [li, li.hidden ? null : li.offsetTop]));
  if (before && !calm.matches) queueMicrotask(() => glide(before));
  ranks = new Map(items.map((item) => [item.id, item.rank]));
});

function mark(li, by) {
  if (!by) return;
  const arrow = li.querySelector(".move");
  arrow.textContent = by > 0 ? `▲${by}` : `▼${-by}`;
  arrow.dataset.way = by > 0 ? "up" : "down";
  clearTimeout(li.fade);
  li.fade = setTimeout(() => { arrow.textContent = ""; delete arrow.dataset.way; }, SHOW_MOVE);
}

// glide animates every entry from its old place.
function glide(before) {
  for (const [li, top] of before) {
    if (li.hidden) continue;
    if (top === null) {
      li.animate([{ opacity: 0 }, { opacity: 1 }], 500);
    } else if (top !== li.offsetTop) {
      li.animate([{ transform: `translateY(${top - li.offsetTop}px)` }, { transform: "none" }],
        { duration: 600, easing: "cubic-bezier(.2, .8, .2, 1)" });
    }
  }
}

const tabs = document.querySelector(".tabs");
tabs.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button) return;
  for (const other of tabs.children) other.setAttribute("aria-pressed", String(other === button));
  ranks = null; // ranks on two different boards show no movement
  list.setAttribute("period", button.dataset.period);
});
