package threeway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// texts returns two versions of a text with few distinct lines, and so with many possible diffs.
func texts(r *rand.Rand) (a, b []string) {
	line := func() string { return string(rune('a'+r.IntN(4))) + "\n" }
	for range r.IntN(12) {
		a = append(a, line())
	}
	for _, l := range a {
		switch r.IntN(5) {
		case 0:
		case 1:
			b = append(b, line(), l)
		default:
			b = append(b, l)
		}
	}
	return a, append(b, slices.Repeat([]string{line()}, r.IntN(2))...)
}

// shortest returns the length of the shortest diff, by dynamic programming.
func shortest(a, b []string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range b {
			row[j+1] = 1 + min(before[j+1], row[j])
			if a[i] == b[j] {
				row[j+1] = before[j]
			}
		}
	}
	return row[len(b)]
}

// A diff is correct, has separate hunks, and is minimal.
func TestDiff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a, b := texts(r)
		var out []string
		pos, size := 0, 0
		for i, h := range diff(a, b) {
			if h.a < pos || i > 0 && h.a == pos || h.aEnd-h.a+h.bEnd-h.b <= 0 || h.b != len(out)+h.a-pos {
				t.Fatalf("%q to %q: %+v", a, b, diff(a, b))
			}
			out = append(append(out, a[pos:h.a]...), b[h.b:h.bEnd]...)
			pos, size = h.aEnd, size+h.aEnd-h.a+h.bEnd-h.b
		}
		if out = append(out, a[pos:]...); !slices.Equal(out, b) || size != shortest(a, b) {
			t.Fatalf("%q to %q: %q with %d lines, want %d", a, b, out, size, shortest(a, b))
		}
	}
}

// Texts beyond maxDiff differ as a whole.
func TestDiffLimit(t *testing.T) {
	var a, b []string
	for i := range maxDiff {
		a, b = append(a, fmt.Sprintf("a%d\n", i)), append(b, fmt.Sprintf("b%d\n", i))
	}
	a[1], b[1] = "same\n", "same\n"
	if got := diff(a, b); !slices.Equal(got, []hunk{{0, len(a), 0, len(b)}}) {
		t.Errorf("%d changes, the first %+v", len(got), got[0])
	}
}

// Separate changes of both sides are combined, symmetrically.
func TestMergeSeparate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var base, ours, theirs, both strings.Builder
		for i := range 20 {
			line := fmt.Sprintf("line %d\n", i)
			base.WriteString(line)
			changed := line
			if i%2 == 1 { // an unchanged line between changes
				changed = []string{"", line + "more\n", "more\n" + line, "another\n", line, line}[r.IntN(6)]
			}
			both.WriteString(changed)
			if r.IntN(2) == 0 {
				ours.WriteString(changed)
				theirs.WriteString(line)
			} else {
				ours.WriteString(line)
				theirs.WriteString(changed)
			}
		}
		if got, n := Merge(base.String(), ours.String(), theirs.String(), "x"); n != 0 || got != both.String() {
			t.Fatalf("%d conflicts in\n%s\nwant\n%s\nof\n%s\nand\n%s", n, got, both.String(), ours.String(), theirs.String())
		}
	}
}

// Conflicts are narrow, and input lines are not modified.
func TestTrim(t *testing.T) {
	head, x, y, tail := trim([]string{"a", "b", "c", "e", "f"}, []string{"a", "b", "d", "f"})
	if !slices.Equal(head, []string{"a", "b"}) || !slices.Equal(x, []string{"c", "e"}) || !slices.Equal(y, []string{"d"}) || !slices.Equal(tail, []string{"f"}) {
		t.Errorf("%q %q %q %q", head, x, y, tail)
	}
	lines := []string{"a\n", "b"}
	if got := ended(lines, "\r\n"); !slices.Equal(got, []string{"a\n", "b\r\n"}) || lines[1] != "b" {
		t.Errorf("%q of %q", got, lines)
	}
	if !Binary(append(slices.Repeat([]byte("a"), 7999), 0)) || Binary(append(slices.Repeat([]byte("a"), 8000), 0)) || Binary(nil) {
		t.Error("only the first 8000 bytes count, as in Git")
	}
}
