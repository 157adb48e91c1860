package client_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
)

// A limit is of the whole, however often the connection breaks.
func TestRoutesGoOnWithinTheLimit(t *testing.T) {
	for limit, want := range map[string]int{"1": 1, "2": 2, "3": 3, "9": 4} {
		for cutAt := 100; cutAt < 900; cutAt += 50 {
			var requests atomic.Int64
			srv := newService(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) <= 2 {
						w = &cutter{w, cutAt}
					}
					h.ServeHTTP(w, r)
				})
			})
			n := 0
			for _, err := range newClient(t, srv).Routes(t.Context(), url.Values{"limit": {limit}}) {
				if err != nil {
					t.Fatalf("limit %s, cut at %d: %v", limit, cutAt, err)
				}
				n++
			}
			if n != want {
				t.Errorf("limit %s, cut at %d: %d routes", limit, cutAt, n)
			}
		}
	}
}

// Where nothing came before the service was started anew there is nothing to mix.
func TestRoutesBeginAnewWhereNoneCame(t *testing.T) {
	var requests atomic.Int64
	srv, again := newService(t, nil), newService(t, nil)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			srv.Config.Handler.ServeHTTP(&cutter{w, 0}, r)
			return
		}
		again.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	n := 0
	for _, err := range newClient(t, front).Routes(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 4 {
		t.Errorf("%d routes", n)
	}
}
