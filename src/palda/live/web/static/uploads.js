// A file that is dropped or chosen, and the import of its documents.

import { projectPath, send, sentence, upload } from "./http.js";
import { byId, plural, setText, whole } from "./page.js";

const TYPES = { csv: "text/csv", jsonl: "application/x-ndjson", ndjson: "application/x-ndjson" };
const POLL_MS = 400;

export function startDrop() {
  const [drop, input] = [byId("drop"), byId("file")];
  const show = () => {
    const file = input.files[0];
    setText(byId("chosen-file"), file ? `${file.name}, ${file.size < 1e5 ? `${whole(file.size / 1e3 + 0.5)} kB` : `${(file.size / 1e6).toFixed(1)} MB`}` : "");
  };
  input.addEventListener("change", show);
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
  for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault()); // a file beside it would replace the page
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length !== 1) return setText(byId("chosen-file"), "Drop one file.");
    input.files = event.dataTransfer.files;
    show();
  });
}

export function chosenFile() {
  return byId("file").files[0];
}

// Send a file and wait for its import; returns the finished job, or raises an error that says what is wrong.
export async function importFile(projectId, file) {
  const type = TYPES[file.name.split(".").at(-1).toLowerCase()];
  if (!type) throw new Error("The file must end in .csv, .jsonl or .ndjson.");
  const [bar, box] = [byId("importing-bar"), byId("importing")];
  box.hidden = false;
  bar.removeAttribute("value");
  setText(byId("importing-text"), "Sending the file.");
  try {
    let job = await upload(projectPath(projectId, "/documents"), file, type);
    while (job.state === "running") {
      bar.max = Math.max(1, job.n_rows);
      bar.value = job.n_done;
      setText(byId("importing-text"), `Importing: ${whole(job.n_done)} of ${plural(job.n_rows, "document")}.`);
      await new Promise((resolve) => { setTimeout(resolve, POLL_MS); });
      try {
        job = await send("GET", projectPath(projectId, `/imports/${job.id}`));
      } catch (error) {
        if (!error.isTemporary) throw error; // a server that starts again says how far it came
      }
    }
    if (job.state !== "finished") throw new Error(sentence(job.message || `the import is ${job.state}`));
    bar.max = bar.value = 1;
    setText(byId("importing-text"), `${plural(job.n_new, "new document")}.${job.message && ` ${sentence(job.message)}`}`);
    return job;
  } catch (error) {
    box.hidden = true;
    throw error;
  }
}

// Settings of the fields that both forms have; an empty target is none.
export function readLimits(form) {
  const target = form.elements.target_error.value.trim();
  return {
    target_error: target === "" ? null : Number((Number(target) / 100).toPrecision(12)),
    max_votes_per_doc: Number(form.elements.max_votes_per_doc.value),
    fixed_votes_per_doc: Number(form.elements.fixed_votes_per_doc.value),
  };
}
