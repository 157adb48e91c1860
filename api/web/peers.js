// Where routes come from, those with trouble first.
import { byId, fill, h, table as tableOf } from "./dom.js";
import { ask } from "./ask.js";
import { hashOf } from "./query.js";
import * as f from "./format.js";
import * as words from "./words.js";

const heads = ["Peer", "State", "For", "IPv4", "IPv6", "Rejected", "Stale", "Updates", "Remarks"];
const shown = 100; // of a router that mirrors a thousand

export function peers() {
  let all = false, drawn = "";
  const view = {
    async read(table) {
      const { peers } = await ask("api/v1/peers", { table });
      const text = JSON.stringify(peers) + all + table + Math.floor(Date.now() / 30_000); // times go on
      if (text === drawn) return;
      drawn = text;
      peers.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name, "en", { numeric: true }));
      const states = {};
      for (const p of peers) states[p.state] = (states[p.state] || 0) + 1;
      byId("peers-summary").textContent = peers.length ? Object.entries(states).map(([s, n]) => `${f.count(n)} ${s}`).join(", ") : "";
      const rows = all ? peers : peers.slice(0, shown);
      fill(byId("peers"),
        peers.length ? tableOf(heads, rows.map((p) => row(p, table)), { numbers: [3, 4, 5, 6, 7] })
          : h("p", { class: "soft" }, "There is none: no route comes in."),
        rows.length < peers.length && h("button", { type: "button", "data-key": "all-peers", onclick: () => { all = true; view.read(table).catch(() => {}); } }, `Show all ${f.count(peers.length)}`));
    },
  };
  return view;
}

const rank = (p) => (words.states[p.state] || { rank: 0 }).rank;

const sum = (o) => Object.values(o).reduce((a, n) => a + n, 0);

function row(p, table) {
  const stale = p.stale ? p.stale.ipv4 + p.stale.ipv6 : 0;
  const said = remarks(p);
  return [
    h("th", { scope: "row" }, h("a", { href: hashOf(`peer:${p.name}`, table) }, p.name),
      h("small", { class: "soft" }, ` ${p.kind}${p.as ? ` AS${p.as}` : ""}${p.addr && p.addr !== p.name ? ` ${p.addr}` : ""}`)),
    h("span", { class: `state ${(words.states[p.state] || { tone: "warn" }).tone}` }, h("span", { class: "dot" }), " ", p.state),
    f.since(p.since),
    f.count(p.routes.ipv4), f.count(p.routes.ipv6),
    p.rejected ? f.count(sum(p.rejected)) : "0", f.count(stale), f.count(p.updates),
    h("td", { class: said.length ? "remarks" : "remarks none" }, said.map((r) => h("div", null, r))),
  ];
}

// remarks say what a number cannot.
function remarks(p) {
  const out = [];
  if (p.last_error) out.push(p.last_error);
  if (p.rejected) out.push("rejected: " + Object.entries(p.rejected).map(([why, n]) => `${f.count(n)} ${words.rejectWords(why)}`).join(", "));
  if (p.stale_since) out.push(`stale for ${f.since(p.stale_since)}`);
  if (!p.loaded && p.state === "established") out.push("first load is under way");
  if (p.awaited && !p.loaded) out.push("readiness waits for it");
  return out;
}
