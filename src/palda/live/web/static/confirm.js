// Links that are copied, and questions that are asked before something cannot be taken back.

import { byId, setText } from "./page.js";

// True if the person says yes.
export function confirmed(title, text, yes) {
  const dialog = byId("confirm");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const click = (event) => {
      const act = event.target.closest("[data-act]")?.dataset.act;
      if (act) dialog.close(act);
    };
    dialog.addEventListener("click", click);
    dialog.addEventListener("close", () => { dialog.removeEventListener("click", click); resolve(dialog.returnValue === "yes"); }, { once: true });
  });
}

// Copy the text of a field; ``button`` says that it is done. Without a secure context the older command is used.
export async function copyField(field, button) {
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
  } catch {
    document.execCommand("copy");
  }
  setText(button, "Copied");
  setTimeout(() => setText(button, "Copy"), 2000);
}
