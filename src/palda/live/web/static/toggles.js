// A document and its classes, as toggles with a key each: 1 to 9, then letters that no other action uses.

import { element } from "./page.js";

const KEYS = "123456789abcdefhijklmnopqrvwxyz"; // without g, s, t, u
const keyOf = (position) => KEYS[position] ?? "";

export function textOf(document) {
  return document.text.trim() ? document.text : "(This document has no text.)";
}

// Draw the classes into ``place``; ``chosen`` is a set of ids, ``notes`` a text per id.
export function drawToggles(place, labels, chosen = new Set(), notes = new Map()) {
  place.replaceChildren(...labels.map((label, position) => {
    const key = keyOf(position).toUpperCase();
    const input = element("input", { type: "checkbox", value: label.id, "data-key": key.toLowerCase(), "aria-keyshortcuts": key || null });
    input.checked = chosen.has(label.id);
    const face = element("span", { title: label.description || null },
      key && element("kbd", { "aria-hidden": "true" }, key),
      element("span", { class: "word", dir: "auto" }, label.name),
      notes.has(label.id) && element("span", { class: "share" }, notes.get(label.id)),
      element("span", { class: "tick", "aria-hidden": "true" }, "✓"));
    return element("label", { class: "toggle" }, input, face);
  }));
}

export function chosenIn(place) {
  return [...place.querySelectorAll("input:checked")].map((input) => Number(input.value));
}

// The class that a key stands for changes; false if there is none.
export function toggleByKey(place, key) {
  const input = [...place.querySelectorAll("input")].find((one) => one.dataset.key && one.dataset.key === key);
  if (!input || input.disabled) return false;
  input.click();
  return true;
}

const KEYS_OFF = "palda-no-keys";

// Whether single keys do something on this browser: screen readers and speech input may need them.
export function keysAreOn() {
  try {
    return localStorage.getItem(KEYS_OFF) === null;
  } catch { // the browser refuses to store anything
    return true;
  }
}

export function turnKeys(on) {
  if (on) localStorage.removeItem(KEYS_OFF);
  else localStorage.setItem(KEYS_OFF, "1");
}

// Call ``act(key)`` for single keys that are typed outside of text fields; it returns true if it used the key.
export function onKeys(act) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat || !keysAreOn()) return;
    const target = event.target;
    const isText = target.matches("textarea, select, [contenteditable], input:not([type=checkbox]):not([type=radio])");
    if (isText || document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && target.closest("button, a, summary")) return;
    if (act(event.key.length === 1 ? event.key.toLowerCase() : event.key)) event.preventDefault();
  });
}
