package referencehost_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// BenchmarkForkOfALongRun forks a run of 10,000 events at its last node event, in both stores and both modes.
func BenchmarkForkOfALongRun(b *testing.B) {
	for name, onStore := range map[string]func(*referencehost.Config){
		"memory": func(*referencehost.Config) {},
		"file": func(c *referencehost.Config) {
			c.Store = openStore(b, filepath.Join(b.TempDir(), "store"))
		},
	} {
		for _, mode := range []string{"replay", "branch"} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				h := start(b, onStore, func(c *referencehost.Config) {
					c.NodeTypes = append(c.NodeTypes, referencehost.NodeType{ID: "example.talk", Run: func(_ ctx, call *referencehost.Call) (referencehost.Values, error) {
						for range 9996 {
							if err := call.Log("info", "a line"); err != nil {
								return nil, err
							}
						}
						return nil, nil
					}})
					c.Unlisted = append(c.Unlisted, workflow("talkative", wnode("a", "example.talk")))
				})
				_, path := h.create(`{"workflowId":"talkative"}`)
				for h.call("GET", path, "").json(b)["status"] != "completed" {
				}
				for b.Loop() {
					r := h.call("POST", path+":fork", `{"mode":"`+mode+`","fromSeq":9999}`)
					require.Equal(b, http.StatusCreated, r.StatusCode, string(r.body))
				}
			})
		}
	}
}
