// The flame graph's colours, and its search.
"use strict";

const flames = () => [...drawn].filter(([, state]) => state.spec.sort === "flame");
const tools = document.getElementById("tools");
const FOUND = "var(--flame-found)";

// Paints every box; those that are searched for stand out of the others.
function paint() {
  const mode = new FormData(tools).get("colour");
  const wanted = document.getElementById("search").value.trim().toLowerCase();
  for (const key of document.querySelectorAll("[data-key]")) key.hidden = key.dataset.key !== mode;
  const told = flames().map(([element, state]) => {
    const { spec } = state;
    const hits = spec.extra.searched.map((text) => wanted !== "" && text.includes(wanted));
    const colours = spec.extra[mode];
    spec.data[0].marker.colors = colours.map((colour, place) => (hits[place] ? FOUND : colour));
    draw(element);
    return tell(element, spec.data[0], hits, wanted);
  });
  mark(wanted);
  if (wanted) say(told.join("; "));
}

// A box within another that matches is not counted again.
function tell(element, data, hits, wanted) {
  const covered = [];
  let sum = 0, count = 0;
  data.ids.forEach((id, place) => {
    const above = data.parents[place] !== "" && covered[+data.parents[place]];
    covered[place] = above || hits[place];
    if (hits[place]) count += 1;
    if (hits[place] && !above) sum += data.values[place];
  });
  const share = Math.round((100 * sum) / Math.max(1, data.values[0]));
  const line = document.querySelector(`[data-matched="${element.dataset.figure}"]`);
  line.textContent = count ? `found in ${share} % of the samples, in ${count} boxes` : "not found here";
  line.hidden = wanted === "";
  return `${element.dataset.figure.replace("flame-", "")}: ${line.textContent}`;
}

function mark(wanted) {
  for (const row of document.querySelectorAll(".list .row, .list summary")) {
    row.classList.toggle("found", wanted !== "" && row.textContent.toLowerCase().includes(wanted));
  }
}

if (tools) {
  tools.hidden = false;
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("input", paint);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.target.matches("input")) return;
    event.preventDefault();
    document.getElementById("search").focus();
  });
}
