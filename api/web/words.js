// What the service's short words mean.

// steps are the steps of the decision, as include=paths names them: what a path lost by.
const steps = {
  "long-lived-stale": ["kept of a peer long gone", "long-lived stale"],
  "local-pref": ["lower local preference", "local preference"],
  "as-path-length": ["longer AS path", "AS path length"],
  "origin": ["worse origin code", "origin code"],
  "med": ["higher MED", "MED"],
  "ebgp-over-ibgp": ["internal session", "session"],
  "igp-cost": ["farther next hop", "cost to the next hop"],
  "router-id": ["higher router ID", "router ID"],
  "cluster-list-length": ["longer cluster list", "cluster list length"],
  "peer-address": ["higher peer address", "peer address"],
  "path-id": ["higher path ID", "path ID"],
  "peer-name": ["later peer name", "peer name"],
};

// rejects are why a path takes no part in the decision.
const rejects = {
  "as-path-loop": "own AS in the path",
  "martian": "prefix that must not be routed",
  "no-policy": "no import policy",
  "prefix": "prefix not let in by the policy",
  "as-path": "AS path not let in by the policy",
  "community": "community not let in by the policy",
  "rpki-invalid": "RPKI invalid",
  "route-leak": "route leak by its role",
  "first-as": "path does not start with the peer's AS",
  "unreachable": "the IGP has no way to its next hop",
};

export const isReject = (word) => word in rejects;
export const rejectWords = (word) => rejects[word] || word;
export const lostWords = (word) => (steps[word] ? steps[word][0] : rejectWords(word));
export const stepWords = (word) => (steps[word] ? steps[word][1] : word);

export const originWords = { igp: "IGP", egp: "EGP", incomplete: "incomplete" };

// rpkiWords are the states of RFC 6811.
export const rpkiWords = { valid: "RPKI valid", invalid: "RPKI invalid", "not-found": "no ROA" };

export const states = {
  established: { rank: 3, tone: "good" },
  loaded: { rank: 3, tone: "good" },
  loading: { rank: 2, tone: "busy" },
  stale: { rank: 1, tone: "warn" },
  down: { rank: 0, tone: "bad" },
};
