// The page of annotators: one document after the other.
//
// An answer is put into the outbox first and sent from there; the next document is asked for when nothing is left in
// it. So an answer survives a lost connection, a reload and a restart of the server, and is stored once.

import { pauseMs, projectPath, randomId, send } from "./http.js";
import { Outbox } from "./outbox.js";
import { byId, element, plural, setText, whole } from "./page.js";
import { chosenIn, drawToggles, keysAreOn, onKeys, textOf, toggleByKey, turnKeys } from "./toggles.js";

const REASONS = {
  complete: ["The project is finished", "The labels are as reliable as the project asked for. Thank you for your work."],
  paused: ["The project is paused", "Somebody who manages the project has paused it. Work continues here when it is resumed."],
  you_are_paused: ["You are paused", "Somebody who manages the project has paused your work. Please ask them; your answers are kept."],
  nothing_left: ["Nothing left for you", "You have judged every document that still needs a vote from you. More may come while others work."],
  no_documents: ["No documents yet", "Documents appear here as soon as they are imported."],
};
const LOOK_AGAIN_S = [10, 20, 30, 60];

const main = byId("content");
const [projectId, personId] = [main.dataset.project, main.dataset.person];
const toggles = byId("toggles");
const draftKey = `palda-draft-${projectId}-${personId}`;

let labels = new Map(JSON.parse(main.dataset.labels).map((label) => [label.id, label]));
let task = null; // the document on the page
let isBusy = false; // an answer or a request for a document is under way
let undoId = null; // client id of an undo that has no answer yet
let canUndo = false;
let own = null;
let nLooks = 0; // for the pause before looking again
let nFailures = 0;
let timer = 0;
let advancing = null;

const outbox = new Outbox(`${projectId}-${personId}`, projectPath(projectId, "/votes"), showSending);

function later(milliseconds, run) {
  clearTimeout(timer);
  timer = setTimeout(run, milliseconds);
}

function setBusy(on) {
  isBusy = on;
  main.classList.toggle("busy", on);
  main.setAttribute("aria-busy", String(on));
  for (const control of byId("answer").elements) if (control.id !== "use-keys" && control.tagName !== "FIELDSET") control.disabled = on;
  byId("rest-undo").disabled = on;
  if (!on) showUndo();
}

function showUndo() {
  byId("undo").disabled = byId("rest-undo").hidden = !canUndo;
}

function say(text) {
  setText(byId(byId("work").hidden ? "rest-said" : "said"), text);
}

// Notices

function showSending(problem = outbox.problem, retryMs = 0) {
  const waiting = outbox.size;
  byId("sending").hidden = !problem;
  if (problem) {
    const kept = waiting ? `Not sent yet: ${waiting}. ${outbox.isInMemory ? "Keep this tab open: it" : "It"} is kept ${outbox.isInMemory ? "only here" : "in this browser"}. ` : "";
    let what = `${problem.message} ${retryMs ? `Trying again in ${Math.max(1, Math.round(retryMs / 1000))} s.` : "Trying again."}`;
    if (problem.status === 401) what = `You are signed out. Open your personal link again to sign in${waiting ? "; then your answer is sent" : ""}.`;
    if (problem.status === 403) what = `${problem.message} Load this page again, or ask for a new link.`;
    setText(byId("sending-text"), kept + what);
    byId("sending").classList.toggle("bad", problem.status === 401 || problem.status === 403);
  }
  const refused = outbox.refused();
  const reason = refused.at(-1)?.message ?? outbox.lastRefusal;
  byId("refused").hidden = reason === undefined;
  if (reason !== undefined) setText(byId("refused-text"), `The server did not accept ${refused.length > 1 ? `${refused.length} answers` : "an answer"}: ${reason}`);
}

function showOwn() {
  if (own) setText(byId("own"), `${plural(own.n_answered, "document")} judged, ${whole(own.n_today)} today`);
}

async function loadOwn() {
  try {
    own = await send("GET", projectPath(projectId, "/own-progress"));
    canUndo ||= own.n_answered > 0;
    if (!isBusy) showUndo();
    showOwn();
  } catch { /* shown with the next answer */ }
}

// A document, or why there is none

async function loadLabels() {
  const project = await send("GET", projectPath(projectId));
  labels = new Map(project.labels.map((label) => [label.id, label]));
}

function draftOf(documentId) {
  try {
    const draft = JSON.parse(sessionStorage.getItem(draftKey));
    return draft?.document_id === documentId ? draft.chosen : null;
  } catch {
    return null;
  }
}

async function show(next) {
  clearTimeout(timer);
  if (next.reason !== undefined) return rest(next.reason);
  if (next.label_ids.some((id) => !labels.has(id))) await loadLabels(); // a class was added
  task = next;
  nLooks = 0;
  byId("rest").hidden = true;
  byId("work").hidden = false;
  const shown = next.label_ids.map((id) => labels.get(id)).filter(Boolean);
  const before = Object.entries(next.votes ?? {}).filter(([, value]) => value === 1).map(([id]) => Number(id));
  drawToggles(toggles, shown, new Set(draftOf(next.document_id) ?? before));
  byId("answer").classList.toggle("many", shown.length > 14);
  const isPart = shown.length < labels.size;
  setText(byId("question"), isPart ? "Which of these classes apply?" : "Which classes apply?");
  setText(byId("mode"), isPart ? `Only ${plural(shown.length, "class", "classes")} of ${labels.size} ${shown.length === 1 ? "is" : "are"} asked for on this document.` : "");
  const described = shown.filter((label) => label.description);
  byId("descriptions").replaceChildren(...described.flatMap((label) => [element("dt", { dir: "auto" }, label.name), element("dd", { dir: "auto" }, label.description)]));
  if (described.length) byId("guidelines").hidden = false;
  setText(byId("document-name"), `Document ${next.document}`);
  setText(byId("text"), textOf(next));
  say("");
  setBusy(false);
  window.scrollTo(0, 0);
  byId("document").focus({ preventScroll: true });
  setText(byId("announcement"), `Document ${next.document}`);
}

function rest(reason) {
  task = null;
  const [title, text] = REASONS[reason] ?? ["Nothing to do now", "There is no document for you now."];
  const seconds = LOOK_AGAIN_S[Math.min(nLooks, LOOK_AGAIN_S.length - 1)];
  nLooks += 1;
  const isNew = byId("rest").hidden || byId("rest-title").textContent !== title;
  byId("work").hidden = true;
  byId("rest").hidden = false;
  setText(byId("rest-title"), title);
  setText(byId("rest-text"), text);
  setText(byId("rest-again"), `This page looks again in ${seconds} seconds.`);
  say("");
  setBusy(false);
  if (isNew) byId("rest").focus({ preventScroll: true });
  later(seconds * 1000, advance);
}

// Send what is kept, then ask for the next document.
function advance() {
  advancing ??= sendAndAsk().finally(() => { advancing = null; });
}

async function sendAndAsk() {
  clearTimeout(timer);
  setBusy(true);
  try {
    if (!(await outbox.flush())) return tryAgain(outbox.problem, outbox.pause());
    const next = await send("POST", projectPath(projectId, "/next"));
    nFailures = 0;
    await show(next);
    showSending();
  } catch (error) {
    nFailures += 1;
    tryAgain(error, pauseMs(nFailures, error.retryAfter));
  }
}

function tryAgain(problem, milliseconds) {
  showSending(problem, problem.isTemporary ? milliseconds : 0);
  later(problem.isTemporary ? milliseconds : 30000, advance);
}

function submit(kind, votes = {}) {
  if (isBusy || !task) return;
  outbox.add({ document_id: task.document_id, client_id: randomId(), kind, votes });
  sessionStorage.removeItem(draftKey);
  if (own && kind !== "skip") own = { n_answered: own.n_answered + 1, n_today: own.n_today + 1 };
  showOwn();
  canUndo = true;
  undoId = null;
  advance();
}

function votesOf(chosen) {
  const present = new Set(chosen);
  return Object.fromEntries(task.label_ids.map((id) => [id, present.has(id) ? 1 : 0]));
}

function submitChosen() {
  if (isBusy || !task) return;
  const chosen = chosenIn(toggles);
  if (chosen.length) submit("votes", votesOf(chosen));
  else say("Choose a class, or say “None of these” (0) or “Cannot tell” (T).");
}

function submitNone() {
  if (isBusy || !task) return;
  if (!chosenIn(toggles).length) return submit("votes", votesOf([]));
  for (const input of toggles.querySelectorAll("input")) input.checked = false;
  keepDraft();
  say("The chosen classes are cleared. Once more submits “None of these”.");
}

async function undo() {
  if (isBusy || !canUndo) return;
  if (outbox.size) return advance();
  setBusy(true);
  undoId ??= randomId();
  try {
    const before = await send("POST", projectPath(projectId, "/undo"), { client_id: undoId });
    undoId = null;
    await show(before);
    say("Your last answer is taken back. Change it and submit it again.");
    loadOwn();
  } catch (error) {
    if (!error.isTemporary) undoId = null;
    setBusy(false);
    if (error.status === 401) showSending(error);
    say(error.isTemporary ? `${error.message} The answer is not taken back yet: try again.` : error.message);
  }
}

function keepDraft() {
  if (task) sessionStorage.setItem(draftKey, JSON.stringify({ document_id: task.document_id, chosen: chosenIn(toggles) }));
}

byId("answer").addEventListener("submit", (event) => { event.preventDefault(); submitChosen(); });
byId("none").addEventListener("click", submitNone);
byId("cannot-tell").addEventListener("click", () => submit("cannot_tell"));
byId("skip").addEventListener("click", () => submit("skip"));
byId("undo").addEventListener("click", undo);
byId("rest-undo").addEventListener("click", undo);
byId("look-now").addEventListener("click", () => { if (!isBusy) advance(); });
byId("send-now").addEventListener("click", advance);
byId("refused-seen").addEventListener("click", () => { outbox.forgetRefused(); showSending(); });
toggles.addEventListener("change", () => { say(""); keepDraft(); });
window.addEventListener("online", () => { if (outbox.size || byId("sending").hidden === false) advance(); });
window.addEventListener("beforeunload", (event) => { if (outbox.isInMemory) event.preventDefault(); });

const useKeys = byId("use-keys");
useKeys.checked = keysAreOn();
useKeys.addEventListener("change", () => turnKeys(useKeys.checked));

function toggleGuidelines() {
  if (byId("guidelines").hidden) return;
  byId("guidelines").open = !byId("guidelines").open;
}

const ACTIONS = { Enter: submitChosen, 0: submitNone, t: () => submit("cannot_tell"), s: () => submit("skip"), u: undo, g: toggleGuidelines };
onKeys((key) => {
  const act = ACTIONS[key];
  if (act) act();
  return Boolean(act) || (!isBusy && toggleByKey(toggles, key));
});

showSending();
loadOwn();
advance();
