package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab/docker"
)

// lab down removes the Git server's container at the same time: until it is gone, its network cannot be.
func TestRemoveWhileForgeEnds(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
echo "$*" >>` + dir + `/calls
n=$(grep -c "network $2" ` + dir + `/calls)
case "$1 $2 $n" in
"network disconnect 1") echo "Error response from daemon: Container 0 is marked for removal and cannot be connected or disconnected to the network" >&2; exit 1 ;;
"network rm 1") echo "Error response from daemon: error while removing network: network x has active endpoints" >&2; exit 1 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	if err := (&Runner{lab: "x", forge: "lab-x-forge", docker: docker.New()}).disconnect(t.Context()); err != nil {
		t.Error(err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(calls), "network disconnect") + 10*strings.Count(string(calls), "network rm"); got != 23 {
		t.Errorf("calls:\n%s", calls)
	}
}
