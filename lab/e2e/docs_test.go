//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"homelab/lab/e2e/documents"
)

// documented runs every command shown in README and docs on a converged lab.
func documented(t *testing.T, l *testLab) {
	commands, _, err := documents.Commands(estateRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if out := l.run(strings.Fields(command)[1:]...); out.code != 0 {
			t.Errorf("%s: exit %d\n%s", command, out.code, out.stderr)
		}
	}
}
