package main

import (
	"encoding/json"
	"testing"
)

func TestStatsNameTheGPUs(t *testing.T) {
	list := file(t, "list.txt", testList)
	withGPUs(t, 3, nil)
	for devices, want := range map[string]int{"1": 1, "0,2": 2, "all": 3} {
		url, stop := serve(t, "--rib", list, "--engine", "cuda", "--devices", devices)
		await(t, url+"/readyz")
		_, body := get(t, url+"/api/v1/stats")
		var s struct {
			Engine string
			GPUs   []struct {
				Name   string
				Memory uint64 `json:"memory_bytes"`
			}
			Memory struct {
				Accelerated struct {
					Bytes uint64 `json:"bytes_per_gpu"`
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.GPUs) != want || s.GPUs[0].Name != "simulator" || s.GPUs[0].Memory != 16<<30 || s.Memory.Accelerated.Bytes == 0 {
			t.Errorf("--devices %s: %s", devices, body)
		}
		if code := stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	}
	url, stop := serve(t, "--rib", list, "--engine", "cpu")
	defer stop()
	await(t, url+"/readyz")
	var s struct{ GPUs []any }
	if _, body := get(t, url+"/api/v1/stats"); json.Unmarshal([]byte(body), &s) != nil || s.GPUs == nil || len(s.GPUs) != 0 {
		t.Errorf("without a GPU: %s", body)
	}
}
