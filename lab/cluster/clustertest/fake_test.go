package clustertest_test

import (
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/state"
)

func TestFake(t *testing.T) {
	e := clustertest.NewEngine()
	dir := &state.Dir{Lab: "demo", Path: t.TempDir()}
	f := clustertest.NewFake(e, dir)
	image := lab.Image{Ref: "a:1", Digest: "sha256:1"}
	clustertest.Contract(t, clustertest.Subject{
		Clusters: f, Other: clustertest.NewFake(e, &state.Dir{Lab: "demo-other", Path: t.TempDir()}), State: dir, NodeRef: "lab/node:v1", Image: image, Limit: time.Minute,
		Holds: func(_ *testing.T, name string) bool { return slices.Contains(f.Images(name), image) },
		Stop:  func(_ *testing.T, node string) { f.Stop(node) },
		Pause: func(_ *testing.T, node string) { f.Pause(node) },
		Silence: func(_ *testing.T, node string) func() {
			f.Silence(node, true)
			return func() { f.Silence(node, false) }
		},
		Unmark: func(_ *testing.T, node string) { f.Unmark(node) },
		Expire: func(_ *testing.T, node string) {
			f.Expire(node, time.Now().Add(-time.Hour))
			f.Stop(node)
		},
		Identity: func(_ *testing.T, name string) string { return f.Identity(name) },
	})
}
