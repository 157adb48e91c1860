// How the table and the service are now and were: one small request a second. A stream from the
// service would be held up by proxies, take one of a browser's few connections and hold a shutdown up;
// this needs nothing to recover.
import { byId } from "./dom.js";
import { ask } from "./ask.js";
import { lineChart } from "./charts.js";
import * as f from "./format.js";

const spans = { "10m": { seconds: 600, step: 1 }, "24h": { seconds: 86400, step: 60 } };

const charts = [
  { of: "of_table", keys: ["ipv4_routes"], title: "IPv4 routes", lines: [{ name: "IPv4", class: "v4" }], format: f.count },
  { of: "of_table", keys: ["ipv6_routes"], title: "IPv6 routes", lines: [{ name: "IPv6", class: "v6" }], format: f.count },
  { of: "of_table", keys: ["updates_per_second"], title: "Updates", lines: [{ name: "updates", class: "c1" }], format: f.perSecond, tick: f.short, least: 1 },
  { of: "of_service", keys: ["lookups_per_second"], title: "Lookups", lines: [{ name: "lookups", class: "c1" }], format: f.perSecond, tick: f.short, least: 1 },
  { of: "of_service", keys: ["p50_seconds", "p99_seconds"], title: "Latency", lines: [{ name: "p50", class: "c1" }, { name: "p99", class: "c2" }], format: f.duration, least: 1e-5 },
  { of: "of_table", keys: ["build_seconds"], title: "Build time", lines: [{ name: "build", class: "c1" }], format: f.duration, least: 1e-3 },
  { of: "of_table", keys: ["age_seconds"], title: "Generation age", lines: [{ name: "age", class: "c1" }], format: f.duration, least: 1 },
  { of: "of_service", keys: ["memory_bytes"], title: "Memory of the process", lines: [{ name: "memory", class: "c1" }], format: f.bytes, least: 1, binary: true },
];

// liveCharts makes the charts. show(table) has them begin anew, read gives the newest answer.
export function liveCharts() {
  const made = charts.map((c) => ({ ...c, chart: lineChart(c) }));
  byId("live").append(...made.map((c) => c.chart.element));
  let span = "10m", table = "", parts = {}, started = "";
  const buttons = [...document.querySelectorAll("[data-span]")];
  for (const b of buttons) {
    b.addEventListener("click", () => {
      span = b.dataset.span;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === b));
      parts = {};
      draw();
    });
  }

  // join puts what is new behind what is there, and forgets what is too old.
  function join(of, columns) {
    const old = parts[of];
    if (!old) {
      parts[of] = columns;
      return;
    }
    const most = spans[span].seconds / spans[span].step;
    const end = old.time.at(-1) ?? 0;
    const from = columns.time.findIndex((t) => t > end);
    if (from < 0) return;
    for (const name of Object.keys(columns)) old[name] = old[name].concat(columns[name].slice(from)).slice(-most);
  }

  function draw() {
    for (const c of made) {
      const columns = parts[c.of] || { time: [] };
      c.chart.update(columns.time, c.keys.map((k) => columns[k] || []), spans[span].seconds, spans[span].step);
    }
  }

  return {
    async read(of) {
      if (of !== table) {
        parts = {};
        table = of;
      }
      const asked = span;
      const ends = ["of_table", "of_service"].map((p) => parts[p] && parts[p].time.at(-1)).filter((t) => t !== undefined);
      const answer = await ask("api/v1/series", { table, span, since: ends.length === 2 ? Math.min(...ends) : "" });
      if (asked !== span || of !== table) return answer; // another one is wanted by now
      if (started !== answer.started) parts = {}; // another process: its figures are its own
      const whole = started !== answer.started && ends.length > 0;
      started = answer.started;
      if (!whole) {
        for (const p of ["of_table", "of_service"]) join(p, answer[p]);
        draw();
      }
      return answer;
    },
  };
}
