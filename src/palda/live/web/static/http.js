// Requests to the JSON API of this server.

const UNREACHABLE = "The server cannot be reached.";
const TIMEOUT_MS = 20000;

export class RequestError extends Error {
  constructor(status, message, retryAfter = 0) {
    super(message);
    this.status = status; // 0: no answer
    this.retryAfter = retryAfter; // seconds
  }

  // Whether the same request may succeed later.
  get isTemporary() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

export function projectPath(id, rest = "") {
  return `/api/v1/projects/${id}${rest}`;
}

// A message of the server as a sentence; names of files and fields keep their spelling.
export function sentence(text) {
  const start = text.replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase());
  return /[.!?…]$/.test(start) ? start : `${start}.`;
}

async function messageOf(response) {
  try {
    const body = await response.json();
    const detail = body.message ?? body.detail ?? body.error;
    if (typeof detail === "string") return sentence(detail);
    if (Array.isArray(detail)) return detail.map((one) => [one.loc?.slice(1).join("."), one.msg].filter(Boolean).join(": ")).join("; ");
  } catch { /* no JSON */ }
  return `The server answered with status ${response.status}.`;
}

async function request(method, path, content, type, timeout) {
  const headers = { Accept: "application/json" };
  if (type) headers["Content-Type"] = type;
  if (method !== "GET") headers["X-Palda-Form-Key"] = document.querySelector('meta[name="form-key"]')?.content ?? "";
  const stop = new AbortController();
  const timer = timeout ? setTimeout(() => stop.abort(), timeout) : 0;
  try {
    const response = await fetch(path, { method, headers, body: content, credentials: "same-origin", cache: "no-store", signal: stop.signal });
    if (!response.ok) throw new RequestError(response.status, await messageOf(response), Number(response.headers.get("Retry-After")) || 0);
    return response.status === 204 ? null : await response.json();
  } catch (error) {
    throw error instanceof RequestError ? error : new RequestError(0, UNREACHABLE);
  } finally {
    clearTimeout(timer);
  }
}

// The JSON answer; ``body`` is sent as JSON.
export function send(method, path, body) {
  return body === undefined
    ? request(method, path, undefined, "", TIMEOUT_MS)
    : request(method, path, JSON.stringify(body), "application/json", TIMEOUT_MS);
}

export function upload(path, file, type) {
  return request("POST", path, file, type, 0);
}

// A random id; randomUUID exists only in secure contexts, which a plain http address in a local network is not.
export function randomId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Growing pauses between attempts: 1, 2, 4, ... at most 30 seconds, a little random.
export function pauseMs(nFailures, retryAfter = 0) {
  return 1000 * Math.max(retryAfter, Math.min(30, 2 ** Math.max(0, nFailures - 1)) * (0.8 + 0.4 * Math.random()));
}
