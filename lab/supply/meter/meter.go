// Package meter reports the progress of copies: bytes done, elapsed time and time left.
package meter

import (
	"fmt"
	"io"
	"sync"
	"time"

	"homelab/lab"
)

// every is the reporting interval.
const every = 250 * time.Millisecond

// settle is how long the speed is measured before time left is reported.
const settle = time.Second

// Meter counts bytes. It is safe for concurrent use.
type Meter struct {
	what  string
	total int64
	say   lab.Progress
	now   func() time.Time

	mu          sync.Mutex
	done        int64
	start, last time.Time
}

// New returns a meter for an operation ("pulling redis") on total bytes; 0 if unknown. say may be nil.
func New(what string, total int64, say lab.Progress) *Meter {
	return newMeter(what, total, say, time.Now)
}

func newMeter(what string, total int64, say lab.Progress, now func() time.Time) *Meter {
	m := &Meter{what: what, total: total, say: say, now: now, start: now()}
	m.last = m.start
	return m
}

// Add counts n more bytes.
func (m *Meter) Add(n int64) {
	if m.say == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	if t := m.now(); t.Sub(m.last) >= every {
		m.last = t
		m.say(m.line(t))
	}
}

func (m *Meter) line(t time.Time) string {
	spent := t.Sub(m.start)
	if m.total <= 0 {
		return fmt.Sprintf("%s: %s, %s", m.what, Bytes(m.done), seconds(spent))
	}
	s := fmt.Sprintf("%s: %s of %s, %s", m.what, Bytes(m.done), Bytes(m.total), seconds(spent))
	if spent >= settle && m.done > 0 && m.done <= m.total {
		left := time.Duration(float64(spent) / float64(m.done) * float64(m.total-m.done))
		s += ", " + seconds(left) + " left"
	}
	return s
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }

// Reader counts bytes read.
func (m *Meter) Reader(r io.Reader) io.Reader { return reader{m, r} }

// Writer counts bytes written.
func (m *Meter) Writer(w io.Writer) io.Writer { return writer{m, w} }

type reader struct {
	m *Meter
	r io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.m.Add(int64(n))
	return n, err
}

type writer struct {
	m *Meter
	w io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.m.Add(int64(n))
	return n, err
}

// Bytes formats a size in powers of ten: "12.3 MB".
func Bytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
