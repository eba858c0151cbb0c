// On every page: sign out. Also small helpers that other modules import.

import { send } from "./http.js";

export function byId(id) {
  return document.getElementById(id);
}

// An element with attributes, and children that are elements or text; text is never parsed as markup.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// Set text only if it differs, so that screen readers and selections are left alone.
export function setText(target, text) {
  const shown = String(text);
  if (target && target.textContent !== shown) target.textContent = shown;
}

export function whole(number) {
  return Math.round(number).toLocaleString("en");
}

export function plural(number, one, many = `${one}s`) {
  return `${whole(number)} ${Math.round(number) === 1 ? one : many}`;
}

export function percent(share, digits = 1) {
  return `${(100 * share).toFixed(digits)}%`;
}

export function ago(seconds) {
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return plural(Math.floor(seconds / 86400), "day") + " ago";
}

const signOut = byId("sign-out");
signOut?.addEventListener("click", async () => {
  signOut.disabled = true;
  try {
    await send("DELETE", "/api/v1/session");
  } catch (error) {
    if (error.status !== 401) {
      signOut.disabled = false;
      setText(signOut, "Not signed out: try again");
      return;
    }
  }
  location.assign("/");
});
