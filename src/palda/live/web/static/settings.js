// Settings of a project, its classes, more documents, pause and deletion.

import { confirmed } from "./confirm.js";
import { projectPath, send } from "./http.js";
import { byId, element, setText } from "./page.js";
import { chosenFile, importFile, readLimits, startDrop } from "./uploads.js";

const main = byId("content");
const projectId = main.dataset.project;
const share = (input) => Number((Number(input.value) / 100).toPrecision(12));

// Do some work while a form cannot be submitted again; ``say`` gets the error.
async function attempt(button, say, work) {
  button.disabled = true;
  setText(say, "");
  try {
    await work();
  } catch (error) {
    setText(say, error.message);
  }
  button.disabled = false;
}

byId("change").addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true); // otherwise nothing is seen
byId("change").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  const fields = form.elements;
  attempt(event.submitter, byId("change-said"), async () => {
    const project = await send("PATCH", projectPath(projectId), {
      name: fields.name.value.trim(),
      guidelines: fields.guidelines.value,
      settings: {
        ...readLimits(form),
        gold_share: share(fields.gold_share),
        check_share: share(fields.check_share),
        lease_seconds: 60 * Number(fields.lease_minutes.value),
        min_seconds: Number(fields.min_seconds.value),
        ask: fields.ask.value,
      },
    });
    main.dataset.name = project.name;
    setText(document.querySelector(".project-name"), project.name);
    document.querySelector(".project-name").title = project.name;
    setText(byId("change-said"), "Saved.");
  });
});

byId("add-class").addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = event.target.elements;
  attempt(event.submitter, byId("add-said"), async () => {
    const label = await send("POST", projectPath(projectId, "/labels"), { name: fields.name.value.trim(), description: fields.description.value.trim() });
    byId("class-list").append(element("li", {}, element("span", { class: "name", dir: "auto" }, label.name), label.description && element("span", { class: "hint", dir: "auto" }, ` ${label.description}`)));
    event.target.reset();
    setText(byId("add-said"), "Added.");
  });
});

byId("import").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(event.submitter, byId("import-said"), () => importFile(projectId, chosenFile()));
});

byId("pause-project").addEventListener("click", (event) => attempt(event.currentTarget, byId("change-said"), async () => {
  const project = await send("PATCH", projectPath(projectId), { is_paused: !main.dataset.paused });
  main.dataset.paused = project.is_paused ? "yes" : "";
  setText(byId("pause-project"), `${project.is_paused ? "Resume" : "Pause"} the project`);
  const [kind, text] = project.is_paused ? ["paused", "Paused"] : project.is_complete ? ["complete", "Target met"] : ["", "Labelling"];
  byId("project-state").className = `state ${kind}`;
  setText(byId("project-state"), text);
}));

byId("delete-project").addEventListener("click", (event) => attempt(event.currentTarget, byId("delete-said"), async () => {
  if (!(await confirmed(`Delete “${main.dataset.name}”?`, "Documents, votes and results of this project are removed and cannot be restored.", "Delete the project"))) return;
  await send("DELETE", projectPath(projectId));
  location.assign("/projects");
}));

startDrop();
