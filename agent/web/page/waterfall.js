// A turn's rows as bars on one axis (0 is the end of speech), as a strip, and as a table.

import { element } from "./dom.js";

const BEFORE = 0.12; // the axis' share before 0, and its extent beyond the last that counts
const AFTER = 0.04;
const TICKS_MS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000];
const FEWEST_TICKS = 3;
const LEAST_S = 0.00005; // what is shown as 0.1 ms
const WAITS = ["wait", "queue"];
const OURS = ["host", "queue", "unattributed"];

// Rows of one name belong on one line: [{ name, label, group, bars, onPath_s, hidden_s }], in order of appearance.
export function lines(turn) {
  const byName = new Map();
  for (const row of turn.rows) {
    if (!byName.has(row.name)) {
      const { name, label } = row;
      byName.set(name, { name, label, group: groupOf(row), bars: [], onPath_s: 0, hidden_s: 0 });
    }
    const line = byName.get(row.name);
    line.bars.push(...barsOf(row));
    line.onPath_s += row.on_path_s;
    const until_s = Math.min(row.end_s, turn.latency_s ?? row.end_s);
    if (row.kind !== "network") line.hidden_s += Math.max(0, until_s - row.start_s - row.on_path_s);
  }
  return [...byName.values()];
}

export function chart(turn) {
  const axis = axisOf(turn);
  const inView = (bar) => bar.end_s > axis.from_s && bar.start_s < axis.to_s;
  const rows = element("div", { class: "rows" }, ticks(axis));
  for (const line of lines(turn).filter((line) => line.bars.some(inView))) {
    const track = element("div", { class: "track" });
    for (const bar of line.bars) {
      const [left, right] = [axis.share(bar.start_s), axis.share(bar.end_s)];
      if (right <= 0 || left >= 1) continue;
      const style = { left: percent(Math.max(0, left)), width: percent(Math.min(1, right) - Math.max(0, left)) };
      track.append(element("div", { class: "bar", "data-shows": bar.shows, style, title: bar.title }));
    }
    const onPath = line.onPath_s > 0;
    const row = element("div", { class: "row", "data-group": line.group, "data-name": line.name });
    row.append(element("span", { class: "label", title: line.label }, line.label), track);
    row.append(element("span", { class: onPath ? "ms" : "ms none" }, ms(onPath ? line.onPath_s : line.hidden_s)));
    rows.append(row);
  }
  const marks = element("div", {});
  for (const at_s of turn.latency_s === null ? [0] : [0, turn.latency_s]) {
    marks.append(element("i", { class: "mark", style: { left: percent(axis.share(at_s)) } }));
  }
  rows.append(element("div", { class: "marks" }, marks));
  return element("div", { class: "chart", "aria-hidden": "true" }, rows, ends(turn, axis), legend(turn));
}

// The path as one bar, `share` (0..1) of the width: turns can be compared by length.
export function strip(turn) {
  const made = element("div", { class: "strip", "aria-hidden": "true" });
  for (const line of lines(turn).filter((line) => line.onPath_s > 0 && line.group !== "heard")) {
    const shows = line.bars.find((bar) => bar.shows !== "hidden")?.shows ?? "work";
    const title = `${line.label} ${ms(line.onPath_s)} ms`;
    const style = { "flex-grow": `${line.onPath_s}` };
    made.append(element("i", { "data-group": line.group, "data-shows": shows, style, title }));
  }
  return made;
}

// What the chart shows, in numbers; the figures of the path sum to the latency as it is shown.
export function table(turn) {
  const all = lines(turn).filter((line) => line.group !== "heard");
  const path = tenths(all.map((line) => line.onPath_s));
  const cell = (seconds) => element("td", {}, seconds >= LEAST_S ? (seconds * 1000).toFixed(1) : "");
  const row = (name, label, ...cells) =>
    element("tr", { "data-name": name }, element("th", { scope: "row" }, label), ...cells);
  const columns = ["part", "waited, ms", "hidden, ms"].map((name) => element("th", { scope: "col" }, name));
  const body = element("tbody", {});
  all.forEach((line, i) => {
    if (line.onPath_s <= 0 && line.hidden_s < LEAST_S) return;
    body.append(row(line.name, line.label, cell(path[i]), cell(line.hidden_s)));
  });
  const foot = element("tfoot", {});
  if (turn.latency_s !== null) foot.append(row("latency", "first sound left", cell(turn.latency_s), cell(0)));
  if (turn.heard_after_s !== null) {
    const error = turn.heard_error_s === null ? "" : `, ± ${(turn.heard_error_s * 1000).toFixed(1)}`;
    const note = turn.rows.find((row) => row.kind === "network")?.note;
    const label = `heard here${error}${note ? ` (${note})` : ""}`;
    foot.append(row("heard", label, cell(turn.heard_after_s), cell(0)));
  }
  return element("table", {}, element("thead", {}, element("tr", {}, ...columns)), body, foot);
}

export const ms = (seconds) => Math.round(seconds * 1000).toLocaleString("en");
export const signed = (seconds) => (seconds < 0 ? "−" : "+") + ms(Math.abs(seconds));

function groupOf(row) {
  if (row.kind === "network") return "heard";
  return OURS.includes(row.kind) ? "ours" : row.name.split(".")[0];
}

// The path charges a step from its start, or from the end of speech, to where the next one takes over.
function barsOf(row) {
  const title = `${row.label}: ${ms(row.end_s - row.start_s)} ms${row.note ? `, ${row.note}` : ""}`;
  const bar = (start_s, end_s, shows) => ({ start_s, end_s, shows, title });
  if (row.kind === "network") return [bar(row.start_s, row.end_s, "heard")];
  const from_s = Math.max(0, row.start_s);
  const to_s = Math.min(row.end_s, from_s + row.on_path_s);
  if (row.on_path_s <= 0) return [bar(row.start_s, row.end_s, "hidden")];
  const waited = bar(from_s, to_s, WAITS.includes(row.kind) ? "wait" : "work");
  const parts = [bar(row.start_s, from_s, "hidden"), waited, bar(to_s, row.end_s, "hidden")];
  return parts.filter((part) => part.end_s - part.start_s > 1e-6);
}

function axisOf(turn) {
  const ends = turn.rows.map((row) => row.end_s);
  const last_s = Math.max(0.001, turn.heard_after_s ?? turn.latency_s ?? Math.max(...ends, 0.1));
  const to_s = last_s * (1 + AFTER);
  const from_s = (-to_s * BEFORE) / (1 - BEFORE);
  return { from_s, to_s, share: (at_s) => (at_s - from_s) / (to_s - from_s) };
}

function ticks(axis) {
  const step_ms = TICKS_MS.findLast((tick) => (axis.to_s * 1000) / tick >= FEWEST_TICKS) ?? TICKS_MS[0];
  const track = element("div", { class: "track" });
  for (let at_ms = 0; at_ms <= axis.to_s * 1000; at_ms += step_ms) {
    const share = axis.share(at_ms / 1000);
    const place = share > 0.975 ? "tick last" : "tick";
    track.append(element("span", { class: place, style: { left: percent(share) } }, at_ms.toLocaleString("en")));
  }
  const unit = element("span", { class: "ms none" }, "ms");
  return element("div", { class: "row ticks" }, element("span", { class: "label" }), track, unit);
}

function ends(turn, axis) {
  const track = element("div", { class: "track" });
  track.append(element("span", { class: "tick", style: { left: percent(axis.share(0)) } }, "last word"));
  if (turn.latency_s !== null) {
    const left = percent(axis.share(turn.latency_s));
    track.append(element("span", { class: "tick last", style: { left } }, "first sound"));
  }
  return element("div", { class: "row ends" }, element("span", {}), track, element("span", {}));
}

function legend(turn) {
  const keys = { work: "work you waited for", wait: "a wait", hidden: "hidden, delayed nothing" };
  if (turn.heard_after_s !== null) keys.heard = "until you heard it";
  const items = Object.entries(keys).map(([shows, text]) => {
    return element("li", {}, element("i", { class: "key", "data-shows": shows }), text);
  });
  return element("ul", { class: "legend" }, ...items);
}

// Rounded to tenths of a millisecond so that they sum to the rounded sum (largest remainder).
function tenths(seconds) {
  const exact = seconds.map((value) => value * 10_000);
  const whole = exact.map(Math.floor);
  const missing = Math.round(exact.reduce((a, b) => a + b, 0)) - whole.reduce((a, b) => a + b, 0);
  const byRemainder = exact.map((_, i) => i).sort((a, b) => exact[b] - whole[b] - (exact[a] - whole[a]));
  for (const i of byRemainder.slice(0, missing)) whole[i]++;
  return whole.map((value) => value / 10_000);
}

const percent = (share) => `${(100 * share).toFixed(3)}%`;
