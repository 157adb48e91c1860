// Package client asks ribwarp's HTTP service from Go: one address, streams of them of any length, and
// routes. What the service answers with an error is a *Problem.
//
//	c, err := client.New("http://127.0.0.1:8080")
//	answer, err := c.Lookup(ctx, netip.MustParseAddr("192.0.2.1"))
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultRetries = 3
	longestWait    = 30 * time.Second // for a service that says when to ask again
	firstWait      = 100 * time.Millisecond
	pieceSize      = 256 << 10 // of what is written and read at once
)

// A Client asks one service. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	http    *http.Client
	table   string
	retries int
}

// An Option changes how a Client asks.
type Option func(*Client)

// WithHTTPClient has requests go through h. Without it they go through a client with large buffers and
// without compression, which costs more than it saves on fast networks.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithTable asks a table (VRF) other than the default one.
func WithTable(name string) Option { return func(c *Client) { c.table = name } }

// WithRetries has a request that the service is too busy for, or not ready for (429, 503), made up to n
// times more, when the service says; and one without a body that met a broken connection. Default 3.
func WithRetries(n int) Option { return func(c *Client) { c.retries = n } }

// New makes a client of the service at base, such as "http://127.0.0.1:8080".
func New(base string, options ...Option) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("client: %q is no base of a service: it must be like http://127.0.0.1:8080", base)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, WriteBufferSize: pieceSize, ReadBufferSize: pieceSize, IdleConnTimeout: time.Minute}
	c := &Client{base: u, http: &http.Client{Transport: transport}, retries: defaultRetries}
	for _, o := range options {
		o(c)
	}
	return c, nil
}

// A Problem is an error that the service answered with (RFC 9457).
type Problem struct {
	Title      string        `json:"title"`
	Status     int           `json:"status"`
	Detail     string        `json:"detail"`
	Instance   string        `json:"instance"`
	Generation uint64        `json:"generation"`
	WaitingFor []string      `json:"waiting_for"`
	RetryAfter time.Duration `json:"-"` // when the service wants to be asked again; 0 where it does not say
}

// Error gives the status and what is wrong.
func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.Status, http.StatusText(p.Status), p.Detail)
}

// problemOf reads the error that a response is.
func problemOf(resp *http.Response) *Problem {
	p := &Problem{Status: resp.StatusCode}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(body, p) != nil {
		p.Detail = strings.TrimSpace(string(body[:min(len(body), 512)])) // of a proxy, say
	}
	p.Status, p.RetryAfter = resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"))
	return p
}

// retryAfter reads a Retry-After: seconds, or a time.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return min(time.Duration(seconds), longestWait/time.Second) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), longestWait)
	}
	return 0
}

// A request is what is asked; it can be made again.
type request struct {
	method, path string
	query        url.Values
	kind, accept string               // of its body and of the answer
	body         func() io.ReadCloser // nil: none
	match        string               // If-Match, "" for none
}

// do makes a request, again where the service says so, and gives an answer of status 200.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	u := c.base.JoinPath(r.path)
	query := url.Values{}
	for name, values := range r.query {
		query[name] = values
	}
	if c.table != "" {
		query.Set("table", c.table)
	}
	u.RawQuery = query.Encode()
	for attempt := 0; ; attempt++ {
		resp, err := c.once(ctx, r, u)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		again, wait := err != nil && r.body == nil && ctx.Err() == nil, time.Duration(0)
		if err == nil {
			p := problemOf(resp)
			_ = resp.Body.Close()
			again = p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable
			err, wait = p, p.RetryAfter
		}
		if !again || attempt >= c.retries {
			return nil, err
		}
		if wait == 0 {
			wait = firstWait << attempt
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

func (c *Client) once(ctx context.Context, r request, u *url.URL) (*http.Response, error) {
	var body io.ReadCloser
	if r.body != nil {
		body = r.body()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	req.Header.Set("Accept", r.accept+", application/problem+json")
	return c.http.Do(req)
}

// getJSON asks for one JSON value.
func (c *Client) getJSON(ctx context.Context, path string, query url.Values, into any) error {
	resp, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query, accept: "application/json"})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("client: answer of %s: %w", path, err)
	}
	return nil
}

// Lookup gives the route that carries an address. Where none does, the answer has no Prefix.
func (c *Client) Lookup(ctx context.Context, ip netip.Addr) (Answer, error) {
	var a Answer
	err := c.getJSON(ctx, "/api/v1/lookup/"+url.PathEscape(ip.String()), nil, &a)
	return a, err
}
