package argo

import "testing"

func TestParseMinor(t *testing.T) {
	for _, c := range []struct {
		version string
		want    Minor
		known   bool
	}{
		{"3.4", 4, true},
		{"v3.4.13", 4, true},
		{"3.2.11", 2, true},
		{"3.6.0-rc2", 6, true},
		{"3.7.1", Newest, false}, // newer than what lab models
		{"4.0", Newest, false},
		{"3.1.9", Oldest, false},
		{"2.14", Oldest, false},
		{"", Newest, false},
		{"latest", Newest, false},
	} {
		if got, known := ParseMinor(c.version); got != c.want || known != c.known {
			t.Errorf("%q: %s, %t", c.version, got, known)
		}
	}
}

func TestMinor(t *testing.T) {
	if got := Minor(0); got.String() != Default.String() || !got.Has(Default) || got.Has(Default+1) {
		t.Errorf("the zero value is %s", got)
	}
	if m := Minor(4); m.String() != "3.4" || !m.Has(4) || !m.Has(3) || m.Has(5) {
		t.Error("3.4 has what came with it and before, not after")
	}
	if list := Minors(); list[0] != Oldest || list[len(list)-1] != Newest || len(list) != 5 {
		t.Error(list)
	}
}
