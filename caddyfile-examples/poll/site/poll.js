// Sends the vote and shows the result. /hotboard.js updates the board.

const form = document.getElementById("poll");
const said = document.getElementById("said");
const board = document.querySelector("hot-list");
const names = new Map([...form.elements].map((b) => [b.value, b.textContent]));

// The board has only ids: add names, and bars that show each share.
board.addEventListener("hotboard", ({ detail: { items } }) => {
  const all = items.reduce((sum, item) => sum + item.views, 0);
  for (const item of items) item.title = names.get(item.id);
  requestAnimationFrame(() => {
    for (const item of items) {
      board.querySelector(`[data-item="${CSS.escape(item.id)}"]`)?.style.setProperty("--share", item.views / all);
    }
  });
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const option = event.submitter.value;
  said.textContent = "…";
  try {
    // The query carries the voter's channel (?via=newsletter).
    const answer = await fetch("/api/votes" + location.search, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ list: "dinner", option }),
    });
    said.textContent = explain(option, await answer.json());
  } catch {
    said.textContent = "The vote did not get through. Please try again.";
  }
});

function explain(option, { votes, error }) {
  const vote = votes?.[0];
  if (!vote) return error.message;
  const next = vote.retry_after ? `The next vote is in ${duration(vote.retry_after)}.` : "";
  if (vote.reason === "limited:person") return `You have voted already. ${next}`;
  if (!vote.accepted || vote.verdict === "over_quota") return `There are too many votes from where you are. ${next}`;
  if (vote.verdict === "closed") return "The poll has just closed.";
  if (vote.verdict === "counted") return `Thank you. ${names.get(option)} is number ${vote.rank} now.`;
  return "Thank you. Your vote will be counted in a moment.";
}

function duration(seconds) {
  if (seconds < 100) return `${seconds} seconds`;
  if (seconds < 100 * 60) return `${Math.ceil(seconds / 60)} minutes`;
  return `${Math.ceil(seconds / 3600)} hours`;
}
