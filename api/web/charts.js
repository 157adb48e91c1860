// Charts as SVG, drawn anew in pixels whenever their width or their figures change, so that text keeps
// its size. Each can be read with the pointer, and by keyboard: focus it, then the arrow keys.
import { h, svg } from "./dom.js";
import * as f from "./format.js";

const top = 8, right = 10, bottom = 20, letter = 6.4; // pixels; letter is the width of one in labels

// ticks gives about n round numbers from low to high, both ends within them.
export function ticks(low, high, n) {
  if (high <= low) high = low + 1;
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const out = [];
  for (let i = Math.floor(low / step + 1e-9); ; i++) {
    out.push(i * step);
    if (i * step >= high - step * 1e-9) return out;
  }
}

// frame is what all charts have: a title with a legend, the drawing, and a box that says what is under
// the pointer. draw(width, height) gives {label, parts, marks}: marks are the places that can be read,
// {x, y: [...], text: [...]}.
function frame(title, height, draw) {
  const legend = h("span", { class: "legend" });
  const drawing = svg("svg", { class: "plot", role: "img", tabindex: 0, height });
  const cursor = svg("g", { class: "cursor", "aria-hidden": "true" });
  const tip = h("div", { class: "tip", hidden: true });
  const element = h("figure", { class: "chart" }, h("figcaption", null, h("span", { class: "name" }, title), legend),
    h("div", { class: "canvas" }, drawing, tip));
  let marks = [], at = -1, width = 0;

  function redraw() {
    if (width < 40) return;
    const made = draw(width, height);
    marks = made.marks;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawing.setAttribute("aria-label", `${title}: ${made.label}`);
    drawing.replaceChildren(...made.parts, cursor);
    if (at >= marks.length) at = marks.length - 1;
    point(at, false);
  }
  function point(i, aloud) {
    at = i;
    cursor.replaceChildren();
    tip.hidden = i < 0;
    if (i < 0) return;
    const m = marks[i];
    cursor.append(svg("line", { x1: m.x, x2: m.x, y1: top, y2: height - bottom }));
    m.y.forEach((y, k) => y !== null && cursor.append(svg("circle", { cx: m.x, cy: y, r: 3.5, class: m.class[k] })));
    tip.setAttribute("aria-live", aloud ? "polite" : "off");
    tip.replaceChildren(...m.text.map((t) => h("div", null, t)));
    const box = tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(width - box, m.x > width / 2 ? m.x - box - 10 : m.x + 10))}px`;
  }
  drawing.addEventListener("pointermove", (e) => {
    const x = e.clientX - drawing.getBoundingClientRect().left;
    let best = -1;
    marks.forEach((m, i) => { if (best < 0 || Math.abs(m.x - x) < Math.abs(marks[best].x - x)) best = i; });
    point(best, false);
  });
  drawing.addEventListener("pointerleave", () => point(-1, false));
  drawing.addEventListener("blur", () => point(-1, false));
  drawing.addEventListener("keydown", (e) => {
    const last = marks.length - 1;
    const to = { ArrowLeft: at < 0 ? last : Math.max(0, at - 1), ArrowRight: at < 0 ? 0 : Math.min(last, at + 1), Home: 0, End: last, Escape: -1 }[e.key];
    if (to === undefined || last < 0 || (e.key === "Escape" && at < 0)) return;
    e.preventDefault();
    e.stopPropagation();
    point(to, true);
  });
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now === width) return;
    width = now;
    redraw();
  }).observe(drawing);
  return { element, legend, redraw };
}

// grid draws the horizontal lines with their labels.
function grid(width, left, marks, y, format) {
  return marks.map((v) => svg("g", { class: "grid" },
    svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v) }),
    svg("text", { x: left - 6, y: y(v) + 3.5, "text-anchor": "end" }, format(v))));
}

// binary gives round numbers of KiB, MiB, ... in the same way.
function binaryTicks(low, high, n) {
  const unit = 1024 ** Math.floor(Math.log(Math.max(high, 1)) / Math.log(1024));
  return ticks(low / unit, high / unit, n).map((v) => v * unit);
}

// lineChart shows figures over time. lines are {name, class}; a figure of null is a gap. The scale
// begins at 0 and goes to least at the least; where least is null it is from the lowest figure to the
// highest. format writes a figure, tick one at the axis; binary figures have units of 1,024.
export function lineChart({ title, lines, format, tick = format, least = null, binary = false, height = 116 }) {
  const zero = least !== null;
  let times = [], columns = lines.map(() => []), span = 600, step = 1;
  const chart = frame(title, height, (width, height) => {
    const now = times.length ? times[times.length - 1] : Date.now() / 1000;
    const shown = columns.flat().filter((v) => v !== null);
    const high = shown.length ? Math.max(...shown) : least ?? 0;
    const low = zero || !shown.length ? 0 : Math.min(...shown);
    const scale = (binary ? binaryTicks : ticks)(low, Math.max(high, least ?? low), 2);
    if (!zero && low === high) scale.splice(0, scale.length, low - 1, low, low + 1);
    const left = 12 + letter * Math.max(...scale.map((v) => tick(v).length));
    const y0 = scale[0], y1 = scale[scale.length - 1];
    const x = (t) => left + ((t - (now - span)) / span) * (width - left - right);
    const y = (v) => height - bottom - ((v - y0) / (y1 - y0)) * (height - bottom - top);
    const parts = grid(width, left, scale, y, tick);
    const from = span === 600 ? ["−10 min", "−5", "now"] : ["−24 h", "−12", "now"];
    from.forEach((text, i) => parts.push(svg("text", {
      class: "tick", x: x(now - span + (i * span) / 2), y: height - 5, "text-anchor": ["start", "middle", "end"][i],
    }, text)));
    columns.forEach((values, k) => {
      let d = "", before = -1;
      values.forEach((v, i) => {
        if (v === null || times[i] < now - span) return;
        const joins = before >= 0 && i === before + 1 && times[i] - times[before] < 3 * step;
        d += `${joins ? "L" : "M"}${x(times[i]).toFixed(1)} ${y(v).toFixed(1)}${joins ? "" : "h0"}`;
        before = i;
      });
      parts.push(svg("path", { class: `line ${lines[k].class}`, d }));
    });
    const marks = times.map((t, i) => ({
      x: x(t), y: columns.map((c) => (c[i] === null ? null : y(c[i]))), class: lines.map((l) => l.class),
      text: [f.clock(t, step < 60), ...lines.map((l, k) => `${lines.length > 1 ? l.name + " " : ""}${format(columns[k][i])}`)],
    })).filter((m) => m.x >= left - 0.5);
    const latest = lines.map((l, k) => `${l.name} ${format(columns[k][times.length - 1])}`).join(", ");
    return { parts, marks, label: `${latest} now; the last ${span === 600 ? "10 minutes" : "24 hours"} from ${format(shown.length ? low : null)} to ${format(shown.length ? high : null)}` };
  });
  return {
    element: chart.element,
    // update takes Unix seconds and a column of figures for each line.
    update(newTimes, newColumns, newSpan, newStep) {
      times = newTimes, columns = newColumns, span = newSpan, step = newStep;
      const i = times.length - 1;
      chart.legend.replaceChildren(...lines.map((l, k) => h("span", null, lines.length > 1 && h("i", { class: `swatch ${l.class}` }),
        lines.length > 1 && l.name + " ", h("b", null, i < 0 ? f.none : format(columns[k][i])))));
      chart.redraw();
    },
  };
}

// lengthChart shows numbers of prefixes by their length, on a scale of powers of ten: those that are
// few are the ones to look at.
export function lengthChart({ title, first, last, every, colour, height = 190 }) {
  let counts = [];
  const chart = frame(title, height, (width, height) => {
    const used = counts.map((n, i) => (n > 0 ? i : -1)).filter((i) => i >= 0);
    const from = Math.min(first, ...used), to = Math.max(last, ...used);
    const all = counts.reduce((a, n) => a + n, 0), most = Math.max(1, ...counts);
    const powers = Math.max(1, Math.ceil(Math.log10(most) - 1e-9));
    const scale = Array.from({ length: powers + 1 }, (_, i) => 10 ** i);
    const left = 12 + letter * Math.max(...scale.map((v) => f.short(v).length));
    const ground = height - bottom, foot = 6; // one prefix is a bar that can be seen
    const y = (n) => ground - foot - (Math.log10(n) / powers) * (ground - foot - top);
    const slot = (width - left - right) / (to - from + 1);
    const x = (i) => left + (i - from) * slot;
    const parts = grid(width, left, scale, y, f.short);
    const marks = [];
    for (let i = from; i <= to; i++) {
      const n = counts[i] || 0;
      if (n > 0) parts.push(svg("rect", { class: `bar ${colour}`, x: x(i) + slot * 0.12, width: slot * 0.76, y: y(n), height: ground - y(n) }));
      if (i % every === 0) parts.push(svg("text", { class: "tick", x: x(i) + slot / 2, y: height - 5, "text-anchor": "middle" }, `/${i}`));
      if (n > 0) marks.push({ x: x(i) + slot / 2, y: [y(n)], class: [colour], text: [`/${i}`, `${f.plural(n, "prefix", "prefixes")}`, f.percent(n, all)] });
    }
    parts.push(svg("line", { class: "axis", x1: left, x2: width - right, y1: ground, y2: ground }));
    const best = counts.indexOf(most);
    return { parts, marks, label: all ? `${f.plural(all, "prefix", "prefixes")}, most of them /${best}: ${f.count(most)}, ${f.percent(most, all)}` : "no prefixes" };
  });
  return {
    element: chart.element,
    update(newCounts) {
      counts = newCounts;
      const all = counts.reduce((a, n) => a + n, 0), most = Math.max(0, ...counts);
      chart.legend.replaceChildren(all ? h("span", null, h("b", null, f.count(all)), `, ${f.percent(most, all)} of them /${counts.indexOf(most)}`) : f.none);
      chart.redraw();
    },
  };
}
