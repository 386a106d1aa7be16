package lab_test

import (
	"os/exec"
	"strings"
	"testing"

	"homelab/lab"
)

// A shell reads the words back.
func TestQuote(t *testing.T) {
	words := []string{"/a/b-c.yaml", "", "/home/Ann Lee/a'b", "$(touch x)", "`x`", "*", "a\nb", "~", `a\b"c`, "é"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+lab.Quote(words...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); strings.Join(got, "|") != strings.Join(words, "|") {
		t.Errorf("%q, want %q", got, words)
	}
	if got := lab.Quote("rm", "/a/b"); got != "rm /a/b" {
		t.Errorf("quoted what needs no quotes: %s", got)
	}
}
