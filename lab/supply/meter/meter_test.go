package meter

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	var said []string
	clock := time.Unix(0, 0)
	m := newMeter("pulling redis", 40_000_000, func(s string) { said = append(said, s) }, func() time.Time { return clock })
	for _, step := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second} {
		clock = clock.Add(step)
		m.Add(5_000_000)
	}
	want := []string{
		"pulling redis: 10.0 MB of 40.0 MB, 0s", // the first Add is within the first interval
		"pulling redis: 15.0 MB of 40.0 MB, 1s, 2s left",
		"pulling redis: 20.0 MB of 40.0 MB, 5s, 5s left",
	}
	if !slices.Equal(said, want) {
		t.Errorf("progress %q", said)
	}
}

func TestReaderAndWriterCount(t *testing.T) {
	m := New("x", 0, func(string) {})
	if _, err := io.Copy(m.Writer(io.Discard), m.Reader(strings.NewReader("hello"))); err != nil || m.done != 10 {
		t.Errorf("counted %d, %v", m.done, err)
	}
	New("x", 0, nil).Add(1) // nil progress
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1500: "1.5 kB", 12_345_678: "12.3 MB", 2_500_000_000: "2.50 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
