// Answers to what is in the search box. Each is asked for, and made into elements, by its kind.
import { h, table as tableOf } from "./dom.js";
import { ask, askLines } from "./ask.js";
import { hashOf } from "./query.js";
import * as f from "./format.js";
import * as words from "./words.js";

const shown = 50; // more-specifics, and routes of a list, at a time

// answer asks for a query and gives {said, body, key, generation}: a sentence, elements, a text that is the
// same as long as the answer is, and the generation that it is of.
export function answer(query, table, signal) {
  return ({ address, prefix, as }[query.kind] || list)(query, table, signal);
}

const link = (q, table, text = q, attributes = {}) => h("a", { href: hashOf(q, table), ...attributes }, text);
const asLink = (as, table) => link(`AS${as}`, table);
const prefixLink = (p, table) => link(p, table, p, { class: "mono" });

// withoutGeneration is an answer as text but for the number of the generation, which changes though
// nothing else does.
const keyOf = (...answers) => JSON.stringify(answers, (name, value) => (name === "generation" ? undefined : value));

const includes = "less-specifics,more-specifics,paths,rpki";
const askPrefix = (prefix, table, signal) => ask(`api/v1/routes/${prefix}`, { include: includes, limit: shown, table }, signal);

async function address(query, table, signal) {
  const found = await ask(`api/v1/lookup/${encodeURIComponent(query.value)}`, { table }, signal);
  if (!found.prefix) {
    return {
      said: `No route carries ${found.ip}.`, key: keyOf(found),
      body: [title(found.ip, "is carried by no route"), h("p", null, `No prefix of table ${table} contains it.`)],
    };
  }
  const around = await askPrefix(found.prefix, table, signal);
  const route = around.route || found; // null where it was withdrawn in between
  return {
    said: `${found.ip} is carried by ${found.prefix}${originText(route)}.`, key: keyOf(found, around), generation: around.generation,
    body: [title(found.ip, "is carried by", prefixLink(found.prefix, table), badges(route)), ...routeParts(route, around, table)],
  };
}

async function prefix(query, table, signal) {
  const around = await askPrefix(query.value, table, signal);
  const p = around.prefix, route = around.route;
  if (route) {
    return {
      said: `${p} is in the table${originText(route)}.`, key: keyOf(around), generation: around.generation,
      body: [title(p, "", badges(route)), ...routeParts(route, around, table)],
    };
  }
  const over = around.less_specifics[0];
  return {
    said: `${p} is not in the table.`, key: keyOf(around), generation: around.generation,
    body: [
      title(p, "is not in the table"),
      h("p", null, over ? ["Its addresses are carried by ", prefixLink(over.prefix, table), " or what is inside of it."] : "No prefix around it is, either."),
      ...surroundings(around, table), candidates(around.paths, table),
    ],
  };
}

const title = (subject, ...rest) => h("h1", null, h("span", { class: "mono subject" }, subject), " ", rest.map((r) => (typeof r === "string" ? h("small", null, r, " ") : r)));

const originText = (route) => (route.origin_asns.length ? ` by ${route.origin_asns.map((as) => "AS" + as).join(", ")}` : "");

function badges(route) {
  const state = route.rpki; // nothing where no source of VRPs is configured
  return h("span", { class: "badges" },
    state && h("span", { class: `badge ${{ valid: "good", invalid: "bad" }[state] || "plain"}` }, words.rpkiWords[state] || state),
    route.stale && h("span", { class: "badge warn", title: "Kept of a peer that is gone, until it announces the route again or is given up" }, "stale"));
}

function routeParts(route, around, table) {
  return [path(route, table), facts(route, around, table), candidates(around.paths, table), ...surroundings(around, table)];
}

// hops gives the AS path as a list of {ases, times, set}: what is prepended is one hop.
function hops(asPath) {
  const out = [];
  for (const hop of asPath) {
    const set = Array.isArray(hop), last = out[out.length - 1];
    if (!set && last && !last.set && last.ases[0] === hop) last.times++;
    else out.push({ ases: set ? hop : [hop], times: 1, set });
  }
  return out;
}

// path draws the AS path as the way that traffic takes, from the peer to the origin.
function path(route, table) {
  const all = hops(route.as_path);
  const peer = route.peer ? [h("li", { class: "hop peer" }, h("span", null, link(`peer:${route.peer}`, table, route.peer)), h("small", null, "peer"))] : [];
  const nodes = all.map((hop, i) => h("li", { class: i === all.length - 1 ? "hop origin" : "hop" },
    h("span", null, hop.set && "{ ", hop.ases.map((as, k) => [k > 0 && ", ", asLink(as, table)]), hop.set && " }",
      hop.times > 1 && h("b", { class: "times", title: `prepended: ${hop.times} times in the path` }, `×${hop.times}`)),
    h("small", null, hop.set ? "AS_SET" : i === all.length - 1 ? "origin" : "\u00a0")));
  if (!nodes.length) nodes.push(h("li", { class: "hop" }, h("span", { class: "soft" }, "empty"), h("small", null, "AS path")));
  return h("ol", { class: "path", "aria-label": "AS path" }, peer, nodes);
}

function facts(route, around, table) {
  const fact = (name, value) => (value === null || value === undefined || value === "" ? null : h("div", null, h("dt", null, name), h("dd", null, value)));
  return h("dl", { class: "facts" },
    fact("Next hop", route.next_hop && link(`nexthop:${route.next_hop}`, table, route.next_hop, { class: "mono" })),
    fact("Origin code", words.originWords[route.origin]),
    fact("Local pref", route.local_pref), fact("MED", route.med), fact("Path ID", route.path_id || null),
    fact("Communities", route.communities.length ? h("ul", { class: "chips" }, route.communities.map((c) => h("li", null, link(c, table, c, { class: "mono" })))) : null),
    fact("ROAs", vrps(around, table)),
    fact("Generation", h("span", { class: "generation" }, f.count(around.generation))));
}

// vrps are the ROAs that cover the prefix: an AS and the longest prefix that it may announce.
function vrps(around, table) {
  if (!around.vrps || !around.vrps.length) return null;
  return h("ul", { class: "chips" }, around.vrps.map((v) => h("li", { class: "mono" }, `${v.prefix}${v.max_length > Number(v.prefix.split("/")[1]) ? ` to /${v.max_length}` : ""} `, v.asn ? asLink(v.asn, table) : "nobody")));
}

// candidates is the table of what every peer announces, and why the best one is.
function candidates(paths, table) {
  if (!paths || !paths.length) return null;
  const rows = paths.map((p) => ({
    row: { class: p.lost_by ? (words.isReject(p.lost_by) ? "rejected" : null) : "best" },
    cells: [
      p.lost_by ? why(p) : h("b", null, "best"),
      [link(`peer:${p.peer}`, table, p.peer), p.path_id ? ` #${p.path_id}` : "", p.stale && [" ", h("span", { class: "badge warn" }, "stale")]],
      h("td", { class: "mono" }, p.next_hop || f.none),
      h("td", { class: "mono path-text" }, pathText(p.as_path)),
      p.local_pref ?? f.none, p.med ?? f.none,
    ],
  }));
  return section(`Paths`, `${paths.length === 1 ? "one peer announces it" : `${paths.length} announced, best first`}`,
    scroll(tableOf(["Decision", "Peer", "Next hop", "AS path", "Local pref", "MED"], rows, { numbers: [4, 5] })));
}

function why(p) {
  if (words.isReject(p.lost_by)) return [h("span", { class: "badge bad" }, "not used"), " ", words.rejectWords(p.lost_by)];
  const step = p.decision, known = step && step.value !== null && step.best !== null && typeof step.value !== "boolean";
  return [words.lostWords(p.lost_by), known && h("small", { class: "soft" }, ` ${step.value}, best ${step.best}`)];
}

function pathText(asPath) {
  return hops(asPath).map((hop) => (hop.set ? `{${hop.ases.join(",")}}` : hop.ases[0]) + (hop.times > 1 ? `×${hop.times}` : "")).join(" ") || f.none;
}

const section = (name, note, ...body) => h("div", { class: "part" }, h("h2", null, name, " ", note && h("small", null, note)), body);

const scroll = (...children) => h("div", { class: "scroll" }, children);

const routeRow = (table) => (r) => [
  [prefixLink(r.prefix, table), r.stale && [" ", h("span", { class: "badge warn" }, "stale")]],
  r.origin_asns.length ? r.origin_asns.map((as, i) => [i > 0 && ", ", asLink(as, table)]) : f.none,
  h("td", { class: "mono" }, r.next_hop || f.none),
  h("td", { class: "mono path-text" }, pathText(r.as_path)),
];

const routeTable = (routes, table) => tableOf(["Prefix", "Origin", "Next hop", "AS path"], routes.map(routeRow(table)), { attributes: { class: "rows routes" } });

function surroundings(around, table) {
  const less = around.less_specifics, more = around.more_specifics;
  return [
    section("Covering prefixes", less.length ? f.count(less.length) : "none", less.length ? scroll(routeTable(less, table)) : null),
    section("More specific prefixes", more.length ? `${around.truncated ? "the first " : ""}${f.count(more.length)}` : "none",
      more.length ? scroll(routeTable(more, table)) : null,
      around.truncated && h("p", null, link(`within:${around.prefix}`, table, "List all"))),
  ];
}

// lists are the queries that a list of routes answers: what the service calls them, and what they are.
const lists = {
  community: { parameter: "community", text: "are marked with it" },
  peer: { parameter: "peer", text: "come from it" },
  next_hop: { parameter: "next_hop", text: "go to it" },
  via: { parameter: "as", text: "have it in the path" },
  within: { parameter: "within", text: "are inside of it" },
};

async function list(query, table, signal) {
  const { parameter, text } = lists[query.kind];
  const value = query.kind === "via" ? `AS${query.value}` : query.value;
  const found = await routeList({ [parameter]: query.value }, table, signal);
  const head = query.kind === "via" ? [asLink(query.value, table)] : [value];
  return {
    said: `${found.text} ${text.replace("it", value)}.`, key: found.key, extended: found.extended,
    body: [title(head, `${found.text} ${text}`), found.body],
  };
}

// routeList asks for routes by a filter, some at a time: the button below asks for the next ones.
// The first ones may be there already.
async function routeList(parameters, table, signal, given) {
  let cursor = "", rows = [], extended = false;
  const all = routeTable([], table), more = h("button", { type: "button", "data-key": "more" }, "More");
  const note = h("p", { class: "soft", role: "status" });
  function show(lines, behind) {
    cursor = behind || "";
    rows = rows.concat(lines);
    all.tBodies[0].append(...routeTable(lines, table).tBodies[0].rows);
    more.hidden = !cursor;
    note.textContent = cursor ? `The first ${f.count(rows.length)} are shown.` : "";
  }
  async function next(signal) {
    const lines = await askLines("api/v1/routes", { ...parameters, limit: shown, cursor, table }, signal);
    const end = lines.pop() || {};
    show(lines, end.cursor);
  }
  if (given) show(given.lines, given.cursor);
  else await next(signal);
  const key = keyOf(rows);
  more.addEventListener("click", async () => {
    extended = true;
    more.disabled = true;
    try {
      await next();
    } catch (error) {
      note.textContent = `No more could be had: ${error.message}.`;
    }
    more.disabled = false;
  });
  return {
    key, extended: () => extended,
    text: cursor ? `more than ${f.count(rows.length)} routes` : rows.length ? f.plural(rows.length, "route") : "no routes",
    body: rows.length ? [scroll(all), h("div", { class: "more" }, more, note)] : [],
  };
}

async function as(query, table, signal) {
  const found = await ask(`api/v1/asns/${encodeURIComponent(query.value)}`, { table, limit: shown }, signal);
  const cursor = found.more && new URL(found.more, location.href).searchParams.get("cursor");
  const routes = await routeList({ origin: found.asn }, table, signal, { lines: found.routes, cursor });
  const name = `AS${found.asn}`, { originated, transited } = found;
  const any = transited.ipv4 + transited.ipv6 > 0;
  return {
    said: `${name} originates ${prefixes(originated)}.`, key: keyOf(found), generation: found.generation, extended: routes.extended,
    body: [
      title(name, `originates ${prefixes(originated)}`),
      h("p", null, any ? [`${prefixes(transited)} of others are reached through it. `, link(`via:${name}`, table, "List them")] : "No prefix of others is reached through it."),
      h("dl", { class: "facts" },
        neighbours("Upstreams", found.upstreams, table), neighbours("Downstreams", found.downstreams, table),
        h("div", null, h("dt", null, "Heard from"), h("dd", null, h("ul", { class: "chips" }, found.peers.map((p) =>
          h("li", null, link(`peer:${p.name}`, table, p.name), h("small", { class: "soft" }, ` ${f.count(p.prefixes)}`))))))),
      routes.body.length ? section("Prefixes", "that it originates", routes.body) : null,
    ],
  };
}

const prefixes = (n) => (n.ipv4 && n.ipv6 ? `${f.count(n.ipv4)} IPv4 and ${f.count(n.ipv6)} IPv6 prefixes`
  : n.ipv6 ? f.plural(n.ipv6, "IPv6 prefix", "IPv6 prefixes") : n.ipv4 ? f.plural(n.ipv4, "IPv4 prefix", "IPv4 prefixes") : "no prefixes");

const neighboursShown = 16;

// neighbours are those ASes next to one that most prefixes are reached through.
function neighbours(name, of, table) {
  const most = of.most.slice(0, neighboursShown);
  return h("div", null, h("dt", null, `${name} (${f.count(of.count)})`),
    h("dd", null, most.length ? h("ul", { class: "chips" }, most.map((n) => h("li", null, asLink(n.asn, table), h("small", { class: "soft" }, ` ${f.count(n.prefixes)}`)))) : f.none));
}
