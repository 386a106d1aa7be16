package ui

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0.0s",
		-time.Second:            "0.0s",
		400 * ms:                "0.4s",
		17840 * ms:              "17.8s",
		59940 * ms:              "59.9s",
		59960 * ms:              "1m 0s",
		72 * time.Second:        "1m 12s",
		300 * time.Second:       "5m 0s",
		3599600 * ms:            "1h 0m",
		2*time.Hour + 301*1e9:   "2h 5m",
		26*time.Hour + 5*1e9*60: "26h 5m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 12_345: "12 kB", 999_499: "999 kB", 999_500: "1.0 MB", 9_949_999: "9.9 MB", 9_950_000: "10 MB", 412_300_000: "412 MB",
		999_499_999: "999 MB", 999_500_000: "1.0 GB", 1_234_000_000: "1.2 GB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{1 << 29: "0.5 GiB", 21 << 30: "21 GiB", 10<<30 - 1: "10 GiB"} {
		if got := Memory(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "ab": 2, "✓ ✗ ⠧ · … ": 10, "é": 1, "e\u0301": 1, "記憶": 4, "한글": 4, "🚀": 2, "ﾊﾝ": 2, "a\u200db": 2,
	} {
		if got := width(s); got != want {
			t.Errorf("%q: got %d, want %d", s, got, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m\nnext", 10)
	f.Add("\x1b]8;;http://x\x07記憶\x1b\\ text", 3)
	f.Add("\xff\xfe e\u0301\u202e", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := clean(s)
		if i := strings.IndexFunc(got, unicode.IsControl); i >= 0 {
			t.Errorf("clean(%q) keeps a control character: %q", s, got)
		}
		if again := clean(got); again != got {
			t.Errorf("clean is not stable: %q, %q", got, again)
		}
		n = max(0, min(n, 200))
		if cut := truncate(got, n); width(cut) > n {
			t.Errorf("truncate(%q, %d) = %q, %d columns", got, n, cut, width(cut))
		}
		if n > 0 {
			lines := wrap(got, n)
			if strings.Join(strings.Fields(strings.Join(lines, " ")), " ") != strings.Join(strings.Fields(got), " ") {
				t.Errorf("wrap(%q, %d) loses words: %q", got, n, lines)
			}
			for _, l := range lines {
				if width(l) > n && len(strings.Fields(l)) > 1 {
					t.Errorf("wrap(%q, %d): %q is too wide", got, n, l)
				}
			}
			l := line{{bold, got}, {plain, " "}, {dim, got}}
			if w := width(clean(l.render(n, true))); w > n {
				t.Errorf("render(%q, %d) takes %d columns", got, n, w)
			}
		}
	})
}

func TestModes(t *testing.T) {
	type modeSet struct{ tty, outTTY, color, outColor bool }
	for name, c := range map[string]struct {
		out, err bool
		env      map[string]string
		want     modeSet
	}{
		"terminal":           {true, true, nil, modeSet{true, true, true, true}},
		"piped":              {false, true, nil, modeSet{true, false, true, false}},
		"narration in a log": {true, false, nil, modeSet{false, true, false, true}},
		"no color":           {true, true, map[string]string{"NO_COLOR": "1"}, modeSet{true, true, false, false}},
		"no color but empty": {true, true, map[string]string{"NO_COLOR": ""}, modeSet{true, true, true, true}},
		"dumb":               {true, true, map[string]string{"TERM": "dumb"}, modeSet{false, true, false, false}},
		"ci":                 {true, true, map[string]string{"CI": "true"}, modeSet{false, true, true, true}},
		"ci off":             {true, true, map[string]string{"CI": "false"}, modeSet{true, true, true, true}},
		"forced":             {false, false, map[string]string{"CLICOLOR_FORCE": "1"}, modeSet{false, false, true, true}},
		"forced with 0":      {false, false, map[string]string{"CLICOLOR_FORCE": "0"}, modeSet{}},
		"forced and no":      {false, false, map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, modeSet{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got modeSet
			got.tty, got.outTTY, got.color, got.outColor = modes(c.out, c.err, func(k string) string { return c.env[k] })
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
