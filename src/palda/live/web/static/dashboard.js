// The dashboard follows the project by server-sent events and draws what changed.

import { drawCurve } from "./charts.js";
import { copyField } from "./confirm.js";
import { projectPath, send, sentence } from "./http.js";
import { byId, element, percent, plural, setText, whole } from "./page.js";
import { drawPeople, startManaging } from "./people.js";

const main = byId("content");
const projectId = main.dataset.project;
const isAdmin = main.dataset.role === "admin";
const DETAILS_PAUSE_MS = 2000; // between requests for people and contested documents
const QUIET_MS = 20000; // after so long without an event the status is asked for
const LEARNER_LATE_S = 60;
const FIRST_FIT = 10; // documents with a vote, as the learner has it
const clockShift = Number(main.dataset.now) - Date.now() / 1000; // the server's clock minus this one

let status = JSON.parse(main.dataset.status);
let drawnPosition = null; // of the contested documents on the page
let nPoints = 0;

function field(name, text) {
  setText(main.querySelector(`[data-field="${name}"]`), text);
}

function problem(text) {
  byId("problem").hidden = !text;
  setText(byId("problem-text"), text ?? "");
}

// Status

function drawState() {
  const { project } = status;
  const state = byId("project-state");
  const [kind, text] = project.is_paused ? ["paused", "Paused"] : project.is_complete ? ["complete", "Target met"] : ["", "Labelling"];
  state.className = `state ${kind}`;
  setText(state, text);
  if (isAdmin) setText(byId("pause-project"), project.is_paused ? "Resume the project" : "Pause the project");
}

function drawStats() {
  const { estimate, project, n_documents: nDocuments, n_votes: nVotes } = status;
  const fixed = project.settings.fixed_votes_per_doc;
  field("judged", nDocuments ? `${whole(status.n_judged)} of ${whole(nDocuments)}` : "0");
  field("votes", whole(nVotes));
  field("votes-note", nDocuments ? `votes spent, ${(nVotes / nDocuments).toFixed(1)} per document` : "votes spent");
  field("leases", whole(status.n_leases));
  for (const entry of main.querySelectorAll("[data-needs-fit]")) entry.hidden = !estimate;
  byId("contradiction").hidden = !estimate?.contradiction;
  setText(byId("contradiction-text"), estimate?.contradiction ? sentence(estimate.contradiction) : "");
  byId("models").hidden = !estimate?.models;
  setText(byId("models-text"), estimate?.models ? sentence(estimate.models) : "");
  if (estimate) {
    field("wrong", percent(estimate.expected_wrong / Math.max(1, estimate.n_labels)));
    field("wrong-note", `expected share of wrong labels; 90% sure below ${percent(estimate.upper_wrong / Math.max(1, estimate.n_labels))}`);
  }
  const sameQuality = estimate?.fixed_votes ?? null;
  const reference = sameQuality ?? fixed * nDocuments;
  const saved = reference - nVotes;
  const isFinal = sameQuality !== null || project.is_complete;
  field("saved", isFinal && reference > 0 && saved > 0 ? `${whole(saved)} (${percent(saved / reference, 0)})` : "–");
  field("saved-note", sameQuality !== null
    ? `votes saved: a fixed number per document needs about ${whole(sameQuality)} for this quality`
    : `votes saved against ${fixed} per document${nDocuments ? `, which is ${whole(fixed * nDocuments)}` : ""}`);
}

function pointsOf(history) {
  const every = Math.max(1, Math.ceil(history.length / 300));
  return history.filter((_, position) => position % every === 0 || position === history.length - 1)
    .map(([, votes, expected, upper, nLabels]) => ({ votes, expected: expected / Math.max(1, nLabels), upper: upper / Math.max(1, nLabels) }));
}

function drawProgress() {
  const { estimate, project, history } = status;
  const target = project.settings.target_error;
  const goal = target === null ? `Every document gets ${plural(project.settings.max_votes_per_doc, "vote")}.` : `Labelling stops when at most ${percent(target)} of the labels are wrong with 90% certainty.`;
  let now = "";
  if (!status.n_documents) now = "There are no documents yet: import some on the settings page.";
  else if (!estimate) now = `The first estimate appears when ${status.n_documents < FIRST_FIT ? "all" : FIRST_FIT} documents have a vote.`;
  else {
    now = `After ${plural(estimate.n_votes, "vote")}, about ${whole(estimate.expected_wrong)} of ${plural(estimate.n_labels, "label")} are expected to be wrong, and at most ${whole(Math.ceil(estimate.upper_wrong))} with 90% certainty.`;
    if (estimate.is_met) now += " The target is met.";
    if (estimate.is_provisional) now += " With so few documents judged, these numbers are provisional: they are rough, and may rise before they fall.";
  }
  setText(byId("progress-text"), `${goal} ${now}`);
  const points = estimate ? pointsOf(history) : [];
  byId("chart-legend").hidden = byId("chart-details").hidden = points.length === 0;
  if (!points.length) return byId("chart").replaceChildren();
  nPoints = points.length;
  drawCurve(byId("chart"), points, target, `Share of wrong labels against votes: expected ${percent(points[0].expected)} after ${plural(points[0].votes, "vote")}, ${percent(points.at(-1).expected)} after ${plural(points.at(-1).votes, "vote")}. ${target === null ? "" : `The target is ${percent(target)}.`}`);
  const every = Math.max(1, Math.ceil(points.length / 12));
  byId("chart-table").replaceChildren(...points.filter((_, position) => position % every === 0 || position === points.length - 1).map((point) =>
    element("tr", {}, ...[whole(point.votes), percent(point.expected), percent(point.upper)].map((text) => element("td", { class: "number" }, text)))));
}

const ACTIVITIES = { waiting: "The learner waits for votes.", fitting: "The learner fits a model.", failed: "The learner has failed." };

function drawLearner() {
  const { learner } = status;
  const late = learner ? Date.now() / 1000 + clockShift - learner.heartbeat_at : 0;
  const hasFailed = Boolean(learner) && (learner.activity === "failed" || late > LEARNER_LATE_S);
  byId("learner-problem").hidden = !hasFailed;
  if (hasFailed) setText(byId("learner-message"), learner.activity === "failed" ? `${sentence(learner.message || "it gave no reason")}${learner.n_failures > 1 ? ` It has failed ${learner.n_failures} times.` : ""}` : `It has given no sign for ${plural(late / 60, "minute")}.`);
  let text = "The learner has not started yet.";
  if (learner) {
    const isLevel = status.estimate && learner.position >= status.position; // the estimate has no votes of who cannot tell
    const behind = isLevel ? 0 : status.n_votes - (status.estimate?.n_votes ?? 0);
    text = `${ACTIVITIES[learner.activity] ?? learner.activity}${behind > 0 ? ` ${plural(behind, "vote")} ${behind === 1 ? "is" : "are"} not in the estimate yet.` : ""}`;
  }
  setText(byId("learner-state"), text);
}

function draw(next) {
  status = next;
  drawState();
  drawStats();
  drawProgress();
  drawLearner();
}

// People and contested documents, which events do not carry

function drawContested(documents) {
  const labels = new Map(status.project.labels.map((label) => [String(label.id), label.name]));
  byId("contested-none").hidden = documents.length > 0;
  byId("adjudicate-link").hidden = documents.length === 0;
  byId("contested").replaceChildren(...documents.map((one) => {
    const doubtful = Object.entries(one.probabilities).sort((a, b) => Math.abs(a[1] - 0.5) - Math.abs(b[1] - 0.5)).slice(0, 2).filter(([, share]) => share > 0.05 && share < 0.95);
    return element("li", {},
      element("div", { class: "why" },
        element("a", { class: "name", href: `/projects/${projectId}/adjudicate?document=${one.document_id}`, dir: "auto" }, one.document),
        element("span", { class: "hint" }, `about ${one.expected_wrong.toFixed(1)} wrong labels`)),
      element("div", { class: "start two-lines", dir: "auto" }, one.text.slice(0, 200)),
      ...doubtful.flatMap(([id, share]) => [element("span", { class: "chip" }, element("bdi", {}, labels.get(id) ?? id), ` ${percent(share, 0)}`), " "]));
  }));
}

let detailsTimer = 0;
let detailsAt = 0;

function detailsSoon() {
  if (detailsTimer || document.hidden) return;
  detailsTimer = setTimeout(loadDetails, Math.max(0, detailsAt + DETAILS_PAUSE_MS - Date.now()));
}

export async function loadDetails() {
  try {
    drawPeople(await send("GET", projectPath(projectId, "/people")), isAdmin);
    if (isAdmin && drawnPosition !== status.estimate_position) {
      drawContested(await send("GET", projectPath(projectId, "/doubtful?limit=6")));
      drawnPosition = status.estimate_position;
    }
  } catch (error) {
    if (error.status === 401) problem("You are signed out. Open your link again to sign in.");
  } finally {
    clearTimeout(detailsTimer);
    detailsTimer = 0;
    detailsAt = Date.now();
  }
}

// Connection

let source = null;
let heardAt = Date.now();
let nTries = 0;

function connected(on) {
  const state = byId("connection");
  state.className = `state ${on ? "" : "failed"}`;
  setText(state, on ? "Live" : "Connection lost, trying again");
}

function connect() {
  source?.close();
  source = new EventSource(projectPath(projectId, "/events"));
  const heard = (event) => {
    heardAt = Date.now();
    nTries = 0;
    connected(true);
    if (!event.data) return;
    draw(JSON.parse(event.data));
    detailsSoon();
  };
  source.addEventListener("open", heard);
  for (const kind of ["message", "status", "ping"]) source.addEventListener(kind, heard);
  source.addEventListener("error", async () => {
    connected(false);
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    nTries += 1;
    setTimeout(connect, 1000 * Math.min(30, 2 ** nTries));
    try {
      await send("GET", "/api/v1/session");
    } catch (error) {
      if (error.status === 401) problem("You are signed out. Open your link again to sign in.");
    }
  });
}

// A quiet stream may be a broken one, and a learner that is gone sends no event.
async function checkQuiet() {
  if (document.hidden || Date.now() - heardAt < QUIET_MS) return;
  heardAt = Date.now();
  try {
    draw(await send("GET", projectPath(projectId, "/status")));
    detailsSoon(); // somebody who joins sends no event
    if (source.readyState === EventSource.OPEN) connected(true);
  } catch (error) {
    if (error.isTemporary) connected(false);
  }
}

// Actions

async function act(work) {
  problem(null);
  try {
    await work();
  } catch (error) {
    problem(error.message);
  }
}

byId("pause-project")?.addEventListener("click", () => act(async () => {
  const project = await send("PATCH", projectPath(projectId), { is_paused: !status.project.is_paused });
  draw({ ...status, project });
}));

byId("invite")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = byId("invite-name").value.trim();
  setText(byId("invite-said"), "");
  try {
    const made = await send("POST", projectPath(projectId, "/invitations"), { role: byId("invite-role").value, ...(name ? { name } : {}) });
    byId("invited").hidden = false;
    byId("invite-link").value = new URL(made.path ?? `/join/${made.token}`, location.href).href;
    setText(byId("invited-text"), `${name ? `This link is for ${name}.` : "Everybody who has this link can join."} It is shown only now and works for 14 days.`);
    byId("invite-name").value = "";
    byId("invite-link").focus();
    byId("invite-link").select();
    if (name) await loadDetails();
  } catch (error) {
    setText(byId("invite-said"), error.message);
  }
});
byId("copy-link")?.addEventListener("click", (event) => copyField(byId("invite-link"), event.currentTarget));
if (isAdmin) startManaging(projectId, loadDetails);

draw(status);
drawPeople(JSON.parse(main.dataset.people), isAdmin);
if (isAdmin) loadDetails();
connect();
setInterval(checkQuiet, 5000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) { detailsSoon(); if (source.readyState === EventSource.CLOSED) connect(); } });
window.addEventListener("pagehide", () => source?.close());
window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
let width = window.innerWidth;
window.addEventListener("resize", () => { if (window.innerWidth !== width && nPoints) { width = window.innerWidth; drawProgress(); } });
