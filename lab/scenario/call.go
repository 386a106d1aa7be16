package scenario

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// Call is what an action is given to work with.
type Call struct {
	World
	Files    fs.FS // beside the scenario
	Scenario string
	Vars     map[string]any
	Memory   map[string]any // what verbs keep for later steps of the same story

	playing *playing
	began   time.Time // of the step
	from    Cursor    // from when on an expectation looks
	did     string
	next    *Cursor // from when on the next one does
}

// Did says what was done, in one line, for the report.
func (c *Call) Did(format string, args ...any) { c.did = fmt.Sprintf(format, args...) }

// Undo keeps what takes a change back. It is called before the change, as what was interrupted may have been done, and so must bear that it was not.
func (c *Call) Undo(title string, do func(context.Context) error) {
	c.playing.undos = append(c.playing.undos, undo{title, do})
}

// Set sets a variable.
func (c *Call) Set(name string, value any) error {
	if why := checkVariable(value); why != "" {
		return fmt.Errorf("${%s} %s", name, why)
	}
	c.Vars[name] = value
	return nil
}

// Changed says that the story changed an object, which has this version now.
func (c *Call) Changed(s Subject, version string) { c.playing.recorder.floor(s, version) }

// Deleted says that the story deleted an object, which had this version.
func (c *Call) Deleted(s Subject, version string) {
	if n, err := strconv.ParseUint(version, 10, 64); err == nil {
		c.playing.recorder.floor(s, strconv.FormatUint(n+1, 10))
	}
}

// Silence says that the story made a cluster silent: what was seen of it before says nothing of how it is now.
func (c *Call) Silence(cluster, why string) { c.playing.recorder.silence(cluster, why) }

// Note puts what was done on the timeline.
func (c *Call) Note(lane Lane, text string) { c.playing.recorder.note(lane, text) }

// Watch watches subjects that became known only now.
func (c *Call) Watch(ctx context.Context, subjects ...Subject) error {
	return c.playing.watch(ctx, subjects)
}

// Await waits until what is judged is met, within a time from the start of the step, or of the step named since, and stays so. An error is *Unmet when it is
// not, or of ctx.
func (c *Call) Await(ctx context.Context, judge func(View) Judgement, within, stays time.Duration, since string) (View, error) {
	start := c.began
	if since != "" {
		at, ok := c.playing.started[since]
		if !ok {
			return nil, fmt.Errorf("step %q was not played, so there is nothing to measure from", since)
		}
		start = at.time
	}
	out, err := c.playing.recorder.await(ctx, Wish{Judge: judge, From: c.from, By: start.Add(within), Stays: stays})
	if err != nil {
		return nil, c.playing.explain(err, out)
	}
	if !out.Met || out.View == nil {
		u := &Unmet{Expected: out.Expected, LastSeen: out.Seen, Notes: c.playing.notes(ctx, out.Subject)}
		if !out.Since.IsZero() {
			u.Unchanged = time.Since(out.Since)
		}
		return nil, u
	}
	c.next = &out.Cursor
	if since != "" {
		c.playing.measure(since, out.At)
	}
	return out.View, nil
}
