// Orders the side bar by /hot, and shows an article's own counts. The page
// already names every article, so the board needs only ids.

const LIST = "articles";
const LIMIT = 10;
const EVERY = 2000; // ms between two looks at the board
const SHOW_MOVE = 6000; // ms for which an arrow stays

const list = document.getElementById("hot-list");
const tabs = document.getElementById("hot-tabs");
const name = document.getElementById("hot-name");
const note = document.getElementById("hot-note");
const live = document.getElementById("hot-live");
const counts = document.getElementById("counts");

const entries = new Map([...list.children].map((li) => [li.dataset.id, li]));
const numbers = new Intl.NumberFormat("en");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let period = "hot";
let ranks = null; // id → rank at the last look, of the same period
let stale = false; // whether the edge could only repeat an old answer
let timer;

const plural = (n, one, many) => `${numbers.format(n)} ${n === 1 ? one : many}`;

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// move reorders the list with change and lets every entry glide from where it was.
function move(change) {
  const before = new Map([...entries.values()].map((li) => [li, li.hidden ? null : li.offsetTop]));
  change();
  if (ranks === null || calm.matches) return; // another board than before: nothing has moved
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

function mark(li, by) {
  if (!by) return;
  const arrow = li.querySelector(".move");
  arrow.textContent = by > 0 ? `▲${by}` : `▼${-by}`;
  arrow.dataset.way = by > 0 ? "up" : "down";
  clearTimeout(li.fade);
  li.fade = setTimeout(() => { arrow.textContent = ""; delete arrow.dataset.way; }, SHOW_MOVE);
}

function show(board) {
  const items = board.items.filter((item) => entries.has(item.id));
  const best = items.reduce((most, item) => Math.max(most, item.score), 0);
  move(() => {
    for (const li of entries.values()) li.hidden = true;
    for (const item of items) {
      const li = entries.get(item.id);
      li.hidden = false;
      li.style.setProperty("--heat", best > 0 ? item.score / best : 0);
      setText(li.querySelector(".rank"), String(item.rank));
      setText(li.querySelector(".count"), plural(item.views, "view", "views"));
      if (ranks?.has(item.id)) mark(li, ranks.get(item.id) - item.rank);
      list.append(li);
    }
  });
  ranks = new Map(items.map((item) => [item.id, item.rank]));
  if (stale) setText(note, "The counts stand still: nobody is adding them up just now.");
  else setText(note, items.length ? "" : "Nothing has been read in this period yet. Open an article.");
}

async function get(url) {
  // no-cache: ask each time, and get a short 304 when nothing has changed.
  const response = await fetch(url, { cache: "no-cache", headers: { Accept: "application/json" } });
  if (response.status === 404) return null; // an item that nobody has read yet
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  if (response.headers.has("Hotboard-Stale")) stale = true;
  return response.json();
}

async function look() {
  clearTimeout(timer);
  const asked = period;
  stale = false;
  try {
    const [board, item] = await Promise.all([
      get(`/hot?list=${LIST}&period=${asked}&limit=${LIMIT}`),
      counts && get(`/api/items/${LIST}/${encodeURIComponent(counts.dataset.id)}`),
    ]);
    if (asked !== period) return; // another tab was chosen meanwhile
    list.classList.add("ranked");
    setText(name, "Hot");
    tabs.hidden = false;
    live.dataset.state = stale ? "off" : "on";
    if (board) show(board);
    if (item) {
      counts.hidden = false;
      setText(counts, `${plural(item.views, "view", "views")} by ${plural(item.uniques, "reader", "readers")}`);
    }
  } catch {
    live.dataset.state = "off";
    if (list.classList.contains("ranked")) setText(note, "The board cannot be reached. This is its last state.");
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, EVERY);
}

tabs.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button || button.dataset.period === period) return;
  period = button.dataset.period;
  for (const other of tabs.children) other.setAttribute("aria-pressed", String(other === button));
  ranks = null; // places on two boards say nothing about movement
  look();
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});

look();
