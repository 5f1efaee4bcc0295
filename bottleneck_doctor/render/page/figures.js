// Draws the page's charts one after the other, and moves them by keys and buttons.
"use strict";

const specs = JSON.parse(document.getElementById("figures")?.textContent ?? "{}");
const sorts = {}; // what a sort of chart adds once it is drawn: sorts[name](plot, spec)
const drawn = new Map(); // the element -> {plot, spec, width}
const STEP = 0.2; // of what is shown, for one press of an arrow
const FACTOR = 0.6; // of the width that stays after zooming in once
const DEEPEST = 1e-5; // of the whole

function themed(value) {
  // Colours are named in the charts and defined in page.css alone.
  if (typeof value === "string") {
    if (!/^var\(--[a-z0-9-]+\)$/.test(value)) return value;
    return getComputedStyle(root).getPropertyValue(value.slice(4, -1)).trim();
  }
  if (Array.isArray(value)) return typeof value.at(-1) === "number" ? value : value.map(themed);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item)]));
}

function layoutOf(spec, width) {
  const layout = themed(spec.layout);
  const style = getComputedStyle(document.body);
  layout.width = width;
  layout.height = spec.height;
  layout.autosize = false;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { family: style.fontFamily, size: 12, color: style.color, ...layout.font };
  if (layout.hoverlabel) layout.hoverlabel.font.family = style.fontFamily;
  layout.dragmode ??= matchMedia("(pointer: coarse)").matches ? false : "zoom";
  return layout;
}

const CONFIG = {
  displayModeBar: false, displaylogo: false, showTips: false, scrollZoom: false, doubleClick: "reset",
  showLink: false, plotlyServerURL: "", topojsonURL: "", responsive: false,
};

async function draw(element) {
  const spec = specs[element.dataset.figure];
  const width = Math.floor(element.clientWidth);
  if (!spec || !width || drawn.get(element)?.busy) return;
  const before = drawn.get(element);
  const plot = before?.plot ?? element.appendChild(document.createElement("div"));
  const layout = layoutOf(spec, width);
  const shown = before && range(before);
  if (shown) layout[spec.moves].range = shown;
  const state = before ?? { plot, spec, element };
  state.width = width;
  drawn.set(element, state);
  await Plotly.react(plot, themed(spec.data), layout, CONFIG);
  if (before) return;
  plot.classList.add("plot");
  equip(element, state);
  sorts[spec.sort]?.(state);
}

function equip(element, state) {
  element.tabIndex = 0;
  element.setAttribute("role", "group");
  element.setAttribute("aria-roledescription", "chart");
  element.setAttribute("aria-label", state.spec.label);
  if (!state.spec.moves) return;
  const bar = document.createElement("div");
  bar.className = "moves";
  for (const [sign, name, key] of [["−", "zoom out", "-"], ["+", "zoom in", "+"], ["reset", "show all", "0"]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = sign;
    button.setAttribute("aria-label", `${name}: ${state.spec.label.split(":")[0]}`);
    button.addEventListener("click", () => move(state, key));
    bar.append(button);
  }
  element.append(bar);
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !move(state, event.key)) return;
    event.preventDefault();
  });
}

function range(state) {
  const shown = state.plot.layout?.[state.spec.moves]?.range;
  return shown && [+shown[0], +shown[1]];
}

// Whether the key meant something. The new range stays within the whole.
function move(state, key) {
  const whole = state.spec.layout[state.spec.moves].range;
  const [begin, end] = range(state);
  const length = end - begin, middle = (begin + end) / 2, all = whole[1] - whole[0];
  const moved = {
    ArrowLeft: () => [begin - STEP * length, length],
    ArrowRight: () => [begin + STEP * length, length],
    "+": () => closer(middle, Math.max(length * FACTOR, all * DEEPEST)),
    "-": () => closer(middle, Math.min(length / FACTOR, all)),
    0: () => [whole[0], all],
  };
  moved["="] = moved["+"];
  moved._ = moved["-"];
  moved.Escape = moved["0"];
  if (!Object.hasOwn(moved, key)) return false;
  const [from, much] = moved[key]();
  const start = Math.min(Math.max(from, whole[0]), whole[1] - much);
  show(state, [start, start + much]);
  return true;
}

function closer(middle, length) {
  return [middle - length / 2, length];
}

function show(state, [begin, end]) {
  Plotly.relayout(state.plot, { [`${state.spec.moves}.range`]: [begin, end] });
  const digits = Math.max(0, Math.ceil(2 - Math.log10(end - begin)));
  say(`${begin.toFixed(Math.min(digits, 9))} to ${end.toFixed(Math.min(digits, 9))} ${state.spec.extra.unit ?? ""}`);
}

// In call paths: a click on a box makes it as wide as the chart.
sorts.stacks = (state) => {
  const { base, x } = state.spec.data[0];
  state.plot.on("plotly_click", ({ points }) => {
    const { pointNumber } = points[0];
    show(state, [base[pointNumber], base[pointNumber] + x[pointNumber]]);
  });
};

const places = [...document.querySelectorAll("[data-figure]")];

async function drawAll() {
  for (const element of places) {
    if (drawn.has(element)) continue;
    await new Promise((resolve) => setTimeout(resolve)); // what was drawn is painted, and keys are heard
    try {
      await draw(element);
    } catch (problem) {
      element.append("This chart could not be drawn; its numbers stand in the table below.");
      console.error(problem);
    }
  }
  window.bdocReady = performance.now();
}

// Called while the page is about to be printed too: nothing here may wait.
themeChanged.push(() => {
  for (const element of places) draw(element);
});
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const width = Math.floor(target.clientWidth);
    if (window.bdocReady && width && drawn.get(target)?.width !== width) draw(target);
  }
});
drawAll().then(() => places.forEach((element) => sizes.observe(element)));
