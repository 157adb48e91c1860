// What is asked for: the text in the search box, the table, and both in the address of the page, as
// #q=192.0.2.1&table=blue, so that an answer can be handed on and the browser's buttons work.

export const defaultTable = "default";

// understand tells what a text asks for. What is nothing else is an address: the service says what is
// wrong with it.
export function understand(text) {
  const t = text.trim().replace(/\s*\/\s*/, "/");
  if (t === "") return null;
  let m;
  if ((m = /^(?:as\s*)?(\d+(?:\.\d+)?)$/i.exec(t))) return { kind: "as", text: "AS" + m[1], value: m[1] };
  if ((m = /^(peer|nexthop|via|within):\s*(.+)$/i.exec(t))) {
    const word = m[1].toLowerCase(), value = word === "via" ? m[2].replace(/^as/i, "") : m[2];
    return { kind: word === "nexthop" ? "next_hop" : word, text: `${word}:${m[2]}`, value };
  }
  if (/^\d+:\d+(:\d+)?$/.test(t) || /^[a-z-]+:[\d.]+:\d+$/i.test(t) || /^0x[0-9a-f]{16}$/i.test(t)) {
    return { kind: "community", text: t, value: t };
  }
  if (t.includes("/")) return { kind: "prefix", text: t, value: t };
  return { kind: "address", text: t, value: t };
}

export function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  return { q: given.get("q") || "", table: given.get("table") || defaultTable };
}

// hashOf is the link to a query.
export function hashOf(q, table) {
  const parts = [];
  // What needs no escape in a fragment is left as people write it.
  if (q) parts.push("q=" + encodeURIComponent(q).replaceAll("%2F", "/").replaceAll("%3A", ":"));
  if (table && table !== defaultTable) parts.push("table=" + encodeURIComponent(table));
  return "#" + parts.join("&");
}
