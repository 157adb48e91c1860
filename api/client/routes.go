package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
)

// An ASPath is the AS numbers from the service to the origin. An element of several is an AS_SET.
type ASPath [][]uint32

// UnmarshalJSON reads an array of numbers and of arrays of numbers.
func (p *ASPath) UnmarshalJSON(text []byte) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(text, &elements); err != nil {
		return err
	}
	*p = make(ASPath, len(elements))
	for i, e := range elements {
		var one uint32
		if json.Unmarshal(e, &one) == nil {
			(*p)[i] = []uint32{one}
		} else if err := json.Unmarshal(e, &(*p)[i]); err != nil {
			return err
		}
	}
	return nil
}

// An Answer is the route that carries an address.
type Answer struct {
	IP          netip.Addr   `json:"ip"`
	Prefix      netip.Prefix `json:"prefix"`   // zero: nothing carries the address
	NextHop     netip.Addr   `json:"next_hop"` // zero: the route has none
	ASPath      ASPath       `json:"as_path"`
	OriginASNs  []uint32     `json:"origin_asns"`
	Communities []string     `json:"communities"`
	Generation  uint64       `json:"generation"`
	Stale       bool         `json:"stale"`
}

// A Route is a route of a generation.
type Route struct {
	Prefix      netip.Prefix `json:"prefix"`
	NextHop     netip.Addr   `json:"next_hop"`
	ASPath      ASPath       `json:"as_path"`
	OriginASNs  []uint32     `json:"origin_asns"`
	Communities []string     `json:"communities"`
	Origin      string       `json:"origin"`
	MED         *uint32      `json:"med"`        // nil: it has none
	LocalPref   *uint32      `json:"local_pref"` // nil: it has none
	Peer        string       `json:"peer"`
	PathID      uint32       `json:"path_id"`
	Stale       bool         `json:"stale"`
}

// RouteTo gives the route to exactly this prefix. Where there is none the error is a *Problem of
// status 404.
func (c *Client) RouteTo(ctx context.Context, p netip.Prefix) (Route, error) {
	var answer struct{ Route Route }
	err := c.getJSON(ctx, "/api/v1/routes/"+p.String(), nil, &answer)
	return answer.Route, err
}

// ErrCut says that a listing or a stream of answers ended before it was whole.
var ErrCut = errors.New("client: the answer was cut off")

// Routes gives the routes of one generation in order: all, or those that meet the conditions of the
// service's documentation ("origin", "within", ...). Where a connection breaks it goes on, in the same
// generation, behind the last route that came; the generation being gone is a *Problem of status 410, or 412
// where the service was started anew since and its numbers name other ones. After an error there is nothing more.
func (c *Client) Routes(ctx context.Context, conditions url.Values) iter.Seq2[Route, error] {
	return func(yield func(Route, error) bool) {
		query := maps.Clone(conditions)
		if query == nil {
			query = url.Values{}
		}
		tag := "" // of the generation
		for broken := 0; ; {
			page, err := c.routesPage(ctx, query, tag, yield)
			if page.given > 0 { // before that another generation would do
				tag = page.tag
			}
			switch {
			case page.stopped || page.complete:
				return
			case page.next != "":
				query.Set("cursor", page.next)
			}
			if limit, none := strconv.Atoi(query.Get("limit")); none == nil && page.given > 0 {
				if limit -= page.given; limit <= 0 {
					return // what broke off is the line behind the last route
				}
				query.Set("limit", strconv.Itoa(limit))
			}
			if page.given > 0 {
				broken = 0
			}
			if err != nil {
				var p *Problem
				if broken++; errors.As(err, &p) || ctx.Err() != nil || broken > c.retries {
					yield(Route{}, err)
					return
				}
			}
		}
	}
}

// A page is how far one answer of a listing came.
type page struct {
	given             int
	next              string // cursor to go on from
	tag               string // ETag of the generation, "" where there was no answer
	complete, stopped bool
}

func (c *Client) routesPage(ctx context.Context, query url.Values, tag string, yield func(Route, error) bool) (at page, err error) {
	resp, err := c.do(ctx, request{method: http.MethodGet, path: "/api/v1/routes", query: query, accept: "application/x-ndjson", match: tag})
	if err != nil {
		return at, err
	}
	defer func() { _ = resp.Body.Close() }()
	generation := resp.Header.Get("RIB-Generation")
	at.tag = resp.Header.Get("ETag")
	lines := bufio.NewReaderSize(resp.Body, pieceSize)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil { // half a line is no route
			return at, fmt.Errorf("%w: %w", ErrCut, err)
		}
		var line struct {
			Route
			End    bool
			Cursor string
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return at, fmt.Errorf("client: line %d of the routes: %w", at.given+1, err)
		}
		switch {
		case line.End:
			at.complete = true
			return at, nil
		case line.Cursor != "":
			at.next = line.Cursor
			// The limit was the caller's: it is reached.
			at.complete = query.Has("limit")
			return at, nil
		}
		at.given++
		at.next = generation + "," + line.Prefix.String()
		if !yield(line.Route, nil) {
			at.stopped = true
			return at, nil
		}
	}
}
