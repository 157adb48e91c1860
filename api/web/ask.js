// Requests to the service. The address is relative, so that the page also works below a path of a proxy.

// A Problem is what the service has against a request, in words.
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail);
    this.status = status;
    this.title = title;
  }
}

// Lost is that the service could not be reached, or said something that is no answer of its own.
export class Lost extends Error {}

const patience = 20_000; // milliseconds

async function fetchText(path, parameters, signal) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(parameters || {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const limit = AbortSignal.timeout(patience);
  let response, text;
  try {
    response = await fetch(url, { signal: signal ? AbortSignal.any([signal, limit]) : limit });
    text = await response.text();
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new Lost(error.name === "TimeoutError" ? "the service does not answer" : "the service cannot be reached");
  }
  if (!response.ok) throw problemOf(response, text);
  return text;
}

function problemOf(response, text) {
  try {
    const p = JSON.parse(text);
    if (typeof p.detail === "string") return new Problem(response.status, p.title || "", p.detail);
  } catch {
    // not from the service itself: a proxy in front of it
  }
  return new Lost(`something between here and the service answers ${response.status} ${response.statusText}`);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Lost("the answer was cut off");
  }
}

// ask gives the answer as an object. It throws a Problem, Lost, or the signal's reason.
export async function ask(path, parameters, signal) {
  return parse(await fetchText(path, parameters, signal));
}

// askLines gives the objects of an answer of lines.
export async function askLines(path, parameters, signal) {
  const text = await fetchText(path, parameters, signal);
  return text.split("\n").filter(Boolean).map(parse);
}
