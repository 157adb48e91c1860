package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestPageIsServed(t *testing.T) {
	w := newWorld(t, nil)
	for target, kind := range map[string]string{
		"/":              "text/html; charset=utf-8",
		"/web/page.css":  "text/css; charset=utf-8",
		"/web/page.js":   "text/javascript; charset=utf-8",
		"/web/icon.svg":  "image/svg+xml",
		"/web/theme.js":  "text/javascript; charset=utf-8",
		"/?utm=whatever": "text/html; charset=utf-8",
	} {
		rec := w.get(target)
		h := rec.Header()
		if rec.Code != http.StatusOK || h.Get("Content-Type") != kind || rec.Body.Len() == 0 {
			t.Errorf("%s: status %d, type %q, %d bytes", target, rec.Code, h.Get("Content-Type"), rec.Body.Len())
		}
		if h.Get("Content-Length") != fmt.Sprint(rec.Body.Len()) {
			t.Errorf("%s: length %s of %d", target, h.Get("Content-Length"), rec.Body.Len())
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Cache-Control":           "no-cache",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
	if rec := w.do(http.MethodHead, "/", "", ""); rec.Code != http.StatusOK || rec.Header().Get("ETag") == "" {
		t.Errorf("HEAD: %d %v", rec.Code, rec.Header())
	}
	wantProblem(t, w.do(http.MethodPost, "/", "", ""), http.StatusMethodNotAllowed, "GET")
}

func TestPageNeedsNoGeneration(t *testing.T) {
	if rec := emptyWorld(t, nil).get("/"); rec.Code != http.StatusOK {
		t.Errorf("status %d", rec.Code)
	}
}

func TestPageIsSentOnce(t *testing.T) {
	w := newWorld(t, nil)
	tags := map[string]string{}
	for name := range assets() {
		target := webPath + name
		tag := w.get(target).Header().Get("ETag")
		if !regexp.MustCompile(`^"[0-9a-f]{16}"$`).MatchString(tag) || tags[tag] != "" {
			t.Errorf("%s: ETag %s, as that of %q", name, tag, tags[tag])
		}
		tags[tag] = name
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Header.Set("If-None-Match", tag)
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		if rec.Code != http.StatusNotModified || rec.Body.Len() != 0 || rec.Header().Get("ETag") != tag || rec.Header().Get("Content-Length") != "" {
			t.Errorf("%s: %d %v", name, rec.Code, rec.Header())
		}
	}
	if len(tags) < 8 {
		t.Errorf("only %d files", len(tags))
	}
}

// Whatever a path looks like, it is one of the page's files or there is none.
func TestPageReachesNoOtherFiles(t *testing.T) {
	srv := newWorld(t, nil).serve()
	for _, path := range []string{
		"/web/", "/web/.", "/web/..", "/web/../web.go", "/web/../../go.mod", "/web/%2e%2e/web.go", "/web/%2e%2e%2fweb.go",
		"/web/..%2f..%2fgo.mod", "/web/..%5c..%5cgo.mod", `/web/..\..\go.mod`, "/web//etc/passwd", "/web/%2fetc%2fpasswd", "/web/page.js/", "/web/./page.js",
		"/web/page.js%00.css", "/web/PAGE.JS", "/web/web/page.js", "/../../etc/passwd", "/index.html", "/web/" + strings.Repeat("../", 40) + "etc/passwd",
	} {
		// As it stands: a client would tidy it up.
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s, %s", path, resp.Status, resp.Header.Get("Content-Type"))
		}
		_ = resp.Body.Close()
		_ = conn.Close()
	}
}

// The page must work without a network but the service's: nothing in it may be somewhere else. Nor may
// it make HTML of texts.
func TestPageHasAllThatItNeeds(t *testing.T) {
	elsewhere := regexp.MustCompile(`(?:https?:)?//[a-z0-9-]+(?:\.[a-z0-9-]+)+`)
	imports := regexp.MustCompile(`(?:from |import )"\./([^"]+)"`)
	links := regexp.MustCompile(`(?:href|src)="web/([^"]+)"`)
	used := map[string]bool{"index.html": true}
	for name, file := range assets() {
		text := strings.ReplaceAll(string(file.body), "http://www.w3.org/2000/svg", "") // a name, not a place
		if at := elsewhere.FindString(text); at != "" {
			t.Errorf("%s names %s", name, at)
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc", `"style"`} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s has %s", name, forbidden)
			}
		}
		for _, m := range append(imports.FindAllStringSubmatch(text, -1), links.FindAllStringSubmatch(text, -1)...) {
			used[m[1]] = true
			if assets()[m[1]] == nil {
				t.Errorf("%s needs %s, which is not there", name, m[1])
			}
		}
	}
	for name := range assets() {
		if !used[name] {
			t.Errorf("nothing needs %s", name)
		}
	}
}
