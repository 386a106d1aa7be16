package ui

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"homelab/lab"
)

func TestNarrate(t *testing.T) {
	render := func(opts Options) string {
		var b bytes.Buffer
		now := time.Time{}
		opts.Err, opts.Clock, opts.Width = &b, func() time.Time { return now }, 40
		u := New(opts)
		gone := errors.New("gone")
		if err := u.Narrate(func(progress lab.Progress) error {
			for _, detail := range []string{
				"podinfo: compiling, 0s", "podinfo: compiling, 1s, about 2m left", "saving: 35.7 kB of 1.28 GB, 0s",
				"saving: 81.3 MB of 1.28 GB, 1s, 6s left and then some more",
			} {
				progress(detail)
				now = now.Add(time.Second)
			}
			now = now.Add(repeatAfter)
			progress("saving: 1.1 GB of 1.28 GB, 12s")
			return gone
		}); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
		u.Println("done")
		return b.String()
	}
	plain := "podinfo: compiling, 0s\nsaving: 35.7 kB of 1.28 GB, 0s\nsaving: 1.1 GB of 1.28 GB, 12s\ndone\n"
	if got := render(Options{}); got != plain {
		t.Errorf("plain:\n%s", got)
	}
	drawn := "\rpodinfo: compiling, 0s\x1b[K\rpodinfo: compiling, 1s, about 2m left\x1b[K\rsaving: 35.7 kB of 1.28 GB, 0s\x1b[K" +
		"\rsaving: 81.3 MB of 1.28 GB, 1s, 6s lef…\x1b[K\rsaving: 1.1 GB of 1.28 GB, 12s\x1b[K\r\x1b[Kdone\n"
	if got := render(Options{TTY: true}); got != drawn {
		t.Errorf("on a terminal:\n%q", got)
	}
}
