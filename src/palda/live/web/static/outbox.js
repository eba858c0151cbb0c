// Answers that the server has not acknowledged yet. They are kept in localStorage, one entry per answer, so that tabs
// do not overwrite each other's; each is sent with the client id it was given, which the server accepts once.

import { pauseMs, send } from "./http.js";

export class Outbox {
  // ``changed`` is called whenever the state changed.
  constructor(name, path, changed) {
    this.prefix = `palda-outbox-${name}-`;
    this.refusedKey = `palda-refused-${name}`;
    this.path = path;
    this.changed = changed;
    this.memory = new Map(); // where localStorage cannot be written
    this.nFailures = 0;
    this.problem = null; // the last error while entries wait
    this.sending = null;
  }

  keys() {
    const stored = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
    return [...new Set([...stored, ...this.memory.keys()])].sort();
  }

  get size() {
    return this.keys().length;
  }

  get isInMemory() {
    return this.memory.size > 0;
  }

  add(answer) {
    const key = `${this.prefix}${String(Date.now()).padStart(15, "0")}-${answer.client_id}`;
    try {
      localStorage.setItem(key, JSON.stringify(answer));
    } catch {
      this.memory.set(key, JSON.stringify(answer));
    }
  }

  remove(key) {
    this.memory.delete(key);
    localStorage.removeItem(key);
  }

  // Send what is kept, oldest first. True if nothing is left; false if it has to be tried again after ``pause()``.
  flush() {
    this.sending ??= this.sendAll().finally(() => { this.sending = null; this.changed(); });
    return this.sending;
  }

  async sendAll() {
    for (const key of this.keys()) {
      const content = this.memory.get(key) ?? localStorage.getItem(key);
      if (content === null) continue; // another tab has sent it
      try {
        await send("POST", this.path, JSON.parse(content));
      } catch (error) {
        if (error.isTemporary || error.status === 401 || error.status === 403) {
          this.nFailures += 1;
          this.problem = error;
          return false;
        }
        this.refuse(JSON.parse(content), error.message);
      }
      this.remove(key);
      this.nFailures = 0;
      this.problem = null;
    }
    this.problem = null;
    return true;
  }

  pause() {
    return pauseMs(this.nFailures, this.problem?.retryAfter);
  }

  // An answer that the server will never accept, for instance because the document was deleted.
  refuse(answer, message) {
    const all = [...this.refused(), { answer, message }].slice(-50);
    try {
      localStorage.setItem(this.refusedKey, JSON.stringify(all));
    } catch { /* shown now all the same */ }
    this.lastRefusal = message;
  }

  refused() {
    return JSON.parse(localStorage.getItem(this.refusedKey) ?? "[]");
  }

  forgetRefused() {
    this.lastRefusal = undefined;
    localStorage.removeItem(this.refusedKey);
  }
}
