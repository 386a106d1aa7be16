// Package threeway merges texts line by line, as Git does.
package threeway

import (
	"bytes"
	"slices"
	"strings"
)

// MarkOurs and MarkTheirs begin the first and last line of a conflict, as in Git.
const (
	MarkOurs   = "<<<<<<< working tree"
	markMiddle = "======="
	MarkTheirs = ">>>>>>> forge "
)

// Merge does a three-way merge by lines, as Git does: separate changes are combined, identical ones applied once.
// Others become conflicts with markers, theirs with a label. It returns the number of conflicts.
func Merge(base, ours, theirs, label string) (string, int) {
	b, o, t := lines(base), lines(ours), lines(theirs)
	var out strings.Builder
	conflicts := 0
	eol := "\n"
	if len(o) > 0 && strings.HasSuffix(o[0], "\r\n") {
		eol = "\r\n"
	}
	for _, r := range regions(b, o, t) {
		switch {
		case slices.Equal(r.ours, r.theirs), slices.Equal(r.base, r.theirs):
			write(&out, r.ours)
		case slices.Equal(r.base, r.ours):
			write(&out, r.theirs)
		default:
			head, mine, yours, tail := trim(r.ours, r.theirs)
			conflicts++
			write(&out, head)
			out.WriteString(MarkOurs + eol)
			write(&out, ended(mine, eol))
			out.WriteString(markMiddle + eol)
			write(&out, ended(yours, eol))
			out.WriteString(MarkTheirs + label + eol)
			write(&out, tail)
		}
	}
	return out.String(), conflicts
}

// lines splits a text after line ends.
func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

func write(out *strings.Builder, lines []string) {
	for _, l := range lines {
		out.WriteString(l)
	}
}

// ended adds a missing line end, so that a marker can follow.
func ended(lines []string, eol string) []string {
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines = slices.Clone(lines)
		lines[n-1] += eol
	}
	return lines
}

// trim splits off the common prefix and suffix of a conflict.
func trim(a, b []string) (head, x, y, tail []string) {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	head, a, b = a[:n], a[n:], b[n:]
	n = 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return head, a[:len(a)-n], b[:len(b)-n], a[len(a)-n:]
}

// region is a part of the three texts.
type region struct{ base, ours, theirs []string }

// hunk is a change: lines [a, aEnd) of the old text became lines [b, bEnd) of the new one.
type hunk struct{ a, aEnd, b, bEnd int }

// regions cuts the texts at common lines. Changes that overlap or touch are in one region.
func regions(base, ours, theirs []string) []region {
	sides := [2][]hunk{diff(base, ours), diff(base, theirs)}
	var list []region
	var at, shift [2]int // by side: next hunk, and line offset to base
	pos := 0
	for at[0] < len(sides[0]) || at[1] < len(sides[1]) {
		start := len(base)
		for s := range sides {
			if at[s] < len(sides[s]) {
				start = min(start, sides[s][at[s]].a)
			}
		}
		same := base[pos:start]
		list = append(list, region{same, same, same})
		end := start
		from := [2]int{start + shift[0], start + shift[1]}
		for grown := true; grown; {
			grown = false
			for s := range sides {
				for at[s] < len(sides[s]) && sides[s][at[s]].a <= end {
					h := sides[s][at[s]]
					end, grown = max(end, h.aEnd), true
					shift[s] = h.bEnd - h.aEnd
					at[s]++
				}
			}
		}
		list = append(list, region{base[start:end], ours[from[0] : end+shift[0]], theirs[from[1] : end+shift[1]]})
		pos = end
	}
	same := base[pos:]
	return append(list, region{same, same, same})
}

// maxDiff bounds the work of a diff: texts that differ in more lines count as changed from the first difference to the
// last.
const maxDiff = 2000

// diff is the Myers algorithm: http://www.xmailserver.org/diff2.pdf.
func diff(a, b []string) []hunk {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	end := 0
	for end < min(len(a), len(b))-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	hunks := myers(a[n:len(a)-end], b[n:len(b)-end])
	for i := range hunks {
		hunks[i].a, hunks[i].aEnd, hunks[i].b, hunks[i].bEnd = hunks[i].a+n, hunks[i].aEnd+n, hunks[i].b+n, hunks[i].bEnd+n
	}
	return hunks
}

func myers(a, b []string) []hunk {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	whole := []hunk{{0, len(a), 0, len(b)}}
	if len(a) == 0 || len(b) == 0 {
		return whole
	}
	most := min(len(a)+len(b), maxDiff)
	furthest := make([]int, 2*most+2) // by diagonal, from -most
	var trace [][]int                 // furthest before each step
	for d := 0; d <= most; d++ {
		trace = append(trace, slices.Clone(furthest[most-d:most+d+2]))
		for k := -d; k <= d; k += 2 {
			x := 0
			if k == -d || k != d && furthest[most+k-1] < furthest[most+k+1] {
				x = furthest[most+k+1]
			} else {
				x = furthest[most+k-1] + 1
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			furthest[most+k] = x
			if x >= len(a) && y >= len(b) {
				return backtrack(trace, len(a), len(b))
			}
		}
	}
	return whole
}

// backtrack walks the trace backwards and joins single changes to hunks.
func backtrack(trace [][]int, x, y int) []hunk {
	var hunks []hunk
	add := func(h hunk) {
		if n := len(hunks); n > 0 && hunks[n-1].a == h.aEnd && hunks[n-1].b == h.bEnd {
			hunks[n-1].a, hunks[n-1].b = h.a, h.b
			return
		}
		hunks = append(hunks, h)
	}
	for d := len(trace) - 1; d > 0; d-- {
		row := func(k int) int { return trace[d][k+d] }
		k := x - y
		down := k == -d || k != d && row(k-1) < row(k+1) // same choice as forward
		if down {
			k++
		} else {
			k--
		}
		fromX := row(k)
		fromY := fromX - k
		if down {
			add(hunk{fromX, fromX, fromY, fromY + 1})
		} else {
			add(hunk{fromX, fromX + 1, fromY, fromY})
		}
		x, y = fromX, fromY
	}
	slices.Reverse(hunks)
	return hunks
}

// Binary is Git's heuristic.
func Binary(text []byte) bool {
	const looked = 8000
	return bytes.IndexByte(text[:min(len(text), looked)], 0) >= 0
}
