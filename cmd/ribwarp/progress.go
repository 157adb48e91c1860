package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress is a bar on stderr that shows bytes done, or nothing where no terminal is there to
// show it. Not safe for concurrent use.
type progress struct {
	app   *app
	label string
	bar   *progressbar.ProgressBar
	off   bool
}

func (a *app) newProgress(label string) *progress {
	return &progress{app: a, label: label, off: !isTerminal(a.stderr)}
}

// set shows that done of size bytes are done; size is 0 or less where it is unknown.
func (p *progress) set(done, size int64) {
	if p.off {
		return
	}
	if p.bar == nil {
		if size <= 0 {
			size = -1
		}
		p.bar = progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(p.app.stderr),
			progressbar.OptionSetDescription(p.label),
			progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
		)
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn hurts nobody
}

// finish takes the bar away.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// reader counts what is read from r in the bar.
func (p *progress) reader(r io.Reader, size int64) io.Reader {
	if p.off {
		return r
	}
	return &progressReader{r: r, p: p, size: size}
}

type progressReader struct {
	r    io.Reader
	p    *progress
	done int64
	size int64
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.done += int64(n)
	r.p.set(r.done, r.size)
	return n, err
}
