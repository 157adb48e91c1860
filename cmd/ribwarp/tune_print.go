package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"strconv"
	"text/tabwriter"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ribwarp/ribwarp/flavors"
)

// finish prints the rankings, draws them and writes the choice, as far as that is asked for.
func (t *tuning) finish() error {
	for _, f := range t.families {
		if err := t.print(f); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if t.o.svg != "" {
		if err := t.draw(); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if t.o.write == "" {
		return nil
	}
	keys := map[string]string{}
	for _, f := range t.families {
		keys[map[int]string{32: "strides4", 128: "strides6"}[f.width]] = flavors.FormatStrides(f.Chosen)
		keys["flavor"] = f.Flavor
	}
	for _, f := range t.families {
		if f.Flavor != keys["flavor"] {
			return fmt.Errorf("--write: IPv4 and IPv6 are best off with different flavors, and a service has one: choose with --flavor")
		}
	}
	if err := setInConfig(t.o.write, serveName, keys); err != nil {
		return fmt.Errorf("--write: %w", err)
	}
	t.app.log.Info("choice written", "file", t.o.write, "keys", keys)
	return nil
}

func (t *tuning) print(f *tuneFamily) error {
	if t.o.asJSON {
		return json.NewEncoder(t.app.stdout).Encode(f.tuned)
	}
	of := "fitted to it"
	if !f.Fitted {
		of = "that of " + f.Model
	}
	if _, err := fmt.Fprintf(t.app.stdout, "%s: %d prefixes, %s keys, %s on %s (model: %s), trees of up to %s, ranked in %.2f s\n",
		f.Family, f.Prefixes, f.Keys, f.Engine, f.Processor, of, formatBudget(f.Budget), f.Seconds); err != nil {
		return err
	}
	w := tabwriter.NewWriter(t.app.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "nodes\tMB\tpredicted M/s\tmeasured M/s\t  strides\n")
	for _, l := range f.Lists {
		measured, note := "", ""
		if l.Measured != nil {
			measured = fmt.Sprintf("%.1f", *l.Measured/1e6)
		}
		if l.Flavor != f.Flavor {
			note += " " + l.Flavor
		}
		if l.Fixed {
			note += " (by hand)"
		}
		if !t.fits(&l) {
			note += " (over the budget)"
		}
		if flavors.FormatStrides(l.Strides) == flavors.FormatStrides(f.Chosen) && l.Flavor == f.Flavor {
			note += " <- chosen"
		}
		fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%s\t  %s%s\n", l.Nodes, float64(l.Bytes)/1e6, l.Predicted/1e6, measured, flavors.FormatStrides(l.Strides), note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if f.Correlation != nil {
		_, err := fmt.Fprintf(t.app.stdout, "rank correlation of prediction and measurement: %.3f over %d lists\n", *f.Correlation, len(f.ns))
		return err
	}
	return nil
}

// Colours of the picture: told apart by people who see none too, since the forms differ.
var (
	colourPredicted = color.RGBA{R: 0x88, G: 0x88, B: 0x88, A: 0xff}
	colourMeasured  = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	colourFixed     = color.RGBA{R: 0x2c, G: 0xa0, B: 0x2c, A: 0xff}
	colourChosen    = color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}
)

// draw makes an SVG with a plot for each family: bytes against rate.
func (t *tuning) draw() error {
	const width, height = 18 * vg.Centimeter, 11 * vg.Centimeter
	canvas := vgsvg.New(width, height*vg.Length(len(t.families)))
	tiles := draw.Tiles{Rows: len(t.families), Cols: 1, PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadLeft: vg.Millimeter, PadRight: 3 * vg.Millimeter, PadY: 5 * vg.Millimeter}
	for i, f := range t.families {
		p, err := f.plot()
		if err != nil {
			return err
		}
		p.Draw(tiles.At(draw.New(canvas), 0, i))
	}
	return t.app.writeOutput(t.o.svg, func(w *bufio.Writer) error {
		_, err := canvas.WriteTo(w)
		return err
	})
}

func (f *tuneFamily) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, %d prefixes, %s keys, %s on %s", f.Family, f.Prefixes, f.Keys, f.Engine, f.Processor)
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Label.Text, p.Y.Label.Text = "MB of the tree", "M lookups/s"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(doublings)
	p.Legend.Padding, p.Legend.XOffs, p.Legend.ThumbnailWidth = vg.Millimeter, 2*vg.Millimeter, 5*vg.Millimeter
	p.Legend.Left = true // names have room to the right, in whatever font a viewer has
	add := func(name string, c color.Color, shape draw.GlyphDrawer, of func(l *tunedList) (rate float64, ok bool)) error {
		var points plotter.XYs
		for i := range f.Lists {
			l := &f.Lists[i]
			if rate, ok := of(l); ok && l.Flavor == f.Flavor {
				points = append(points, plotter.XY{X: float64(l.Bytes) / 1e6, Y: rate / 1e6})
			}
		}
		if len(points) == 0 {
			return nil
		}
		s, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: c, Shape: shape, Radius: 2.5}
		p.Add(s)
		p.Legend.Add(name, s)
		return nil
	}
	p.Add(plotter.NewGrid())
	for _, x := range []struct {
		name  string
		color color.Color
		shape draw.GlyphDrawer
		of    func(l *tunedList) (float64, bool)
	}{
		{"predicted", colourPredicted, draw.RingGlyph{}, func(l *tunedList) (float64, bool) { return l.Predicted, true }},
		{"measured", colourMeasured, draw.CircleGlyph{}, func(l *tunedList) (float64, bool) { return l.rate(), l.Measured != nil }},
		{"by hand", colourFixed, draw.TriangleGlyph{}, func(l *tunedList) (float64, bool) { return l.rate(), l.Fixed }},
		{"chosen: " + shortList(f.Chosen), colourChosen, draw.BoxGlyph{}, func(l *tunedList) (float64, bool) {
			return l.rate(), flavors.FormatStrides(l.Strides) == flavors.FormatStrides(f.Chosen)
		}},
	} {
		if err := add(x.name, x.color, x.shape, x.of); err != nil {
			return nil, err
		}
	}
	// From 0 on: rates compare by their height, and there is room for the legend below.
	p.Y.Min, p.Y.Max = 0, 1.05*p.Y.Max
	p.X.Min, p.X.Max = math.Exp2(math.Floor(math.Log2(p.X.Min))), math.Exp2(math.Ceil(math.Log2(p.X.Max)))
	return p, nil
}

// shortList writes a list without the strides of 8 at its end, of which IPv6 has ten.
func shortList(list []int) string {
	end := len(list)
	for end > 3 && list[end-1] == 8 && list[end-2] == 8 {
		end--
	}
	if end == len(list) {
		return flavors.FormatStrides(list)
	}
	return flavors.FormatStrides(list[:end]) + ",..."
}

// doublings marks the powers of two of a logarithmic scale.
func doublings(from, to float64) (ticks []plot.Tick) {
	for x := math.Exp2(math.Ceil(math.Log2(from))); x <= to*1.001; x *= 2 {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', 4, 64)})
	}
	return ticks
}
