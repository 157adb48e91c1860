package tune

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
)

func testModel(processor string, wide bool, width int, caches ...int) *Model {
	m := &Model{
		Machine: Machine{Engine: EngineCPU, Processor: processor, Wide: wide, Group: 8, Block: 256}, Flavor: flavors.Pushed, Width: width, Window: 16,
		Weights: map[string]float64{featureKey: 1},
	}
	for _, bytes := range caches {
		m.Machine.Caches = append(m.Machine.Caches, Cache{bytes, lineCPU})
		m.Shares = append(m.Shares, 0.5)
	}
	return m
}

func TestTheModelOfTheMachineMostAlike(t *testing.T) {
	small, large, narrow := testModel("a", true, 32, 1<<15, 1<<20), testModel("b", true, 32, 1<<15, 1<<25), testModel("c", false, 32, 1<<15, 1<<20)
	models := Models{small, large, narrow, testModel("a", true, 128, 1<<15, 1<<20)}
	if m, fitted := models.For(large.Machine, flavors.Pushed, 32); m != large || !fitted {
		t.Errorf("the model of the machine itself: %+v, fitted %v", m, fitted)
	}
	other := testModel("d", true, 32, 1<<16, 1<<24).Machine
	m, fitted := models.For(other, flavors.Pushed, 32)
	if fitted || m.Weights[featureKey] != 1 || !reflect.DeepEqual(m.Machine, other) {
		t.Errorf("a machine that nobody measured: %+v, fitted %v", m, fitted)
	}
	large.Weights[featureKey] = 2
	if m, _ = models.For(other, flavors.Pushed, 32); m.Weights[featureKey] != 2 {
		t.Error("not the model of the machine with the caches most alike")
	}
	narrow.Weights[featureKey] = 3
	if m, _ = models.For(testModel("e", false, 32, 1<<15, 1<<25).Machine, flavors.Pushed, 32); m.Weights[featureKey] != 3 {
		t.Error("not the model of the other machine without wide instructions")
	}
	fewer := testModel("f", true, 32, 1<<15).Machine
	if m, _ = models.For(fewer, flavors.Pushed, 32); len(m.Machine.Caches) != len(m.Shares) {
		t.Errorf("%d caches and %d shares", len(m.Machine.Caches), len(m.Shares))
	}
	for _, x := range []struct {
		m      Machine
		flavor flavors.Flavor
		width  int
	}{{Machine{Engine: EngineCUDA}, flavors.Pushed, 32}, {small.Machine, flavors.List, 32}, {small.Machine, flavors.Pushed, 64}} {
		if m, fitted := models.For(x.m, x.flavor, x.width); m != nil || fitted {
			t.Errorf("a model for %+v", x)
		}
	}
}

func TestModelsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.json")
	if ms, err := Load(path); err != nil || len(ms) != len(Shipped()) {
		t.Errorf("a file that is not there: %d models, error %v", len(ms), err)
	}
	a, b := testModel("a", true, 32, 1<<15), testModel("a", true, 128, 1<<15)
	if err := Save(path, a, b); err != nil {
		t.Fatal(err)
	}
	again := testModel("a", true, 32, 1<<15)
	again.Weights[featureKey] = 7
	if err := Save(path, again); err != nil {
		t.Fatal(err)
	}
	ms, err := Load(path)
	if err != nil || len(ms) != 2+len(Shipped()) {
		t.Fatalf("%d models, error %v", len(ms), err)
	}
	if m, fitted := ms.For(a.Machine, flavors.Pushed, 32); !fitted || m.Weights[featureKey] != 7 {
		t.Errorf("%+v", m)
	}
	for _, c := range []struct{ text, want string }{
		{"{", "unexpected"}, {"[null]", "null"}, {`[{"engine":"cpu"}]`, "unknown field"},
		{`[{"machine":{"engine":"tpu"}}]`, "engine"},
		{`[{"machine":{"engine":"cpu","group":8,"block":8,"caches":[{"bytes":1,"line":4}]},"flavor":"pushed","bits":32,"shares":[1],"weights":{"read":1}}]`, "window"},
		{`[{"machine":{"engine":"cpu","group":8,"block":8,"caches":[{"bytes":1,"line":4}]},"flavor":"pushed","bits":32,"window":16,"shares":[]}]`, "shares"},
		{`[{"machine":{"engine":"cpu","group":8,"block":8,"caches":[{"bytes":0,"line":4}]},"flavor":"pushed","bits":32,"window":16,"shares":[1]}]`, "cache 1"},
		{`[{"machine":{"engine":"cpu","group":8,"block":8,"caches":[{"bytes":1,"line":4}]},"flavor":"pushed","bits":32,"window":16,"shares":[1],"weights":{"read":-1}}]`, "weight"},
		{`[{"machine":{"engine":"cpu","group":8,"block":8,"caches":[{"bytes":1,"line":4}]},"flavor":"pushed","bits":32,"window":16,"shares":[1],"weights":{}}]`, "no weight"},
		{`[{"machine":{"engine":"cpu","group":8,"block":8,"caches":[{"bytes":1,"line":40}]},"flavor":"pushed","bits":32,"window":16,"shares":[1],"weights":{"read":1}}]`, "cache 1"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", c.text, err)
		}
		if err := Save(path, a); err == nil {
			t.Errorf("%s was overwritten", c.text)
		}
	}
}

func TestCachesOfTheSystem(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ kind, size string }{{"Data", "48K"}, {"Instruction", "32K"}, {"Unified", "1024K"}, {"Unified", "33554432"}} {
		index := filepath.Join(dir, "index"+string(rune('0'+i)))
		if err := os.Mkdir(index, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"type": c.kind, "size": c.size} {
			if err := os.WriteFile(filepath.Join(index, name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := systemCaches(dir); !reflect.DeepEqual(got, []int{48 << 10, 1 << 20, 32 << 20}) {
		t.Errorf("%v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "index0", "size"), []byte("much\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := systemCaches(dir); got != nil {
		t.Errorf("a size that is no number: %v", got)
	}
	m := ThisCPU()
	if len(m.Caches) < 2 || m.Caches[len(m.Caches)-1].Line != linePages || m.Processor == "" {
		t.Errorf("%+v", m)
	}
}
