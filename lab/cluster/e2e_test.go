//go:build e2e

package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/docker"
)

// nodeRef is the node image that the engine has: the one that `lab bundle build` made last.
func nodeRef(t *testing.T, d *docker.Docker) string {
	t.Helper()
	out, err := d.Output(t.Context(), nil, "image", "ls", "--filter", "reference=lab/node", "--filter", "reference=kindest/node", "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		t.Fatal(err)
	}
	ref, _, _ := strings.Cut(string(out), "\n")
	if ref == "" {
		t.Fatal("no node image in the engine: run lab bundle build")
	}
	return ref
}

func host(t *testing.T, d *docker.Docker) cluster.Host {
	t.Helper()
	info, err := d.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Harmless where it is not needed: pods then keep the OOM scores that they inherit.
	return cluster.Host{CgroupV1: info.CgroupVersion == "1", NoOOMAdjust: true}
}

// archive makes a tiny image in the engine, saves it, and returns it as the supply would.
func archive(t *testing.T, d *docker.Docker, ref string) lab.Image {
	t.Helper()
	if _, err := d.Output(t.Context(), strings.NewReader(""), "import", "-", ref); err == nil {
		t.Fatal("docker imported an empty archive")
	}
	var empty bytes.Buffer
	empty.Write(make([]byte, 1024)) // the end of a tar archive
	if _, err := d.Output(t.Context(), &empty, "import", "-", ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.Output(context.Background(), nil, "image", "rm", ref) })
	id, _, err := d.ImageID(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/image.tar"
	if _, err := d.Output(t.Context(), nil, "save", "--output", file, ref); err != nil {
		t.Fatal(err)
	}
	return lab.Image{Name: "empty", Ref: ref, Digest: id, Archive: file}
}

func say(t *testing.T) lab.Progress {
	began := time.Now()
	return func(s string) { t.Logf("%5.1f s  %s", time.Since(began).Seconds(), s) }
}

func TestKind(t *testing.T) {
	d := docker.New()
	k := cluster.NewKind("e2e-k", t.TempDir(), d, host(t, d))
	image := archive(t, d, "docker.io/lab/e2e-empty:1")
	t.Cleanup(func() {
		for _, name := range []string{"dev", "half"} {
			if err := k.Delete(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	clustertest.Contract(t, clustertest.Subject{
		Clusters: k, Other: cluster.NewKind("e2e-other", t.TempDir(), d, host(t, d)), NodeRef: nodeRef(t, d), Image: image, Limit: 5 * time.Minute,
		Holds: func(t *testing.T, name string) bool {
			out, err := d.Exec(t.Context(), lab.KindName("e2e-k", name)+"-control-plane", nil, "crictl", "images", "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			return json.Valid(out) && strings.Contains(string(out), image.Digest)
		},
		Stop: func(t *testing.T, node string) {
			if _, err := d.Output(t.Context(), nil, "stop", node); err != nil {
				t.Fatal(err)
			}
		},
	})
	if left, err := d.Containers(t.Context(), "name=e2e-k-"); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTimes makes a cluster with the images named in LAB_E2E_IMAGES (REF=ARCHIVE ...) and says when what happened.
func TestTimes(t *testing.T) {
	d := docker.New()
	h := host(t, d)
	h.NoOOMAdjust = os.Getenv("LAB_E2E_OOM") != ""
	k := cluster.NewKind("e2e-t", t.TempDir(), d, h)
	spec := cluster.Spec{Cluster: lab.Cluster{Name: "dev", Kind: []byte(os.Getenv("LAB_E2E_KIND"))}, NodeRef: nodeRef(t, d), Images: func(context.Context) ([]lab.Image, error) {
		var images []lab.Image
		for _, pair := range strings.Fields(os.Getenv("LAB_E2E_IMAGES")) {
			ref, file, _ := strings.Cut(pair, "=")
			images = append(images, lab.Image{Ref: ref, Digest: "sha256:0", Archive: file})
		}
		return images, nil
	}}
	if os.Getenv("LAB_E2E_KEEP") == "" {
		t.Cleanup(func() {
			if err := errors.Join(k.Delete(context.Background(), "dev"), k.RemoveNetwork(context.Background())); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	if err := k.Create(t.Context(), spec, say(t)); err != nil {
		var e *lab.Error
		if errors.As(err, &e) {
			t.Log(strings.Join(e.Details, "\n"))
		}
		t.Fatal(err)
	}
	t.Logf("created in %s, for %s of processor time", time.Since(began), processorTime(t, d, "e2e-t-dev-control-plane"))
	began = time.Now()
	states, err := k.Observe(t.Context())
	t.Logf("observed in %s: %+v, %v", time.Since(began), states, err)
}

// processorTime is what a container has used so far, on a machine with cgroup v1 whose engine is local; else 0.
func processorTime(t *testing.T, d *docker.Docker, name string) time.Duration {
	t.Helper()
	out, err := d.Exec(t.Context(), name, nil, "cat", "/sys/fs/cgroup/cpuacct/cpuacct.usage")
	if err != nil {
		return 0
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}
