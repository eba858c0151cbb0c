"use strict";
// Draws the report from the data in the page. Names and texts are set as textContent, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE_SIZE = 20;
  const byId = (id) => document.getElementById(id);
  const tip = byId("tip");
  const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;
  const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
  const fixed = (value) => value.toFixed(2).replace("-", "−").replace("−0.00", "0.00");
  const counted = (n, name) => `${n} ${name}${n === 1 ? "" : "s"}`;

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null));
    return node;
  }

  function draw(parent, tag, attributes = {}, text = null) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    parent.append(node);
    return node;
  }

  // ---- charts: a tooltip under the mouse; arrow keys show and announce the same text

  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 8 : y + 18}px`;
  }

  function hideTip() { tip.hidden = true; }

  /** Makes marks {node, text} explorable; `step(at, key)` returns the mark to which an arrow key moves. */
  function explorable(svg, marks, step) {
    let at = -1;
    const leave = () => { if (at >= 0) marks[at].node.classList.remove("at"); hideTip(); };
    const enter = (next) => { leave(); at = next; marks[at].node.classList.add("at"); };
    marks.forEach((mark, position) => { mark.node.dataset.mark = position; });
    svg.addEventListener("pointermove", (event) => {
      const position = event.target.dataset.mark;
      if (position === undefined) { leave(); return; }
      enter(Number(position));
      showTip(marks[at].text, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { leave(); return; }
      if (!event.key.startsWith("Arrow") || !marks.length) return;
      event.preventDefault();
      const next = at < 0 ? 0 : step(at, event.key);
      if (next < 0 || next >= marks.length) return;
      enter(next);
      const box = marks[at].node.getBoundingClientRect();
      showTip(marks[at].text, box.right, box.bottom);
      byId("announcement").textContent = marks[at].text;
    });
  }

  const along = (at, key) => at + (key === "ArrowRight" || key === "ArrowUp" ? 1 : -1);

  function canvas(holder, width, height, name) {
    holder.replaceChildren();
    return draw(holder, "svg", {
      width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application",
      "aria-roledescription": "chart", "aria-label": `${name}; use the arrow keys to move between values`,
    });
  }

  function ticks(low, high, n = 4) {
    const rough = (high - low) / n || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const size = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough);
    const values = [];
    for (let value = Math.ceil(low / size) * size; value <= high + size * 1e-9; value += size) values.push(value);
    return values;
  }

  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
  const short = (value) => compact.format(value).replace("-", "−");

  /** Draws axes over the given ranges; returns the functions from values to coordinates. */
  function axes(svg, size, xRange, yRange, names) {
    const edge = names.small ? { left: 32, right: 10, top: 8, bottom: 36 } : { left: 66, right: 12, top: 10, bottom: 40 };
    const x = (value) => edge.left + (value - xRange[0]) / (xRange[1] - xRange[0] || 1) * (size.width - edge.left - edge.right);
    const y = (value) => size.height - edge.bottom
      - (value - yRange[0]) / (yRange[1] - yRange[0] || 1) * (size.height - edge.top - edge.bottom);
    for (const value of ticks(...yRange)) {
      draw(svg, "path", { class: "grid", d: `M${edge.left} ${y(value)}H${size.width - edge.right}` });
      draw(svg, "text", { x: edge.left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value));
    }
    const own = ticks(...xRange, 5).filter((tick) => !names.whole || Number.isInteger(tick)).map((value) => [value, short(value), "middle"]);
    for (const [value, text, anchor] of names.xTicks || own) {
      draw(svg, "text", { x: x(value), y: size.height - edge.bottom + 15, "text-anchor": anchor }, text);
    }
    draw(svg, "path", { class: "axis", d: `M${edge.left} ${edge.top}V${size.height - edge.bottom}H${size.width - edge.right}` });
    const middle = (edge.left + size.width - edge.right) / 2;
    draw(svg, "text", { x: middle, y: size.height - 6, "text-anchor": "middle" }, names.x);
    return { x, y, top: edge.top, bottom: size.height - edge.bottom };
  }

  function lineChart(holder, points, options) {
    const size = { width: holder.clientWidth, height: options.height || 240 };
    const svg = canvas(holder, size.width, size.height, options.name);
    const span = (values) => [Math.min(...values), Math.max(...values)];
    const place = axes(svg, size, options.xRange || span(points.map((p) => p.x)), options.yRange || span(points.map((p) => p.y)), options);
    if (options.diagonal) draw(svg, "path", { class: "diagonal", d: `M${place.x(0)} ${place.y(0)}L${place.x(1)} ${place.y(1)}` });
    const path = (list, value) => list.map((p, i) => `${i ? "L" : "M"}${place.x(p.x)} ${place.y(value(p))}`).join("");
    if (options.band) {
      const upper = path(points, (p) => p.high);
      draw(svg, "path", { class: "band", d: `${upper}${path([...points].reverse(), (p) => p.low).replace("M", "L")}Z` });
    }
    for (const [time, kind] of options.changes || []) {
      draw(svg, "path", { class: `change ${kind}`, d: `M${place.x(time)} ${place.top}V${place.bottom}` });
    }
    if (options.bars) for (const p of points) draw(svg, "path", { class: "bar", d: `M${place.x(p.x)} ${place.y(p.low)}V${place.y(p.high)}` });
    else draw(svg, "path", { class: "line", d: path(points, (p) => p.y) });
    const marks = points.map((p) => ({
      text: p.text, node: draw(svg, "circle", { class: "dot", cx: place.x(p.x), cy: place.y(p.y), r: options.radius || 4 }),
    }));
    explorable(svg, marks, along);
  }

  function histogram(holder, counts) {
    const size = { width: holder.clientWidth, height: 200 };
    const svg = canvas(holder, size.width, size.height, "Certainty of the labels");
    const place = axes(svg, size, [0, 1], [0, Math.max(...counts)], { x: "probability of a label" });
    const marks = counts.map((count, bin) => {
      const [from, to] = [bin / counts.length, (bin + 1) / counts.length];
      const node = draw(svg, "rect", {
        class: "column", x: place.x(from) + 1, width: Math.max(1, place.x(to) - place.x(from) - 2),
        y: place.y(count), height: place.bottom - place.y(count),
      });
      return { node, text: `${counted(count, "label")} between ${from.toFixed(2)} and ${to.toFixed(2)}` };
    });
    explorable(svg, marks, along);
  }

  /** A matrix in colours; rows and columns have the same names unless `heat.columns` has others. */
  function heatMap(holder, heat, name, word) {
    const columns = heat.columns || heat.names;
    const n = columns.length;
    const marginOf = (texts) => Math.min(140, 12 + 6.8 * Math.max(...texts.map((text) => text.length)));
    const [left, top] = [marginOf(heat.names), marginOf(columns)];
    const cell = Math.max(11, Math.min(40, Math.floor((holder.clientWidth - left - 4) / n)));
    const svg = canvas(holder, left + n * cell + 2, top + heat.names.length * cell + 2, name);
    const cut = (text, margin) => {
      const letters = Math.floor((margin - 12) / 6.8);
      return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
    };
    const style = `font-size: ${Math.min(11, cell)}px`;
    heat.names.forEach((text, i) => {
      draw(svg, "text", { x: left - 6, y: top + (i + .5) * cell + 4, "text-anchor": "end", style }, cut(text, left));
    });
    columns.forEach((text, j) => {
      draw(svg, "text", { transform: `translate(${left + (j + .5) * cell + 4} ${top - 6}) rotate(-90)`, style }, cut(text, top));
    });
    const strength = (value) => (heat.columns ? value * value : Math.min(1, .04 + Math.abs(value)));
    const describe = (value, i, j) => {
      if (heat.columns) return `${heat.names[i]}, ${columns[j]}`;
      return i === j ? heat.names[i] : `${heat.names[i]} and ${heat.names[j]}: ${value === null ? "unknown" : `${word} ${fixed(value)}`}`;
    };
    const marks = [];
    heat.values.forEach((row, i) => row.forEach((value, j) => {
      const node = draw(svg, "rect", {
        x: left + j * cell, y: top + i * cell, width: cell - 1, height: cell - 1,
        class: value === null ? "blank" : value < 0 ? "minus" : "plus",
        "fill-opacity": value === null ? 1 : strength(value).toFixed(2),
      });
      if (value !== null && cell >= 34) {
        const place = { class: strength(value) < .79 ? "cell" : "cell strong", x: left + (j + .5) * cell, y: top + (i + .5) * cell + 4 };
        draw(svg, "text", { ...place, "text-anchor": "middle" }, fixed(value));
      }
      const what = describe(value, i, j);
      marks.push({ node, text: heat.details && (heat.columns || i !== j) ? `${what}\n${heat.details[i][j]}` : what });
    }));
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: n, ArrowUp: -n };
    explorable(svg, marks, (at, key) => at + moves[key]);
  }

  function strongestPairs(heat) {
    const pairs = [];
    heat.values.forEach((row, i) => row.forEach((value, j) => { if (j > i && value !== null) pairs.push([value, i, j]); }));
    pairs.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const items = pairs.slice(0, 5).map(([value, i, j]) => make("li", {},
      make("span", { class: "name" }, heat.names[i]), " and ", make("span", { class: "name" }, heat.names[j]), `: ${fixed(value)}`));
    byId("correlation-list").replaceChildren(make("p", { class: "hint" }, "Strongest correlations:"), make("ul", { class: "findings" }, ...items));
  }

  function calibration() {
    const holder = byId("calibration");
    const chosen = byId("calibration-class").value;
    const curves = (chosen === "" ? data.classes : [data.classes[Number(chosen)]]).map((row) => row.curve).filter((curve) => curve);
    const points = [];
    for (let bin = 0; bin < 10; bin += 1) {
      let [n, predicted, observed] = [0, 0, 0];
      for (const curve of curves) {
        n += curve.count[bin];
        predicted += curve.count[bin] * (curve.predicted[bin] || 0);
        observed += curve.count[bin] * (curve.observed[bin] || 0);
      }
      if (n) points.push({ x: predicted / n, y: observed / n, text: `${counted(n, "label")} with mean prediction ${(predicted / n).toFixed(2)}; mean consensus ${(observed / n).toFixed(2)}` });
    }
    lineChart(holder, points, { name: "Calibration", x: "predicted probability", xRange: [0, 1], yRange: [0, 1], diagonal: true, height: 300, radius: 5 });
  }

  // ---- small charts, one per annotator

  const UNIT = { xRange: [0, 1], yRange: [0, 1] };

  function multiples(id, curves, chart) {
    const holder = byId(id);
    holder.replaceChildren(...curves.map((curve) => make("figure", {}, make("figcaption", { class: "name" }, curve.name), make("div", { class: "chart" }))));
    curves.forEach((curve, i) => chart(holder.children[i].lastChild, curve, curves));
  }

  function qualityChart(holder, curve, all) {
    const points = curve.points.map(([x, y, low, high], i) => ({
      x, y, low, high, text: `${curve.name}, ${curve.dates[i]}\nquality ${y.toFixed(2)} (${low.toFixed(2)} – ${high.toFixed(2)})`,
    }));
    const last = points.length - 1;
    const ends = [[points[0].x, curve.dates[0], "start"], [points[last].x, curve.dates[last], "end"]];
    const xTicks = holder.clientWidth < 16 * curve.dates[0].length ? ends.slice(0, 1) : ends;
    const lowest = Math.min(...all.flatMap((one) => one.points.map((point) => point[2])));
    const yRange = [Math.min(.4, Math.floor(10 * lowest) / 10), 1]; // the same for all
    const options = { x: "", yRange, xTicks, band: true, changes: curve.changes, small: true, height: 150, radius: 2 };
    lineChart(holder, points, { ...options, name: `Quality of ${curve.name} over time` });
  }

  function confidenceChart(holder, curve) {
    const points = curve.points.map(([x, y, n]) => ({
      x, y, text: `${curve.name}: ${counted(n, "vote")} with mean stated probability ${x.toFixed(2)}; mean consensus ${y.toFixed(2)}`,
    }));
    const xTicks = [0, .5, 1].map((value) => [value, short(value), "middle"]);
    const x = `${counted(curve.n_votes, "vote")}, mean gap ${curve.error.toFixed(2)}`;
    lineChart(holder, points, { ...UNIT, name: `Stated probabilities of ${curve.name}`, x, xTicks, diagonal: true, small: true, height: 190, radius: 3 });
  }

  function goldChart(holder, check) {
    const points = check.points.map(([x, y, low, high, n]) => ({
      x, y, low, high, text: `${counted(n, "label")} with mean probability ${x.toFixed(2)}; ${percent(y)} present (${percent(low)} – ${percent(high)})`,
    }));
    lineChart(holder, points, { ...UNIT, name: "Consensus against held-back gold labels", x: "probability of the consensus", diagonal: true, bars: true, height: 300, radius: 5 });
  }

  function iterations(id, values, name, unit) {
    const points = values.map((value, i) => ({ x: i + 1, y: value, text: `${unit} ${i + 1}: ${value.toLocaleString("en")}` }));
    lineChart(byId(id), points, { name, x: unit, whole: true, radius: values.length > 60 ? 2 : 4 });
  }

  function charts() {
    if (data.summary.histogram) histogram(byId("certainty"), data.summary.histogram);
    if (data.gold_check) goldChart(byId("gold-check"), data.gold_check);
    if (data.rates) heatMap(byId("rates"), data.rates, "Sensitivity by class", "sensitivity");
    if (data.quality_curves.length) multiples("quality-curves", data.quality_curves, qualityChart);
    if (data.confidence_curves.length) multiples("confidence-curves", data.confidence_curves, confidenceChart);
    if (data.agreement) heatMap(byId("agreement"), data.agreement, "Agreement between annotators", "kappa");
    if (data.correlation) heatMap(byId("correlation"), data.correlation, "Correlation between classes", "correlation");
    if (byId("calibration")) calibration();
    if (data.fit.bounds.length) iterations("bound", data.fit.bounds, "Lower bound of the topics", "iteration");
    if (byId("held-out")) iterations("held-out", data.fit.vote_log_likelihoods, "Log-likelihood of held-out votes", "round");
  }

  // ---- tables: sorting by column, filtering by text

  function valueOf(row, key) {
    const cell = row.querySelector(`[data-key="${key}"]`);
    return cell.dataset.value ?? cell.textContent;
  }

  function sortable(table) {
    const body = table.tBodies[0];
    for (const button of table.querySelectorAll("button.sort")) {
      button.addEventListener("click", () => {
        const heading = button.closest("th");
        const isText = heading.classList.contains("letters");
        const before = heading.getAttribute("aria-sort");
        const falling = before === null ? !isText : before === "ascending";
        for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const keyed = [...body.rows].map((row) => ({ row, text: valueOf(row, button.dataset.key) }));
        keyed.sort((a, b) => {
          if (!isText && (a.text === "") !== (b.text === "")) return a.text === "" ? 1 : -1; // unknown values come last
          const order = isText ? a.text.localeCompare(b.text, "en", { numeric: true }) : Number(a.text) - Number(b.text);
          return falling ? -order : order;
        });
        body.append(...keyed.map((entry) => entry.row));
      });
    }
  }

  function filterAnnotators() {
    const query = byId("annotator-search").value.trim().toLowerCase();
    const verdict = byId("annotator-verdict").value;
    const rows = byId("annotator-table").tBodies[0].rows;
    let n = 0;
    for (const row of rows) {
      const isShown = valueOf(row, "name").toLowerCase().includes(query) && (!verdict || valueOf(row, "verdict") === verdict);
      row.hidden = !isShown;
      n += isShown ? 1 : 0;
    }
    byId("annotator-count").textContent = `${n} of ${counted(rows.length, "annotator")}`;
  }

  // ---- topics

  function wordList(words, side) {
    const max = Math.max(...words.map(([, strength]) => strength), 1e-9);
    return make("ul", { class: "words" }, ...words.map(([word, strength, rate]) => {
      const bar = make("span", { class: `meter ${side}`, "aria-hidden": "true" }, make("span"));
      bar.firstChild.style.width = percent(strength / max, 1);
      const times = Math.exp(strength);
      return make("li", { title: `evidence ${strength.toFixed(2)} nats; ${percent(rate, 2)} of the words` },
        make("span", { class: "name" }, data.vocabulary[word]), bar, make("span", { class: "number" }, `${times >= 1000 ? ">1000" : times.toFixed(1)} ×`));
    }));
  }

  function topicList(shares) {
    return make("ul", { class: "findings hint" }, ...shares.map(([topic, share]) => make("li", {},
      `${percent(share)} topic ${topic}: ${data.topics[topic].words.slice(0, 7).map((pair) => pair[0]).join(", ")}`)));
  }

  function showTopics() {
    const position = Number(byId("topic-class").value);
    const states = data.class_topics[position];
    if (!states) return;
    const name = data.classes[position].name;
    const half = (state, words, shares, side) => make("div", {},
      make("h3", {}, make("span", { class: "name" }, name), ` ${state}: characteristic words`),
      words.length ? wordList(words, side) : make("p", { class: "hint" }, "No word is more frequent here."),
      make("h3", {}, "Topics"), topicList(shares));
    byId("topic-view").replaceChildren(
      half("present", states.present, states.present_topics, "plus"), half("absent", states.absent, states.absent_topics, "minus"));
  }

  // ---- documents

  function voteLine(text, side, voters) {
    if (!voters.length) return null;
    const chips = voters.map((voter) => {
      const [name, quality] = data.documents.voters[voter];
      return make("span", { class: "chip" }, quality === null ? name : `${name} ${quality.toFixed(2)}`);
    });
    return make("p", {}, make("strong", { class: side }, text), " ", ...chips);
  }

  function wordLine(text, side, pairs) {
    if (!pairs.length) return null;
    const chips = pairs.map(([word, nats]) => make("span", { class: "chip" }, `${word} ${signed(nats)}`));
    return make("p", {}, make("strong", { class: side }, text), " ", ...chips);
  }

  function labelBlock(label) {
    const bar = make("span", { class: "meter", "aria-hidden": "true" }, make("span"));
    bar.firstChild.style.width = percent(label.prob, 1);
    return make("div", { class: "label" },
      make("h3", {}, make("span", { class: "name" }, data.class_names[label.label]), make("span", {}, bar, ` ${percent(label.prob)}`)),
      voteLine("Votes for present:", "for", label.yes), voteLine("Votes for absent:", "against", label.no),
      wordLine("Words for the label:", "for", label.words.pro), wordLine("Words against the label:", "against", label.words.con),
      wordLine("Features:", "features", label.words.features),
      label.words.rest === null ? null : make("p", { class: "hint" }, `All other evidence: ${signed(label.words.rest)} nats`));
  }

  function documentItem(entry) {
    const present = entry.labels.filter((label) => label.prob >= .5).map((label) => data.class_names[label.label]);
    const facts = [`${entry.expected_errors.toFixed(2)} expected label errors`];
    if (entry.disagreement !== null) facts.unshift(`${percent(entry.disagreement)} of votes against the majority`);
    const start = (entry.text || "").slice(0, 200).trim();
    const item = make("details", {}, make("summary", {},
      make("span", { class: "name" }, entry.id), make("span", {}, present.join(", ") || "no label"), make("span", { class: "facts" }, facts.join(" · ")),
      start ? make("span", { class: "start", dir: "auto" }, start) : null));
    item.addEventListener("toggle", () => {
      if (!item.open || item.children.length > 1) return;
      item.append(make("div", { class: "inside" },
        entry.text === null ? null : make("p", { class: "text", dir: "auto", tabindex: 0, role: "region", "aria-label": "Text of the document" }, entry.text),
        ...entry.labels.map(labelBlock)));
    });
    return make("li", {}, item);
  }

  let documentsShown = PAGE_SIZE;

  function showDocuments() {
    const all = data.documents.shown;
    const words = byId("document-search").value.toLowerCase().split(/\s+/).filter((word) => word);
    const order = byId("document-order").value;
    const chosen = byId("document-class").value;
    const isUncertain = (entry) => chosen === "" || entry.labels.some((label) => label.label === Number(chosen) && label.prob > .05 && label.prob < .95);
    const hasWords = (entry) => {
      const text = [entry.id, entry.text || "", ...entry.labels.filter((label) => label.prob >= .5).map((label) => data.class_names[label.label])].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const matches = all.filter((entry) => isUncertain(entry) && hasWords(entry)).sort((a, b) => (b[order] ?? -1) - (a[order] ?? -1) || b.expected_errors - a.expected_errors);
    byId("document-list").replaceChildren(...matches.slice(0, documentsShown).map(documentItem));
    byId("document-count").textContent = `${matches.length} of ${counted(all.length, "document")}`;
    byId("document-more").hidden = matches.length <= documentsShown;
  }

  function searchDocuments() { documentsShown = PAGE_SIZE; showDocuments(); }

  // ---- start

  document.querySelectorAll("table.sortable").forEach(sortable);
  if (data.has_crowd) {
    byId("annotator-search").addEventListener("input", filterAnnotators);
    byId("annotator-verdict").addEventListener("change", filterAnnotators);
    filterAnnotators();
  }
  if (byId("topic-class")) {
    byId("topic-class").addEventListener("change", showTopics);
    showTopics();
  }
  if (data.documents) {
    byId("document-search").addEventListener("input", searchDocuments);
    byId("document-order").addEventListener("change", searchDocuments);
    byId("document-class").addEventListener("change", searchDocuments);
    byId("document-more").addEventListener("click", () => { documentsShown += PAGE_SIZE; showDocuments(); });
    showDocuments();
  }
  if (byId("calibration-class")) byId("calibration-class").addEventListener("change", calibration);
  if (data.correlation) strongestPairs(data.correlation);
  charts();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(charts); } });
  addEventListener("scroll", hideTip, { passive: true });
})();
