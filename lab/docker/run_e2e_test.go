//go:build e2e

package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"homelab/lab"
)

// TestCancelledHelperEnds cancels helpers from before they are created until they write. Their volumes, removed at once, must not come back.
func TestCancelledHelperEnds(t *testing.T) {
	d := New()
	output := func(args ...string) string {
		t.Helper()
		out, err := d.Output(context.WithoutCancel(t.Context()), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	node := os.Getenv("LAB_E2E_NODE")
	if node == "" {
		node, _, _ = strings.Cut(output("image", "ls", "--filter", "reference=lab/node", "--filter", "reference=kindest/node", "--format", "{{.Repository}}:{{.Tag}}"), "\n")
	}
	labels := map[string]string{lab.LabelName: "e2e-run"}
	volume := func(name string) string {
		t.Helper()
		output(append(append([]string{"volume", "create"}, Labels(labels)...), name)...)
		t.Cleanup(func() { output("volume", "rm", "--force", name) })
		return name
	}
	first, begun := volume("lab-e2e-run-first"), time.Now()
	if _, err := d.OnVolumes(t.Context(), Helper{Image: node, Labels: Labels(labels), Volumes: []string{first}}, "true"); err != nil {
		t.Fatal(err)
	}
	takes, started := time.Since(begun), 0
	for i := range 12 {
		name := volume(fmt.Sprintf("lab-e2e-run-%d", i))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*takes/8)
		_, err := d.OnVolumes(ctx, Helper{Image: node, Labels: Labels(labels), Volumes: []string{name}}, `cd "/volumes/$1/_data" && while :; do mkdir -p "/volumes/$1/_data" && echo x >>"/volumes/$1/_data/written"; done`, name)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if left := output("ps", "--all", "--quiet", "--filter", "label="+lab.LabelName+"=e2e-run"); left != "" {
			t.Errorf("containers are left: %s", left)
			output(append([]string{"rm", "--force"}, strings.Fields(left)...)...)
		}
		if text, err := d.OnVolumes(t.Context(), Helper{Image: node, Labels: Labels(labels), Volumes: []string{name}}, `cat "/volumes/$1/_data/written" 2>/dev/null | wc -l`, name); err != nil {
			t.Error(err)
		} else if strings.TrimSpace(string(text)) != "0" {
			started++
		}
		output("volume", "rm", name)
	}
	again := volume("lab-e2e-run-look")
	for began := time.Now(); time.Since(began) < 2*time.Second; { // something may be in flight; each look starts a container
		if text, err := d.OnVolumes(t.Context(), Helper{Image: node, Labels: Labels(labels), Volumes: []string{again}}, `ls /volumes | grep '^lab-e2e-run-[0-9]' || true`); err != nil || len(text) > 0 {
			t.Fatalf("removed volumes are back: %s, %v", text, err)
		}
	}
	if started == 0 || started == 12 {
		t.Errorf("%d of 12 helpers wrote before they ended; one takes %s", started, takes)
	}
}
