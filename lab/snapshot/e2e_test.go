//go:build e2e

package snapshot_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/snapshot"
	"homelab/lab/snapshot/snapshottest"
)

// nodeRef returns the node image to test with: LAB_E2E_NODE, or one in the engine.
func nodeRef(t *testing.T, d *docker.Docker) string {
	t.Helper()
	if ref := os.Getenv("LAB_E2E_NODE"); ref != "" {
		return ref
	}
	out := output(t, d, "image", "ls", "--filter", "reference=lab/node", "--filter", "reference=kindest/node", "--format", "{{.Repository}}:{{.Tag}}")
	ref, _, _ := strings.Cut(out, "\n")
	if ref == "" {
		t.Fatal("no node image in the engine: run lab bundle build")
	}
	return ref
}

func output(t *testing.T, d *docker.Docker, args ...string) string {
	t.Helper()
	out, err := d.Output(context.WithoutCancel(t.Context()), nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestSnapshotContract runs the contract on containers like those of Kind and the forge: with an anonymous and a named volume.
func TestSnapshotContract(t *testing.T) {
	const name, node, other = "e2e-snapshot", "e2e-snapshot-hub-control-plane", "lab-e2e-snapshot-forge"
	d := docker.New()
	ref := nodeRef(t, d)
	network := lab.NetworkName(name)
	output(t, d, "network", "create", network)
	t.Cleanup(func() { output(t, d, "network", "rm", network) })
	gone := func(t *testing.T) {
		output(t, d, "rm", "--force", "--volumes", node, other)
		output(t, d, "volume", "rm", "--force", other)
	}
	snapshottest.Run(t, func(t *testing.T) snapshottest.Bench {
		s := snapshot.New(name, d)
		t.Cleanup(func() {
			gone(t)
			list, err := s.List(context.Background())
			for _, o := range list {
				err = errors.Join(err, s.Remove(context.Background(), o.Name))
			}
			if err := errors.Join(err, s.Clean(context.Background())); err != nil {
				t.Error(err)
			}
			left := output(t, d, "volume", "ls", "--quiet", "--filter", "label="+lab.LabelName+"="+name) + output(t, d, "image", "ls", "--quiet", "lab-"+name+"-snapshot")
			left += output(t, d, "ps", "--all", "--quiet", "--filter", "label="+lab.LabelName+"="+name)
			// removed volumes that a helper made again, which the engine does not list
			left += output(t, d, "run", "--rm", "--entrypoint", "sh", "--volume", "/:/host:ro", ref, "-c", "ls /host"+strings.TrimSpace(output(t, d, "info", "--format", "{{.DockerRootDir}}"))+"/volumes | grep ^lab-"+name+"-snapshot || true")
			if left != "" {
				t.Errorf("left over: %s", left)
			}
		})
		output(t, d, "volume", "create", "--label", lab.LabelName+"="+name, "--label", lab.LabelPart+"=forge", other)
		sleep := []string{"--network", network, "--entrypoint", "sleep", ref, "infinity"}
		output(t, d, append([]string{
			"run", "--detach", "--privileged", "--name", node, "--label", "io.x-k8s.kind.role=control-plane", "--volume", "/var", "--publish", "127.0.0.1:0:6443",
		}, sleep...)...)
		output(t, d, append([]string{"run", "--detach", "--name", other, "--volume", other + ":/data"}, sleep...)...)
		output(t, d, "exec", node, "mkdir", "-p", "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256")
		places := map[string][]string{
			node:  {"/var/lib/etcd.db", "/etc/written", "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/text"},
			other: {"/data/written", "/root/written"},
		}
		return snapshottest.Bench{
			Snapshots: s, Node: node, Other: other, Network: network, Remove: gone,
			Write: func(t *testing.T, container, text string) { // renamed into place, as containerd does
				for _, file := range places[container] {
					output(t, d, "exec", container, "sh", "-c", `printf '%s' "$1" >"$2.new" && mv "$2.new" "$2"`, "sh", text, file)
				}
			},
			Read: func(t *testing.T, container string) string {
				text := output(t, d, "exec", container, "cat", places[container][0])
				for _, file := range places[container] {
					if other := output(t, d, "exec", container, "cat", file); other != text {
						t.Errorf("%s of %s contains %q, want %q as elsewhere", file, container, other, text)
					}
				}
				return text
			},
			Running: func(t *testing.T, container string) bool {
				return strings.TrimSpace(output(t, d, "container", "inspect", "--format", "{{.State.Status}}", container)) == "running"
			},
			Fill: func(t *testing.T) { output(t, d, "exec", node, "sh", "-c", "head -c 500M /dev/urandom >/var/much") },
			Copying: func(t *testing.T) {
				for deadline := time.Now().Add(20 * time.Second); output(t, d, "ps", "--quiet", "--filter", "name=^/lab-"+name+"-snapshot$") == ""; {
					if time.Now().After(deadline) {
						t.Error("no helper copies")
						return
					}
				}
			},
			Spoil: func(t *testing.T, o snapshot.Snapshot) {
				generation, _, _ := strings.Cut(strings.TrimPrefix(o.Made[0].Ref, "lab-"+name+"-snapshot:"), "-")
				output(t, d, "run", "--rm", "--entrypoint", "sh", "--volume", "lab-"+name+"-snapshot-"+generation+":/v", ref, "-c", `printf '{"name":\n"bad' >/v/snapshot.json`)
			},
			Prune: func(t *testing.T) {
				refs := strings.Fields(output(t, d, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "lab-"+name+"-snapshot"))
				if len(refs) == 0 {
					t.Fatal("no images")
				}
				output(t, d, append([]string{"image", "rm"}, refs...)...)
			},
		}
	})
}
