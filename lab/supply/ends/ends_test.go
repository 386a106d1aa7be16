package ends

import (
	"strings"
	"testing"
	"time"
)

func TestEmbedded(t *testing.T) {
	list, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range list {
		names[p.Product] = true
		if len(p.Pins) == 0 || !strings.HasPrefix(p.Source, "https://") || p.Keeps == 0 && len(p.Until) == 0 {
			t.Errorf("%s lacks pins, source, or keeps and until", p.Product)
		}
		if _, err := time.Parse(time.DateOnly, p.Checked); err != nil {
			t.Errorf("%s: checked: %v", p.Product, err)
		}
		if p.Keeps > 0 && p.Newest == "" {
			t.Errorf("%s: keeps needs newest", p.Product)
		}
		for minor, date := range p.Until {
			if _, err := time.Parse(time.DateOnly, date); err != nil {
				t.Errorf("%s %s: %v", p.Product, minor, err)
			}
		}
	}
	for _, name := range []string{"Argo CD", "Flux", "Kubernetes", "Gitea", "Go"} {
		if !names[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestFind(t *testing.T) {
	list := []Product{
		{Product: "A", Pins: []string{"a", "example.com/a"}, Keeps: 3, Newest: "3.6", Until: map[string]string{"3.3": "2026-11-03", "3.4": "2027-02-01"}, Source: "S"},
		{Product: "B", Pins: []string{"b"}, Keeps: 1, Newest: "1.27", Also: map[string][]string{"1.27": {"part 0.4"}, "1.26": {"part 0.3"}}},
		{Product: "D", Pins: []string{"d"}, Until: map[string]string{"bookworm": "2028-06-30"}, Source: "S"},
	}
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, version, newest string
		want                  Support
	}{
		{"a", "v3.3.19", "", Support{"A", "2026-11-03", true}},
		{"a", "3.4.13", "", Support{"A", "2027-02-01", false}},
		{"example.com/a", "v3.6.1", "v3.6.1", Support{"A", "release of 3.9", false}},
		{"a", "3.5.7", "3.8.0", Support{"A", "release of 3.8", true}},
		{"a", "3.2.6", "", Support{"A", "release of 3.5", true}},   // the table knows 3.6
		{"a", "2.14.0", "", Support{"A", "release of 2.17", true}}, // another major
		{"b", "1.26.4", "1.26.4", Support{"B", "release of 1.27", true}},
		{"b", "1.27.3", "", Support{"B", "release of 1.28", false}},
		{"part", "v0.4.2", "v9.0.0", Support{"B", "release of 1.28", false}}, // its own newest says nothing of B
		{"part", "v0.3.9", "", Support{"B", "release of 1.27", true}},
		{"part", "v0.5.0", "", Support{}},
		{"d", "bookworm", "", Support{"D", "2028-06-30", false}},
		{"d", "forky", "", Support{"D", "unknown: S was not read for forky", false}},
		{"x", "1.0.0", "", Support{}},
	} {
		if got := Find(list, c.name, c.version, c.newest, now); got != c.want {
			t.Errorf("%s %s, newest %q: %+v, want %+v", c.name, c.version, c.newest, got, c.want)
		}
	}
	// The day itself still counts.
	if s := Find(list, "a", "3.3.1", "", time.Date(2026, 11, 3, 23, 0, 0, 0, time.UTC)); s.Ended {
		t.Error("support ended before its last day was over")
	}
}
