package clustertest_test

import (
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster/clustertest"
)

func TestFake(t *testing.T) {
	e := clustertest.NewEngine()
	f := clustertest.NewFake(e, "demo", t.TempDir())
	image := lab.Image{Ref: "a:1", Digest: "sha256:1"}
	clustertest.Contract(t, clustertest.Subject{
		Clusters: f, Other: clustertest.NewFake(e, "demo-other", t.TempDir()), NodeRef: "lab/node:v1", Image: image, Limit: time.Minute,
		Holds: func(_ *testing.T, name string) bool { return slices.Contains(f.Images(name), image) },
		Stop:  func(_ *testing.T, node string) { f.Stop(node) },
	})
}
