package ui

import (
	"regexp"
	"strings"
	"time"

	"homelab/lab"
)

// narration is one long piece of work outside any plan: an archive that is written, an image that is built.
type narration struct {
	ui    *UI
	drawn bool      // a line is on the terminal
	about string    // plain mode: what was told last, without what only counts
	said  time.Time // plain mode: when
}

// Narrate does such work and tells how far it is. On a terminal that is one line, drawn over and gone in the end; elsewhere lines stay, one when something new
// begins and one every ten seconds while it lasts.
func (u *UI) Narrate(work func(lab.Progress) error) error {
	n := &narration{ui: u}
	defer n.end()
	return work(n.tell)
}

func (n *narration) tell(detail string) {
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
	if about := subject(detail); about != n.about || now.Sub(n.said) >= sayEvery {
		n.about, n.said = about, now
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

// subject is a detail without its amounts and times, which change all the while: the words before them say when something new begins.
func subject(detail string) string {
	words, _, _ := strings.Cut(detail, ",")
	return amount.ReplaceAllString(words, "")
}
