// The table of people on the dashboard. Rows are kept, so that the focus stays where it is.

import { intervalDrawing } from "./charts.js";
import { confirmed, copyField } from "./confirm.js";
import { projectPath, send } from "./http.js";
import { ago, byId, element, plural, setText, whole } from "./page.js";

let people = [];
let isAdmin = false;

function verdictClass(estimate) {
  return estimate ? estimate.verdict.replaceAll(" ", "-") : "unknown";
}

function emptyRow(person) {
  const buttons = element("div", { class: "row-buttons" },
    element("button", { type: "button", class: "small", "data-act": "pause" }),
    element("button", { type: "button", class: "small", "data-act": "manage", "aria-label": `Manage ${person.name}` }, "Manage"));
  const cell = (title, kind = null) => element("td", { role: "cell", class: kind, "data-title": title }, element("span", { class: "value" }));
  return element("tr", { role: "row", id: `person-${person.person_id}`, "data-person": person.person_id },
    element("th", { role: "rowheader", scope: "row" }, element("span", { class: "name", dir: "auto" }), element("span", { class: "hint" }), element("span", { class: "alarm" })),
    cell("Quality"), cell("Verdict"), cell("Votes", "number"), cell("Seconds per document", "number"), cell("Last answer"),
    isAdmin && element("td", { role: "cell" }, buttons));
}

function drawInterval(cell, estimate) {
  const key = estimate ? `${estimate.quality} ${estimate.quality_low} ${estimate.quality_high}` : "";
  if (cell.dataset.drawn === key) return;
  cell.dataset.drawn = key;
  cell.className = `value interval ${verdictClass(estimate)}`;
  cell.replaceChildren(...(estimate
    ? [intervalDrawing(estimate.quality, estimate.quality_low, estimate.quality_high), `${estimate.quality.toFixed(2)} (${estimate.quality_low.toFixed(2)}–${estimate.quality_high.toFixed(2)})`]
    : ["–"]));
}

function fillRow(row, person) {
  const [title, role, alarm] = row.cells[0].children;
  const [quality, verdict, votes, seconds, seen] = row.querySelectorAll(".value");
  row.classList.toggle("is-paused", person.is_paused);
  setText(title, person.name);
  setText(role, [person.is_owner ? " owner" : person.role === "annotator" ? "" : ` ${person.role}`, person.is_paused ? " paused" : ""].join(""));
  setText(alarm, (person.estimate?.alarms ?? []).join("; "));
  drawInterval(quality, person.estimate);
  verdict.className = `value verdict ${verdictClass(person.estimate)}`;
  setText(verdict, person.estimate?.verdict ?? (person.n_documents ? "not estimated yet" : "no votes"));
  setText(votes, whole(person.n_documents));
  setText(seconds, person.median_seconds === null ? "–" : person.median_seconds.toFixed(person.median_seconds < 10 ? 1 : 0));
  setText(seen, person.last_answer_at === null ? "never" : ago(Date.now() / 1000 - person.last_answer_at));
  const pause = row.querySelector('[data-act="pause"]');
  if (!pause) return;
  setText(pause, person.is_paused ? "Resume" : "Pause");
  pause.setAttribute("aria-label", `${person.is_paused ? "Resume" : "Pause"} ${person.name}`);
  pause.hidden = person.is_owner || person.role === "viewer";
}

function drawAlarms() {
  const found = people.flatMap((person) => {
    const lines = person.estimate?.alarms ?? [];
    return lines.length && !person.is_paused ? [[person, lines.join("; ")]] : [];
  });
  byId("alarms").hidden = found.length === 0;
  const text = found.map(([person, line]) => `${person.person_id} ${person.name} ${line}`).join("\n");
  if (byId("alarms").dataset.drawn === text) return;
  byId("alarms").dataset.drawn = text;
  byId("alarm-list").replaceChildren(...found.map(([person, line]) => element("li", {}, element("a", { class: "name", href: `#person-${person.person_id}`, dir: "auto" }, person.name), element("span", {}, line))));
}

export function drawPeople(next, admin) {
  people = next;
  isAdmin = admin;
  const body = byId("people");
  const rows = new Map([...body.rows].map((row) => [row.dataset.person, row]));
  const order = [...people].sort((a, b) => b.n_documents - a.n_documents || a.name.localeCompare(b.name));
  order.forEach((person, position) => {
    const key = String(person.person_id);
    const row = rows.get(key) ?? emptyRow(person);
    rows.delete(key);
    fillRow(row, person);
    if (body.rows[position] !== row && !row.contains(document.activeElement)) body.insertBefore(row, body.rows[position] ?? null);
    else if (!row.isConnected) body.append(row);
  });
  for (const gone of rows.values()) gone.remove();
  byId("nobody").hidden = people.length > 0;
  body.closest("table").hidden = people.length === 0;
  drawAlarms();
}

// Pause, roles, links, pseudonyms, erasure

export function startManaging(projectId, reload) {
  const dialog = byId("manage");
  let chosen = null;
  const path = (rest = "") => projectPath(projectId, `/people/${chosen.person_id}${rest}`);
  const say = (text) => setText(byId("manage-said"), text);

  async function attempt(work) {
    say("");
    try {
      await work();
      await reload();
    } catch (error) {
      say(error.message);
    }
  }

  function open(person) {
    chosen = person;
    setText(byId("manage-title"), person.name);
    const rates = person.estimate ? ` Sensitivity ${person.estimate.sensitivity.toFixed(2)}, specificity ${person.estimate.specificity.toFixed(2)}.` : "";
    setText(byId("manage-facts"), `${plural(person.n_documents, "vote")}.${rates}`);
    byId("manage-role").value = person.role;
    for (const control of [byId("manage-role").closest(".field"), dialog.querySelector('[data-act="link"]')]) control.hidden = person.is_owner;
    byId("manage-link-row").hidden = true;
    say("");
    dialog.showModal();
  }

  byId("people").addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-act]");
    if (!button) return;
    const person = people.find((one) => String(one.person_id) === button.closest("tr").dataset.person);
    if (button.dataset.act === "manage") return open(person);
    button.disabled = true;
    try {
      await send("PATCH", projectPath(projectId, `/people/${person.person_id}`), { is_paused: !person.is_paused });
      await reload();
    } catch (error) {
      open(person);
      say(error.message);
    }
    button.disabled = false;
    button.focus();
  });

  byId("manage-role").addEventListener("change", async (event) => {
    await attempt(async () => {
      await send("PATCH", path(), { role: event.target.value });
      chosen = { ...chosen, role: event.target.value };
    });
    event.target.value = chosen.role;
  });
  byId("copy-manage-link").addEventListener("click", (event) => copyField(byId("manage-link"), event.currentTarget));

  const acts = {
    close: () => dialog.close(),
    link: () => attempt(async () => {
      const made = await send("POST", projectPath(projectId, "/invitations"), { role: chosen.role, name: chosen.name });
      byId("manage-link-row").hidden = false;
      byId("manage-link").value = new URL(made.path ?? `/join/${made.token}`, location.href).href;
      byId("manage-link").focus();
      byId("manage-link").select();
      say("This link signs in as this person. It is shown only now.");
    }),
    pseudonymise: async () => {
      if (!(await confirmed(`Replace the name “${chosen.name}”?`, "The votes stay, under a pseudonym. The name is removed from the store and cannot be restored.", "Replace the name"))) return;
      await attempt(async () => { await send("POST", path("/pseudonym")); dialog.close(); });
    },
    erase: async () => {
      if (!(await confirmed(`Erase “${chosen.name}”?`, `The person and ${plural(chosen.n_documents, "vote")} are removed and cannot be restored. The model is fitted again without them.`, "Erase"))) return;
      await attempt(async () => { await send("DELETE", path()); dialog.close(); });
    },
  };
  dialog.addEventListener("click", (event) => acts[event.target.closest("[data-act]")?.dataset.act]?.());
}
