package api

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// retryAfter is when a client should ask again for what is not there yet.
const retryAfter = 5 * time.Second

// maxURL is the longest URL in bytes. The longest that makes sense is a listing with a dozen conditions.
const maxURL = 8 << 10

// A problem is an error answer as RFC 9457 has it. Type is always "about:blank": the status
// says what kind of problem it is, the detail says what to do.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Instance string   `json:"instance"`
	Waiting  []string `json:"waiting_for,omitempty"` // what readiness waits for
	Held     []uint64 `json:"generations,omitempty"` // those that can be asked, where the one asked for is gone
	// Generation is the one that was asked, where one is published.
	Generation uint64 `json:"generation,omitempty"`

	RetryAfter time.Duration `json:"-"`
}

// refuse answers with a problem of this status.
func (a *API) refuse(c *gin.Context, status int, format string, args ...any) {
	a.fail(c, problem{Status: status, Detail: fmt.Sprintf(format, args...)})
}

// fail answers with a problem, or breaks the connection off if an answer has begun: a client
// must not take half an answer for a whole one.
func (a *API) fail(c *gin.Context, p problem) {
	if c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	p.Type, p.Title, p.Instance = "about:blank", http.StatusText(p.Status), c.Request.URL.EscapedPath()
	h := c.Writer.Header()
	if h[headerGeneration] == nil {
		v := a.viewOf(c)
		if g := v.generations.Acquire(); g != nil {
			v.nameGeneration(c, g.Number)
			g.Release()
		}
	}
	if named := h[headerGeneration]; named != nil {
		p.Generation, _ = strconv.ParseUint(named[0], 10, 64)
	}
	if p.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(int(p.RetryAfter.Seconds()))}
	}
	h["Content-Type"] = typeProblem
	body, err := marshal(p)
	if err != nil { // strings and numbers: cannot be
		a.deps.Log.Error("problem not encoded", "error", err)
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.Writer.WriteHeader(p.Status)
	_, _ = c.Writer.Write(body)
	c.Abort()
}

// around is the only middleware: it measures a request and turns a panic into an answer of 500.
func (a *API) around(c *gin.Context) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			a.recovered(c, p, start)
		}
	}()
	a.admit(c)
	if !c.IsAborted() && len(c.Request.RequestURI) > maxURL {
		a.refuse(c, http.StatusRequestURITooLong, "the URL has %d bytes: %d is the most; many addresses or prefixes are sent by POST", len(c.Request.RequestURI), maxURL)
	}
	c.Next()
	a.metrics.request(c.FullPath(), c.Writer.Status(), time.Since(start))
}

// recovered ends a request whose handler panicked with p.
func (a *API) recovered(c *gin.Context, p any, start time.Time) {
	defer func() { a.metrics.request(c.FullPath(), c.Writer.Status(), time.Since(start)) }()
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // net/http closes the connection and logs nothing
	}
	a.metrics.panics.Inc()
	a.deps.Log.Error("http handler panicked", "method", c.Request.Method, "path", c.Request.URL.Path, "panic", p, "stack", string(debug.Stack()))
	a.refuse(c, http.StatusInternalServerError, "internal error; the log of the service has more")
}

// noRoute answers for what is no endpoint. A slash at the end makes a path another one: nothing is
// redirected, since not every client that sends a body sends it again.
func (a *API) noRoute(c *gin.Context) {
	path := c.Request.URL.Path
	if short := strings.TrimRight(path, "/"); short != path && slices.Contains(a.endpoints(), short) {
		a.refuse(c, http.StatusNotFound, "no such endpoint: leave the slash at the end away, ask for %s", short)
		return
	}
	a.refuse(c, http.StatusNotFound, "no such endpoint: there are %s", strings.Join(a.endpoints(), ", "))
}

// endpoints lists the paths that there are, with their parameters in braces.
func (a *API) endpoints() []string {
	var paths []string
	for _, r := range a.router.Routes() {
		segments := strings.Split(r.Path, "/")
		for i, s := range segments {
			if s != "" && (s[0] == ':' || s[0] == '*') {
				segments[i] = "{" + s[1:] + "}"
			}
		}
		paths = append(paths, strings.Join(segments, "/"))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (a *API) noMethod(c *gin.Context) {
	a.refuse(c, http.StatusMethodNotAllowed, "%s is not allowed here: allowed are %s", cut(c.Request.Method, 32), c.Writer.Header().Get("Allow"))
}
