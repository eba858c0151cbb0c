// A new project: it is created first, then its documents are imported.

import { send } from "./http.js";
import { byId, plural, setText } from "./page.js";
import { chosenFile, importFile, readLimits, startDrop } from "./uploads.js";

const form = byId("create");
let created = null; // the project, if only its documents are missing

function readClasses() {
  const lines = form.elements.classes.value.split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => {
    const [, name, description = ""] = line.match(/^(.*?)(?:: +(.*))?$/);
    return { name: name.trim(), description };
  });
}

function problem(text) {
  byId("problem").hidden = !text;
  setText(byId("problem-text"), text ?? "");
  if (text) byId("problem").scrollIntoView({ block: "nearest" });
}

form.elements.classes.addEventListener("input", () => {
  const classes = readClasses();
  setText(byId("classes-read"), classes.length ? `${plural(classes.length, "class", "classes")}: ${classes.map(({ name, description }) => (description ? `${name} (${description})` : name)).join(" · ")}` : "");
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = byId("create-button");
  button.disabled = true;
  problem(null);
  try {
    created ??= await send("POST", "/api/v1/projects", {
      name: form.elements.name.value.trim(),
      labels: readClasses(),
      guidelines: form.elements.guidelines.value,
      settings: readLimits(form),
    });
    byId("about").disabled = true;
    setText(button, "Import the documents");
    await importFile(created.id, chosenFile());
    location.assign(`/projects/${created.id}/dashboard`);
  } catch (error) {
    problem(created ? `The project is created, but its documents are not imported: ${error.message}` : error.message);
    button.disabled = false;
  }
});

startDrop();
