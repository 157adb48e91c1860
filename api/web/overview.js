// What the table looks like: lengths of its prefixes, who originates them, what it takes of memory.
import { byId, fill, h, svg } from "./dom.js";
import { ask } from "./ask.js";
import { lengthChart } from "./charts.js";
import { hashOf } from "./query.js";
import * as f from "./format.js";

const originsShown = 15;

// overview makes the charts; read asks for the newest figures.
export function overview() {
  const v4 = lengthChart({ title: "IPv4 prefixes by length", first: 8, last: 32, every: 4, colour: "v4" });
  const v6 = lengthChart({ title: "IPv6 prefixes by length", first: 16, last: 64, every: 8, colour: "v6" });
  byId("lengths").append(v4.element, v6.element);
  let drawn = "";
  return {
    // publisher is how changes become generations, as the series have it.
    async read(table, publisher) {
      const s = await ask("api/v1/stats", { table });
      fill(byId("memory"), engine(s, publisher));
      const version = `${table} ${s.generation} ${s.created}`;
      if (version === drawn) return;
      drawn = version;
      byId("stats-of").textContent = `generation ${f.count(s.generation)}, from ${s.source || "no source"}`;
      v4.update(s.prefix_lengths.ipv4);
      v6.update(s.prefix_lengths.ipv6);
      fill(byId("origins"), origins(s, table));
    },
    // clear is for a table that has no generation yet.
    clear(why) {
      drawn = "";
      byId("stats-of").textContent = why;
      v4.update([]);
      v6.update([]);
      fill(byId("origins"));
      fill(byId("memory"));
    },
  };
}

function origins(s, table) {
  const top = s.top_origins.slice(0, originsShown);
  const most = Math.max(1, ...top.map((o) => o.ipv4 + o.ipv6));
  const part = (n) => `${((100 * n) / most).toFixed(2)}%`;
  return [
    h("h3", null, "Top origin ASes ", h("small", { class: "soft" }, `of ${f.count(s.origin_count.ipv4)} with IPv4, ${f.count(s.origin_count.ipv6)} with IPv6 prefixes`)),
    top.length ? h("table", { class: "bars" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "AS"), h("td"), ["v4", "v6"].map((c) =>
        h("th", { scope: "col", class: "number" }, h("i", { class: `swatch ${c}` }), `IP${c}`)))),
      h("tbody", null, top.map((o) => h("tr", { title: `AS${o.as}: ${f.count(o.ipv4)} IPv4 and ${f.count(o.ipv6)} IPv6 prefixes` },
        h("th", { scope: "row" }, h("a", { href: hashOf(`AS${o.as}`, table) }, `AS${o.as}`)),
        h("td", { class: "bar-cell" }, svg("svg", { height: 12, width: "100%", "aria-hidden": "true" },
          svg("rect", { class: "bar v4", width: part(o.ipv4), height: 12 }),
          svg("rect", { class: "bar v6", x: part(o.ipv4), width: part(o.ipv6), height: 12 }))),
        h("td", { class: "number" }, f.count(o.ipv4)), h("td", { class: "number" }, f.count(o.ipv6)))))) : h("p", { class: "soft" }, "No route has an origin."),
  ];
}

const partNames = { ipv4: "IPv4 tree", ipv6: "IPv6 tree", exact: "index of prefixes" };

function engine(s, publisher) {
  const row = (name, value, note) => h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "number" }, value), h("td", { class: "soft" }, note || ""));
  const m = s.memory, gpu = m.accelerated, p = publisher;
  return [
    h("h3", null, "Engine and memory"),
    h("table", { class: "plain" }, h("tbody", null,
      row("Engine", s.engine),
      m.parts.map((part) => row(partNames[part.name] || part.name, f.bytes(part.bytes))),
      row("Table on the processor", f.bytes(m.total_bytes), "of this generation"),
      gpu && row("Table on each GPU", f.bytes(gpu.bytes_per_gpu), "of this generation"),
      s.gpus.map((g, i) => row(`GPU ${i}`, f.bytes(g.memory_bytes), g.name + (gpu ? `, of which this generation takes ${f.percent(gpu.bytes_per_gpu, g.memory_bytes)}` : ""))),
      !gpu && !s.gpus.length && row("GPU", "none", "the processor answers all batches"))),
    p && h("h3", null, "Publisher"),
    p && h("table", { class: "plain" }, h("tbody", null,
      row("Generations published", f.count(p.generations)),
      row("Routes changed", f.count(p.changes), `${f.count(p.last_changes)} in the newest generation`),
      row("Changes that wait", f.count(p.pending)),
      row("Last change visible after", p.last_changes ? f.duration(p.last_latency_seconds) : f.none),
      row("Failed builds", f.count(p.failures), p.failures ? "the generation before stays; the log says why" : ""))),
  ];
}
