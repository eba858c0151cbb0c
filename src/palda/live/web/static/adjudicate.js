// The most doubtful documents one by one; a decision becomes gold.

import { projectPath, send } from "./http.js";
import { byId, element, percent, setText } from "./page.js";
import { chosenIn, drawToggles, onKeys, textOf, toggleByKey } from "./toggles.js";

const N_DOCUMENTS = 30;
const IN_DOUBT = 0.1; // probabilities between this and 1 minus this are marked

const main = byId("content");
const projectId = main.dataset.project;
const labels = JSON.parse(main.dataset.labels);
const toggles = byId("toggles");
const decided = new Map(); // document id -> classes that apply

let documents = [];
let position = 0;
let quality = new Map();
let isBusy = false;

function problem(text) {
  byId("problem").hidden = !text;
  setText(byId("problem-text"), text ?? "");
}

// Classes about which somebody said yes, or which are in doubt.
function columnsOf(one) {
  const isWanted = (id) => {
    const share = one.probabilities[id] ?? 0;
    return share > 0.02 || one.votes.some((vote) => vote.label_id === id && vote.value === 1);
  };
  const wanted = labels.filter((label) => isWanted(label.id));
  return wanted.sort((a, b) => (one.probabilities[b.id] ?? 0) - (one.probabilities[a.id] ?? 0)).slice(0, 8);
}

function drawVotes(one) {
  const columns = columnsOf(one);
  const people = [...new Set(one.votes.map((vote) => vote.person))].sort((a, b) => (quality.get(b) ?? 0) - (quality.get(a) ?? 0));
  const given = new Map(one.votes.map((vote) => [`${vote.person}\n${vote.label_id}`, vote.value]));
  const isDoubt = (label) => { const share = one.probabilities[label.id] ?? 0; return share > IN_DOUBT && share < 1 - IN_DOUBT; };
  byId("votes-head").replaceChildren(element("th", { scope: "col" }, "Annotator"), element("th", { scope: "col" }, "Quality"),
    ...columns.map((label) => element("th", { scope: "col", class: isDoubt(label) ? "doubt" : null, dir: "auto", title: label.name }, element("span", { class: "two-lines" }, label.name))));
  const rows = people.map((person) => element("tr", {},
    element("th", { scope: "row" }, element("span", { class: "name", dir: "auto" }, person)),
    element("td", {}, quality.has(person) ? quality.get(person).toFixed(2) : "–"),
    ...columns.map((label) => {
      const value = given.get(`${person}\n${label.id}`);
      return element("td", { class: value === 1 ? "yes" : "no" }, value === undefined ? "–" : value === 1 ? "yes" : "no");
    })));
  const shares = element("tr", {}, element("th", { scope: "row" }, "Probability"), element("td", {}),
    ...columns.map((label) => element("td", { class: `probability${isDoubt(label) ? " doubt" : ""}` }, percent(one.probabilities[label.id] ?? 0, 0))));
  byId("votes-body").replaceChildren(...rows, shares);
  const rest = labels.length - columns.length;
  setText(byId("votes-note"), `${people.length ? "" : "Nobody has judged this document. "}${rest > 0 ? `${rest} other ${rest === 1 ? "class is" : "classes are"} not shown: nobody chose ${rest === 1 ? "it" : "them"}, or ${rest === 1 ? "its probability is" : "their probabilities are"} lower.` : ""}`);
}

function drawWords(one) {
  const rows = columnsOf(one).filter((label) => one.words[label.id]?.length).map((label) => element("div", {},
    element("dt", { dir: "auto" }, label.name),
    element("dd", {}, ...one.words[label.id].slice(0, 8).flatMap(([word, odds]) => [element("span", { class: `chip ${odds > 0 ? "for" : "against"}`, dir: "auto" }, `${odds > 0 ? "+" : "−"} ${word}`), " "]))));
  byId("words-section").hidden = rows.length === 0;
  byId("words").replaceChildren(...rows);
}

function draw() {
  const one = documents[position];
  byId("work").hidden = !one;
  byId("rest").hidden = Boolean(one);
  if (!one) {
    setText(byId("place"), "");
    setText(byId("rest-text"), decided.size ? "All doubtful documents of this round are decided or passed. Look again: the model learns from the decisions." : "No document has doubtful labels now. They appear after the first votes.");
    byId("rest").focus({ preventScroll: true });
    return;
  }
  const known = decided.get(one.document_id);
  const gold = Object.entries(one.gold);
  const chosen = known ?? (gold.length ? gold.filter(([, value]) => value === 1).map(([id]) => Number(id)) : labels.filter((label) => (one.probabilities[label.id] ?? 0) > 0.5).map((label) => label.id));
  const state = known ? ", decided" : gold.length ? ", has known labels" : "";
  setText(byId("place"), `${position + 1} of the ${documents.length} most doubtful: ${one.expected_wrong.toFixed(1)} labels are expected to be wrong${state}`);
  drawToggles(toggles, labels, new Set(chosen), new Map(labels.map((label) => [label.id, label.id in one.probabilities ? percent(one.probabilities[label.id], 0) : ""])));
  byId("decision").classList.toggle("many", labels.length > 14);
  setText(byId("document-name"), `Document ${one.document}`);
  setText(byId("text"), textOf(one));
  if (main.dataset.taskLink) byId("task-link").href = main.dataset.taskLink + encodeURIComponent(one.document);
  drawVotes(one);
  drawWords(one);
  byId("previous").disabled = position === 0;
  window.scrollTo(0, 0);
  byId("document").focus({ preventScroll: true });
  setText(byId("announcement"), `Document ${one.document}, ${position + 1} of ${documents.length}`);
}

// ``first`` holds the document that a link asked for.
async function load(first = []) {
  problem(null);
  try {
    const people = await send("GET", projectPath(projectId, "/people"));
    quality = new Map(people.filter((person) => person.estimate).map((person) => [person.name, person.estimate.quality]));
    const found = await send("GET", projectPath(projectId, `/doubtful?limit=${N_DOCUMENTS}`));
    documents = [...first, ...found.filter((one) => !decided.has(one.document_id) && one.document_id !== first[0]?.document_id)];
    position = 0;
  } catch (error) {
    problem(error.status === 401 ? "You are signed out. Open your link again to sign in." : error.message);
    setText(byId("place"), "");
    if (!first.length) return;
    [documents, position] = [first, 0];
  }
  draw();
}

function move(by) {
  if (isBusy) return;
  position = Math.max(0, Math.min(documents.length, position + by));
  setText(byId("said"), "");
  draw();
}

async function decide() {
  const one = documents[position];
  if (isBusy || !one) return;
  const chosen = chosenIn(toggles);
  isBusy = true;
  byId("decide").disabled = true;
  problem(null);
  try {
    await send("POST", projectPath(projectId, `/doubtful/${one.document_id}`), { labels: Object.fromEntries(labels.map((label) => [label.id, chosen.includes(label.id) ? 1 : 0])) });
    decided.set(one.document_id, chosen);
    isBusy = false;
    move(1);
    setText(byId("said"), `Decided: ${one.document}.`);
  } catch (error) {
    problem(error.status === 401 ? "You are signed out. Open your link again to sign in; nothing was stored." : `The decision is not stored, try again: ${error.message}`);
  }
  isBusy = false;
  byId("decide").disabled = false;
}

byId("decision").addEventListener("submit", (event) => { event.preventDefault(); decide(); });
byId("previous").addEventListener("click", () => move(-1));
byId("next").addEventListener("click", () => move(1));
byId("look-now").addEventListener("click", () => load());
const ACTIONS = { Enter: decide, u: () => move(-1), s: () => move(1) };
onKeys((key) => {
  if (byId("work").hidden) return false;
  ACTIONS[key]?.();
  return key in ACTIONS || toggleByKey(toggles, key);
});
load(JSON.parse(main.dataset.first));
