package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
)

// A square with a diagonal of the same cost as two sides, and an island.
const testTopology = `{
"nodes": [
	{"name": "paris", "addresses": ["192.0.2.1"]},
	{"name": "milan"}, {"name": "rome", "addresses": ["192.0.2.3"]}, {"name": "berlin"}, {"name": "island"}
],
"links": [
	{"name": "pm", "from": "paris", "to": "milan", "metric": 10},
	{"name": "mr", "from": "milan", "to": "rome", "metric": 10},
	{"name": "pr", "from": "paris", "to": "rome", "metric": 20},
	{"name": "pb", "from": "paris", "to": "berlin", "metric": 7},
	{"name": "br", "from": "berlin", "to": "rome", "metric": 100}
]}`

// lines gives a table with one blank for many.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			all = append(all, strings.Join(fields, " "))
		}
	}
	return all
}

func TestIGPCommands(t *testing.T) {
	path := file(t, "topology.json", testTopology)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"paths --from paris", []string{
			"From paris", "TO DISTANCE FIRST HOPS", "milan 10 -pm-> milan",
			"rome 20 -pm-> milan, -pr-> rome", "berlin 7 -pb-> berlin", "island - -",
		}},
		{"paths --from 192.0.2.1 --to 192.0.2.3", []string{
			"From paris", "TO DISTANCE FIRST HOPS", "rome 20 -pm-> milan, -pr-> rome",
			"Paths to rome", "paris -pr-> rome", "paris -pm-> milan -mr-> rome",
		}},
		{"paths --from paris --to rome --to paris --paths 1", []string{
			"From paris", "TO DISTANCE FIRST HOPS", "rome 20 -pm-> milan, -pr-> rome", "paris 0 -",
			"Paths to rome", "paris -pr-> rome", "and others: ask for more with --paths",
		}},
		{"paths --from berlin --to rome --fail pb", []string{
			"From berlin without pb", "TO DISTANCE FIRST HOPS", "rome 100 -br-> rome", "Paths to rome", "berlin -br-> rome",
		}},
		{"matrix --to paris --to rome --from milan --from island --from berlin", []string{
			"FROM paris rome NEAREST", "milan 10 10 paris, rome", "island - - -", "berlin 7 27 paris",
		}},
		{"matrix --from milan --to rome --fail milan--rome", []string{"FROM rome NEAREST", "milan 30 rome"}},
		{"whatif --top 2 --exit paris --exit rome", []string{
			"LINK USERS PAIRS FARTHER LOST MOST EXITS CHANGED BETWEEN",
			"pb 4 6 0 113 1 paris to berlin", "pm 4 4 0 20 1 paris to milan", "2 of 5 links, seen from 5 nodes",
		}},
		{"whatif --fail pm --fail mr --from milan --exit paris", []string{
			"Without pm, mr (paris to milan, milan to rome): 1 nodes used it, 3 pairs are farther apart, by 0 at most, 3 pairs of them have no path",
			"FROM NODES FARTHER LOST MOST", "milan 3 3 0",
			"From milan", "TO WAS IS FIRST HOPS WERE FIRST HOPS ARE",
			"paris 10 - -pm-> paris -", "rome 10 - -mr-> rome -", "berlin 17 - -pm-> paris -",
			"FROM TOOK EXIT AT TAKES AT", "milan paris 10 - -",
		}},
		{"whatif --fail pr --from paris", []string{
			"Without pr (paris to rome): 1 nodes used it, 0 pairs are farther apart, by 0 at most, 0 pairs of them have no path",
			"From paris", "TO WAS IS FIRST HOPS WERE FIRST HOPS ARE", "rome 20 20 -pm-> milan, -pr-> rome -pm-> milan",
		}},
	} {
		args := append([]string{"igp"}, strings.Fields(c.args)...)
		stdout, _ := mustCall(t, "", append(args, "--topology", path)...)
		if got := lines(stdout); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.args, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		again, _ := mustCall(t, testTopology, append(args, "--topology", "-")...)
		if again != stdout {
			t.Errorf("%s: from stdin:\n%s", c.args, again)
		}
		asJSON, _ := mustCall(t, "", append(args, "--topology", path, "--json")...)
		for d := json.NewDecoder(strings.NewReader(asJSON)); d.More(); {
			var v map[string]any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s: %v in %s", c.args, err, asJSON)
			}
		}
	}
}

func TestIGPAnswersAsJSON(t *testing.T) {
	path := file(t, "topology.json", testTopology)
	compact := func(args ...string) string {
		stdout, _ := mustCall(t, "", append(args, "--topology", path, "--json")...)
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(stdout)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, c := range []struct{ got, want string }{
		{compact("igp", "paths", "--from", "paris", "--to", "rome", "--to", "island"),
			`{"from":"paris","to":[{"node":"rome","distance":20,"first_hops":[{"link":"pm","node":"milan"},{"link":"pr","node":"rome"}],"paths":[[{"link":"pr","node":"rome"}],[{"link":"pm","node":"milan"},{"link":"mr","node":"rome"}]]},{"node":"island","distance":null,"first_hops":[]}]}`},
		{compact("igp", "matrix", "--from", "milan", "--to", "rome", "--to", "island"),
			`{"from":"milan","distances":{"island":null,"rome":10}}`},
		{compact("igp", "whatif", "--fail", "pb", "--from", "berlin", "--exit", "paris", "--exit", "rome"),
			`{"from":1,"exits":["paris","rome"],"failures":[{"links":["pb"],"users":1,"farther":3,"lost":0,"most":113,"roots":[{"from":"berlin","farther":3,"lost":0,"most":113}],"exits":[{"from":"berlin","was":{"cost":7,"exits":["paris"]},"is":{"cost":100,"exits":["rome"]}}],"ways":[` +
				`{"to":"paris","was":{"distance":7,"first_hops":[{"link":"pb","node":"paris"}]},"is":{"distance":120,"first_hops":[{"link":"br","node":"rome"}]}},` +
				`{"to":"milan","was":{"distance":17,"first_hops":[{"link":"pb","node":"paris"}]},"is":{"distance":110,"first_hops":[{"link":"br","node":"rome"}]}},` +
				`{"to":"rome","was":{"distance":27,"first_hops":[{"link":"pb","node":"paris"}]},"is":{"distance":100,"first_hops":[{"link":"br","node":"rome"}]}}]}]}`},
	} {
		if c.got != c.want {
			t.Errorf("%s\nwant\n%s", c.got, c.want)
		}
	}
}

func TestIGPSaysWhatIsWrong(t *testing.T) {
	path := file(t, "topology.json", testTopology)
	broken := file(t, "broken.json", strings.Replace(testTopology, `"to": "milan"`, `"to": "nice"`, 1))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"paths --from paris", exitUsage, `required flag(s) "topology" not set`},
		{"paths --topology " + path, exitUsage, `required flag(s) "from" not set`},
		{"paths --from Pari --topology " + path, exitFailed, `--from: there is no node "Pari"; near names: "paris"`},
		{"paths --from paris --to 198.51.100.1 --topology " + path, exitFailed, "--to: no node announces 198.51.100.1"},
		{"paths --from paris --paths -1 --topology " + path, exitUsage, "--paths -1"},
		{"paths --from paris --topology " + path + ".x", exitFailed, path + ".x"},
		{"paths --from paris --topology " + broken, exitFailed, "topology of " + broken + `: line 7: link 0 ("pm"): its node "nice" is not there`},
		{"matrix --fail pp --topology " + path, exitFailed, `--fail: there is no link "pp"; near names: "pm"`},
		{"matrix --engine fpga --topology " + path, exitUsage, `--engine "fpga"`},
		{"matrix --device -1 --topology " + path, exitUsage, "--device -1"},
		{"whatif --fail milan--berlin --topology " + path, exitFailed, `--fail: no link joins "milan" and "berlin"`},
		{"whatif --exit oslo --topology " + path, exitFailed, `--exit: there is no node "oslo"`},
		{"whatif --top -1 --topology " + path, exitUsage, "--top -1"},
		{"paths --from paris --max-metric 10 --topology " + path, exitFailed, "line 9: link 2 (\"pr\"): metric 20: 10 at most"},
		{"frobnicate", exitUsage, "frobnicate"},
	} {
		code, _, stderr := call(t, "", append([]string{"igp"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s\nwant %d, %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if code, _, stderr := call(t, testTopology, "igp", "paths", "--from", "x", "--topology", "-"); code != exitFailed || !strings.Contains(stderr, `"x"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestIGPOfRealTopologies(t *testing.T) {
	path := fixtures.DataFile(t, "igp/rocketfuel/rf1221_real_hard.graph")
	stdout, _ := mustCall(t, "", "igp", "matrix", "--topology", path)
	if n := len(lines(stdout)); n != 105 {
		t.Errorf("%d lines for 104 nodes", n)
	}
	stdout, _ = mustCall(t, "", "igp", "whatif", "--topology", path, "--top", "0")
	if n := len(lines(stdout)); n != 153 {
		t.Errorf("%d lines for 151 links", n)
	}
}
