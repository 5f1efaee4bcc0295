// What every page can do: choose its theme, copy snippets, open everything for print, say things aloud.
"use strict";

const root = document.documentElement;
const themeChanged = []; // called after the theme or the medium changed
const wide = () => root.dataset.print === undefined;

function say(text) {
  document.getElementById("said").textContent = text;
}

function isDark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showTheme() {
  const button = document.getElementById("theme");
  const other = isDark() ? "light" : "dark";
  button.textContent = other;
  button.setAttribute("aria-label", `use ${other} colours`);
  button.hidden = false;
}

function retheme() {
  showTheme();
  for (const tell of themeChanged) tell();
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("bdoc-theme", root.dataset.theme);
  } catch {
    // A file may not store anything: the choice holds until the page is closed.
  }
  retheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
showTheme();

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    const done = await copied(source);
    button.textContent = done ? "copied" : "selected";
    say(done ? "copied" : "selected, press Ctrl+C");
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });
}

async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source); // no clipboard for this file: it is one key away
    return document.execCommand("copy");
  }
}

// Paper cannot open anything, is white, and is as wide as page.css says.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
  root.dataset.print = "";
  for (const tell of themeChanged) tell();
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
  delete root.dataset.print;
  for (const tell of themeChanged) tell();
});
