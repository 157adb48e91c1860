// The page: what is in the address of the page is asked for and shown, and everything is kept up to date.
import { byId, fill, h } from "./dom.js";
import { ask, Lost, Problem } from "./ask.js";
import { answer } from "./answer.js";
import { liveCharts } from "./live.js";
import { overview } from "./overview.js";
import { peers } from "./peers.js";
import { defaultTable, hashOf, readHash, understand } from "./query.js";
import { themeSwitch } from "./theme-switch.js";
import * as f from "./format.js";

const second = 1000;
const slow = 5 * second; // how often what is larger is asked for
const again = 2 * second; // how often an answer is asked for again while routes change
const longestPause = 10 * second; // between attempts while the service cannot be reached

const live = liveCharts(), stats = overview(), peerList = peers();
let at = readHash();
let newest = 0; // generation of the table at hand

// The answer

let asking = null; // AbortController of the question under way, null where there is none
let showing = { key: "", extended: () => false, generation: 0, asked: 0, failed: false, error: "" };

async function showAnswer(isNew) {
  const section = byId("answer");
  asking?.abort();
  const query = understand(at.q);
  document.title = query ? `${query.text} · ribwarp` : "ribwarp";
  if (!query) {
    asking = null;
    section.hidden = true;
    fill(section);
    byId("said").textContent = "";
    return;
  }
  const mine = (asking = new AbortController());
  if (isNew) {
    showing = { key: "", extended: () => false };
    section.classList.add("waiting");
  }
  showing.generation = newest;
  showing.asked = Date.now();
  showing.failed = false;
  try {
    const found = await answer(query, at.table, mine.signal);
    if (mine.signal.aborted) return;
    if (found.key !== showing.key) {
      const changed = showing.key !== "" && h("p", { class: "changed", role: "status" }, `Changed at ${f.clock(Date.now() / 1000, true)}, in generation ${f.count(newest)}.`);
      fill(section, found.body, changed);
      byId("said").textContent = found.said;
      showing.key = found.key;
      showing.error = "";
      showing.extended = found.extended || (() => false);
    }
    for (const e of section.querySelectorAll(".generation")) e.textContent = f.count(found.generation);
  } catch (error) {
    if (mine.signal.aborted) return;
    showing.failed = !(error instanceof Problem) || error.status === 429 || error.status >= 500; // it may go another time
    if (!isNew && error instanceof Lost) { // what is shown stays; the notice says that it is old
      asking = null;
      return;
    }
    if (showing.error !== error.message) fill(section, failure(query, error));
    showing.key = "";
    showing.error = error.message;
    byId("said").textContent = "";
  }
  asking = null;
  section.hidden = false;
  section.classList.remove("waiting");
}

// failure says what went wrong, and offers what the service proposes.
function failure(query, error) {
  const proposed = error instanceof Problem && /\bask for (\S+)$/.exec(error.message);
  const proposal = proposed && h("p", null, "Look up ", h("a", { href: hashOf(proposed[1], at.table) }, proposed[1]), ".");
  return [
    h("h1", null, h("span", { class: "mono subject" }, query.text), " ", h("small", null, !(error instanceof Problem) || error.status >= 500 ? "could not be looked up" : error.status === 404 ? "was not found" : "cannot be looked up")),
    h("p", { class: "problem", role: "alert" }, sentence(error.message)), proposal,
  ];
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

function go() {
  const before = at;
  at = readHash();
  const q = byId("q");
  q.value = at.q;
  if (document.activeElement === q) q.select();
  if (at.table !== before.table) {
    newest = 0;
    stats.clear("");
    wake();
  }
  showTables();
  showAnswer(true);
}

// The tables

let tables = [];

async function readTables() {
  ({ tables } = await ask("api/v1/tables"));
  showTables();
}

function showTables() {
  const select = byId("table");
  const names = tables.map((t) => t.name);
  if (!names.includes(at.table)) names.push(at.table); // not there (any more): it can be left nevertheless
  byId("table-choice").hidden = names.length < 2;
  if (names.join("\n") !== [...select.options].map((o) => o.value).join("\n")) {
    select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
  }
  select.value = at.table;
}

// What goes on

let timer = 0, failures = 0, slowAt = 0, wanted = 0, running = false;

async function turn() {
  if (running) return;
  running = true;
  clearTimeout(timer);
  const table = at.table;
  try {
    const now = await live.read(table);
    if (table === at.table) {
      const changed = now.generation !== newest;
      newest = now.generation;
      showState(now);
      if (Date.now() >= slowAt) {
        slowAt = Date.now() + slow;
        await Promise.all([readTables(), peerList.read(table), now.generation ? stats.read(table, now.publisher) : stats.clear("no generation yet")]);
      }
      if ((changed || showing.failed || showing.generation !== newest) && at.q && !asking && !showing.extended() && Date.now() - showing.asked >= again) {
        showAnswer(false);
      }
    }
    if (failures > 0) slowAt = 0;
    failures = 0;
    byId("notice").hidden = true;
  } catch (error) {
    failed(error);
  }
  running = false;
  if (document.hidden) return; // a page that nobody sees asks nothing
  const pause = failures ? Math.min(longestPause, second * 2 ** (failures - 1)) : second;
  timer = setTimeout(turn, Date.now() < wanted ? 0 : pause);
}

// wake has the next turn come at once.
function wake() {
  slowAt = 0;
  if (running) wanted = Date.now() + second;
  else turn();
}

function failed(error) {
  failures++;
  const notice = byId("notice");
  const pause = Math.min(longestPause, second * 2 ** (failures - 1)) / second;
  const text = error instanceof Problem ? sentence(error.message)
    : `Connection lost: ${error.message}. What is shown may be old; the next attempt is in ${pause} s.`;
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = false;
  if (!(error instanceof Problem)) setState("bad", "connection lost");
  if (!(error instanceof Problem || error instanceof Lost)) console.error(error);
}

function setState(tone, text) {
  byId("state").className = `state ${tone}`;
  const shown = byId("state-text");
  if (shown.textContent !== text) shown.textContent = text;
}

let version = "", process = ""; // of the service: what it is, and when it was started

function showState(now) {
  if (!now.ready) setState("busy", `loading: ${now.waiting_for.length ? "waits for " + now.waiting_for.slice(0, 3).join(", ") + (now.waiting_for.length > 3 ? ` and ${now.waiting_for.length - 3} more` : "") : "not ready"}`);
  else if (now.degraded) setState("warn", `degraded: ${now.degraded}`);
  else setState("good", "ready");
  byId("generation").textContent = now.generation
    ? `generation ${f.count(now.generation)}, ${f.age(now.age_seconds)} old${now.stale ? `, ${f.count(now.stale.ipv4 + now.stale.ipv6)} stale paths` : ""}`
    : "no generation yet";
  if (process !== now.started) {
    process = now.started;
    ask("api/v1/status").then((s) => { version = `ribwarp ${s.version}${s.commit ? ` (${s.commit.slice(0, 12)})` : ""}, `; }, () => { process = ""; });
  }
  byId("version").textContent = `${version}up for ${f.since(now.started)}`;
}

// Keyboard and forms

byId("search").addEventListener("submit", (e) => {
  e.preventDefault();
  const q = byId("q"), query = understand(q.value);
  q.select(); // so that the next question takes the place of this one
  const hash = hashOf(query ? query.text : "", at.table);
  if (hash === (location.hash || "#")) showAnswer(true);
  else location.hash = hash;
});
byId("table").addEventListener("change", (e) => { location.hash = hashOf(at.q, e.target.value); });
document.querySelector(".brand").addEventListener("click", (e) => {
  e.preventDefault();
  location.hash = hashOf("", at.table);
});
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const q = byId("q");
  if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
    e.preventDefault();
    q.focus();
    q.select();
  } else if (e.key === "Escape" && (at.q || q.value)) {
    q.value = "";
    location.hash = hashOf("", at.table);
  }
});
window.addEventListener("hashchange", go);
document.addEventListener("visibilitychange", () => { if (!document.hidden) wake(); });
window.addEventListener("online", wake);

themeSwitch();
byId("q").value = at.q;
if (at.table !== defaultTable) showTables();
showAnswer(true);
turn();
