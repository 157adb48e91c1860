package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ribwarp/ribwarp/fixtures"
)

// patience is how long a browser may take for anything: a machine may have much else to do.
const patience = 30 * time.Second

// chromium finds the browser. Without it the test is skipped, but not in CI.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	fixtures.Missing(t, "no Chromium (Debian's package chromium)")
	return ""
}

// A browser is a tab of a headless Chromium, and what it complained about.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu         sync.Mutex
	complaints []string
}

// browse opens the page of a service in a window of this size.
func browse(t *testing.T, url, hash string, width, height int64) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)),
		chromedp.NoSandbox, // root, as in a container, has none
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), // loopback is all it may reach
		chromedp.Env("TZ=UTC"),
	)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, url: url}
	if err := chromedp.Listen(ctx, b.listen); err != nil { // starts it, too
		t.Fatalf("browser: %v", err)
	}
	call(b, cdplog.Enable, cdp.Empty{})
	b.resize(width, height)
	b.run(chromedp.Navigate(url + "/" + hash))
	return b
}

// listen keeps what the console shows as errors or warnings, violations of the page's policy among them.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.complaints = append(b.complaints, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text := string(e.Type)
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
			b.complaints = append(b.complaints, text)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			b.complaints = append(b.complaints, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// complained gives what the console has shown since the last call.
func (b *browser) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.complaints
	b.complaints = nil
	return all
}

func (b *browser) wantNoComplaints(when string) {
	b.t.Helper()
	if all := b.complained(); len(all) > 0 {
		b.t.Errorf("%s the console shows %q", when, all)
	}
}

// step is t.Run for a part of a test.
func (b *browser) step(name string, part func(*testing.T)) {
	whole := b.t
	defer func() { b.t = whole }()
	ok := whole.Run(name, func(t *testing.T) {
		b.t = t
		part(t)
	})
	if !ok {
		whole.FailNow() // the next ones begin where this one ends
	}
}

func (b *browser) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("browser: %v", err)
	}
}

// call gives what a command of the browser's protocol returns.
func call[P, R any](b *browser, command cdp.Command[P, R], parameters P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, parameters)
	})
	if err != nil {
		b.t.Fatalf("browser: %v", err)
	}
	return out
}

// eval gives the value of a JavaScript expression as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("String(%s)", expression)))
	if err != nil {
		b.t.Fatalf("browser: %s: %v", expression, err)
	}
	return out
}

// text gives the text that is visible in an element, "" where there is none.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return b.eval(fmt.Sprintf("(e => e && e.checkVisibility() ? e.innerText : '')(document.querySelector(%q))", selector))
}

// await waits until an element shows all of these texts.
func (b *browser) await(selector string, want ...string) string {
	b.t.Helper()
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got = b.text(selector)
		if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got, w) }) {
			return got
		}
	}
	b.t.Fatalf("%s does not show %q but %q; the console: %q", selector, want, got, b.complained())
	return ""
}

// until waits until a JavaScript expression is a text.
func (b *browser) until(expression, want string) {
	b.t.Helper()
	for end := time.Now().Add(patience); b.eval(expression) != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s is %q, want %q", expression, b.eval(expression), want)
		}
	}
}

// search types into the search box, as a person does who knows its key.
func (b *browser) search(text string) {
	b.t.Helper()
	if b.eval("document.activeElement.id") != "q" {
		b.press("/") // elsewhere it goes to the box, and takes what is there
	}
	b.run(chromedp.KeyEvent(text), chromedp.KeyEvent("\r"))
}

// press presses a key with nothing but itself. Unlike chromedp.KeyEvent it types nothing where the
// page takes the key for itself.
func (b *browser) press(key string) {
	b.t.Helper()
	p := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key}
	if len(key) == 1 {
		p.Text = key
	}
	call(b, input.DispatchKeyEvent, p)
	p.Type, p.Text = input.DispatchKeyEventTypeKeyUp, ""
	call(b, input.DispatchKeyEvent, p)
}

// shoot makes a picture of the page, the whole of it or what is in the window.
func (b *browser) shoot(whole bool) (png []byte) {
	b.t.Helper()
	return call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole}).Data
}

// scheme has the system ask for dark or light.
func (b *browser) scheme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

func (b *browser) resize(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// A stoppable server can go away and come back at the same address.
type stoppable struct {
	t       *testing.T
	handler http.Handler
	addr    string
	server  *http.Server
}

func newStoppable(t *testing.T, handler http.Handler) *stoppable {
	s := &stoppable{t: t, handler: handler, addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *stoppable) start() {
	s.t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.server = NewServer(s.addr, struct{ http.Handler }{s.handler}, Limits{}) // without Close: it comes back
	go func(srv *http.Server) { _ = srv.Serve(l) }(s.server)
}

func (s *stoppable) stop() { _ = s.server.Close() }

func (s *stoppable) url() string { return "http://" + s.addr }
