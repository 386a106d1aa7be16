package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"homelab/lab"
)

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{
		"demo": true, "a": true, "a-1": true, "20261122-161441": true, strings.Repeat("a", lab.MaxName): true,
		"": false, "-a": false, "a-": false, "A": false, "a_b": false, "ä": false, strings.Repeat("a", lab.MaxName+1): false,
	} {
		if got := lab.IsName(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
	if !strings.Contains(lab.NameRule, fmt.Sprint(lab.MaxName)) {
		t.Errorf("NameRule = %q, does not contain MaxName %d", lab.NameRule, lab.MaxName)
	}
}
