package ui

import (
	"regexp"
	"strings"
	"time"

	"homelab/lab"
)

// narration shows an operation outside a plan, such as writing an archive.
type narration struct {
	ui        *UI
	drawn     bool      // a line is on the terminal
	about     string    // plain mode: the last subject
	printedAt time.Time // plain mode: of the last line
}

// Narrate runs work and shows its progress: on a terminal as one line that is redrawn and finally removed; elsewhere as
// a line per subject, repeated every ten seconds.
func (u *UI) Narrate(work func(lab.Progress) error) error {
	n := &narration{ui: u}
	defer n.end()
	return work(n.progress)
}

func (n *narration) progress(detail string) {
	u := n.ui
	u.mu.Lock()
	defer u.mu.Unlock()
	detail = clean(detail)
	if u.opts.TTY {
		n.drawn = true
		u.write(u.opts.Err, "\r"+truncate(detail, u.errWidth()-1)+clearLine)
		return
	}
	now := u.opts.Clock()
	if about := subject(detail); about != n.about || now.Sub(n.printedAt) >= repeatAfter {
		n.about, n.printedAt = about, now
		u.write(u.opts.Err, detail+"\n")
	}
}

func (n *narration) end() {
	n.ui.mu.Lock()
	defer n.ui.mu.Unlock()
	if n.drawn {
		n.ui.write(n.ui.opts.Err, "\r"+clearLine)
	}
}

var amount = regexp.MustCompile(`[0-9][0-9.]* ?[kMGT]?B\b`)

// subject strips amounts and times from a detail; it changes when something new begins.
func subject(detail string) string {
	words, _, _ := strings.Cut(detail, ",")
	return amount.ReplaceAllString(words, "")
}
