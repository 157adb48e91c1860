package linear_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// curve is a line of a plot: a y for each x.
type curve struct {
	name string
	y    []float64
}

// plot draws curves as SVG, with axes that begin at 0, and the curves' names beside them.
func plot(title, xName, yName string, x []float64, curves []curve) []byte {
	const width, height, left, right, top, bottom = 720, 420, 60, 110, 40, 50
	most := 0.0
	for _, c := range curves {
		most = max(most, slices.Max(c.y))
	}
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1e-9))))
	for _, f := range []float64{0.1, 0.2, 0.5, 1} {
		if most/(step*f) <= 8 {
			step *= f
			break
		}
	}
	most = step * math.Ceil(most/step)
	across := func(v float64) float64 { return left + v/slices.Max(x)*(width-left-right) }
	up := func(v float64) float64 { return height - bottom - v/most*(height-top-bottom) }
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	var w bytes.Buffer
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, escape(s))
	}
	fmt.Fprintf(&w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height)
	fmt.Fprintf(&w, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	text(left, top/2, "start", title)
	for i := 0; float64(i)*step <= most*1.0001; i++ {
		y := up(float64(i) * step)
		fmt.Fprintf(&w, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", left, y, width-right)
		text(left-6, y+4, "end", fmt.Sprintf("%.4g", float64(i)*step))
	}
	for _, v := range x {
		text(across(v), height-bottom+18, "middle", fmt.Sprintf("%.3g", v))
	}
	text((left+width-right)/2, height-10, "middle", xName)
	text(left-6, top-8, "end", yName)
	fmt.Fprintf(&w, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"black\"/>\n", left, top, height-bottom, width-right)
	for i, c := range curves {
		color := []string{"#1b6ca8", "#c0392b", "#27864a", "#8e44ad", "#b9770e"}[i%5]
		var points []string
		for j, y := range c.y {
			points = append(points, fmt.Sprintf("%.1f,%.1f", across(x[j]), up(y)))
		}
		fmt.Fprintf(&w, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", strings.Join(points, " "), color)
		fmt.Fprintf(&w, "<g fill=\"%s\">\n", color)
		text(width-right+8, top+16*float64(i+1), "start", c.name)
		fmt.Fprint(&w, "</g>\n")
	}
	fmt.Fprint(&w, "</svg>\n")
	return w.Bytes()
}

// A plot is well-formed, and its lines lie where the numbers are.
func TestPlot(t *testing.T) {
	svg := plot("a < b", "x", "y", []float64{1, 2, 4}, []curve{{"up", []float64{0, 5, 10}}, {"flat", []float64{10, 10, 10}}})
	d := xml.NewDecoder(bytes.NewReader(svg))
	lines := []string{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines = append(lines, e.Attr[0].Value)
		}
	}
	want := []string{"197.5,370.0 335.0,205.0 610.0,40.0", "197.5,40.0 335.0,40.0 610.0,40.0"}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
}
