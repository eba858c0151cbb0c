// Drawings as inline SVG: the curve of expected errors, and the interval of a quality.

const NAMESPACE = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// Round numbers from 0 to at least ``most``, about ``n`` steps.
function ticks(most, n) {
  const raw = most / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= raw) * power;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, position) => position * step);
}

function shortCount(number) {
  return number >= 10000 ? `${number / 1000}K` : String(Math.round(number * 10) / 10);
}

// Points are {votes, expected, upper}: shares of labels. ``title`` is the text alternative.
export function drawCurve(place, points, target, title) {
  const width = Math.max(300, Math.min(760, place.clientWidth || 640));
  const height = Math.round(Math.max(190, width * 0.4));
  const left = 46, right = 12, top = 10, bottom = 40;
  const mostVotes = Math.max(1, ...points.map((point) => point.votes));
  const mostShare = Math.max(1e-4, (target ?? 0) * 1.3, ...points.map((point) => Math.min(1, point.upper))) * 1.04;
  const x = (votes) => left + (votes / mostVotes) * (width - left - right);
  const y = (share) => height - bottom - (Math.min(share, mostShare) / mostShare) * (height - top - bottom);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const share of ticks(mostShare, 4)) {
    drawing.append(svg("path", { class: "grid", d: `M${left} ${y(share)}H${width - right}` }));
    drawing.append(svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(share * 1e4) / 100}%`));
  }
  for (const votes of ticks(mostVotes, width < 450 ? 3 : 6)) {
    drawing.append(svg("text", { x: x(votes), y: height - bottom + 17, "text-anchor": "middle" }, shortCount(votes)));
  }
  drawing.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "votes"));
  const line = (name) => points.map((point, position) => `${position ? "L" : "M"}${x(point.votes).toFixed(1)} ${y(point[name]).toFixed(1)}`).join("");
  if (points.length > 1) {
    const back = [...points].reverse().map((point) => `L${x(point.votes).toFixed(1)} ${y(point.expected).toFixed(1)}`).join("");
    drawing.append(svg("path", { class: "band", d: `${line("upper")}${back}Z` }));
    drawing.append(svg("path", { class: "line", d: line("expected") }));
  }
  const last = points.at(-1);
  drawing.append(svg("circle", { class: "dot", cx: x(last.votes), cy: y(last.expected), r: 4 }));
  if (target !== null && target !== undefined) drawing.append(svg("path", { class: "target", d: `M${left} ${y(target)}H${width - right}` }));
  place.replaceChildren(drawing);
}

// A quality between 0 and 1 with its interval, and a line at one half.
export function intervalDrawing(quality, low, high) {
  const width = 110;
  const x = (share) => 4 + Math.min(1, Math.max(0, share)) * (width - 8);
  return svg("svg", { width, height: 16, viewBox: `0 0 ${width} 16`, "aria-hidden": "true" },
    svg("path", { class: "half", d: `M${x(0.5)} 2V14` }),
    svg("path", { class: "bar", d: `M${x(low)} 8H${Math.max(x(high), x(low) + 1)}` }),
    svg("circle", { cx: x(quality), cy: 8, r: 3.5 }));
}
