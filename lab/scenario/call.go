package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"homelab/lab"
)

// Call is the context of an action.
type Call struct {
	World
	Files    fs.FS // the scenario's folder
	Scenario string
	Vars     map[string]any
	Memory   map[string]any // state that verbs share between the steps of a story

	playing  *playing
	subjects []Subject // of the action
	began    time.Time // start of the step
	from     Cursor    // start of the expectation's search
	did      string
	undos    int     // before the step
	next     *Cursor // From of the next expectation
}

// Did sets the report's one-line summary of the step.
func (c *Call) Did(format string, args ...any) { c.did = fmt.Sprintf(format, args...) }

// Undo registers the inverse of a change. It is called before the change, which may be interrupted, so do must tolerate
// that the change did not happen.
func (c *Call) Undo(title string, do func(context.Context) error) {
	c.UndoWithin(title, undoEachTimeout, do)
}

// UndoWithin is like Undo for an inverse that takes longer than others.
func (c *Call) UndoWithin(title string, within time.Duration, do func(context.Context) error) {
	c.playing.undos = append(c.playing.undos, undo{title: title, within: within, do: do})
}

// UndoLast is like Undo for what objects from Git may need, such as the definition of their kind: it is undone once the engine has removed them.
func (c *Call) UndoLast(title string, do func(context.Context) error) {
	c.playing.undos = append(c.playing.undos, undo{title: title, within: restoreTimeout, do: do, last: true})
}

// Unchanged drops the last undo of the step, whose change was refused.
func (c *Call) Unchanged() {
	if n := len(c.playing.undos); n > c.undos && !c.playing.undos[n-1].branch {
		c.playing.undos = c.playing.undos[:n-1]
	}
}

// Done returns the summary of the step.
func (c *Call) Done() string { return c.did }

// SwitchEngine replaces the lab's engine until the end of the story. It does nothing if the lab has that engine.
func (c *Call) SwitchEngine(ctx context.Context, to lab.EngineType) error {
	p, was := c.playing, c.Engines
	if p.world.Switch == nil {
		return fmt.Errorf("the engine of lab %s cannot be replaced here", c.Lab)
	}
	p.undos = append(p.undos, undo{
		title: fmt.Sprintf("%s is the engine again", was.Title()), within: switchTimeout, do: func(ctx context.Context) error { return p.switchTo(ctx, was) },
	})
	return c.begun(p.switchTo(ctx, to))
}

// begun drops the undo of a change that lab refuses because of others that wait: to undo it would make those.
func (c *Call) begun(err error) error {
	if refused := new(lab.Error); errors.As(err, &refused) && refused.Code == lab.CodeNotUpToDate {
		c.Unchanged()
	}
	return err
}

// Renew removes a cluster and creates it again. Nothing undoes that, but what it has begun is completed when the story ends.
func (c *Call) Renew(ctx context.Context, cluster string) error {
	p := c.playing
	if p.world.Renew == nil {
		return fmt.Errorf("clusters of lab %s cannot be recreated here", c.Lab)
	}
	p.undos = append(p.undos, undo{title: "cluster " + cluster + " is complete", within: switchTimeout, do: func(ctx context.Context) error { return p.renew(ctx, "") }})
	return c.begun(p.renew(ctx, cluster))
}

// Upgrade has other Helm values for the engine until the end of the story, and returns what that changed.
func (c *Call) Upgrade(ctx context.Context, values map[string]any) (map[string][]string, error) {
	p := c.playing
	p.undos = append(p.undos, undo{title: "the engine has the estate's values again", within: switchTimeout, do: func(ctx context.Context) error {
		_, err := p.upgrade(ctx, nil)
		return err
	}})
	changed, err := p.upgrade(ctx, values)
	return changed, c.begun(err)
}

// Set sets a variable.
func (c *Call) Set(name string, value any) error {
	if why := checkVariable(value); why != "" {
		return fmt.Errorf("${%s} %s", name, why)
	}
	c.Vars[name] = value
	return nil
}

// Changed records the version of an object that the story changed.
func (c *Call) Changed(s Subject, version string) { c.playing.recorder.floor(s, version) }

// Deleted records that the story deleted an object of this version.
func (c *Call) Deleted(s Subject, version string) {
	if n, err := strconv.ParseUint(version, 10, 64); err == nil {
		c.playing.recorder.floor(s, strconv.FormatUint(n+1, 10))
	}
}

// Silence records that the story cut off a cluster: earlier observations of it no longer count.
func (c *Call) Silence(cluster, why string) { c.playing.recorder.silence(cluster, why) }

// Note adds a mark to the timeline.
func (c *Call) Note(lane Lane, text string) { c.playing.recorder.note(lane, text) }

// Watch starts to watch subjects that were unknown before this step.
func (c *Call) Watch(ctx context.Context, subjects ...Subject) error {
	return c.playing.watch(ctx, subjects)
}

// Limit is how long an expectation waits.
type Limit struct {
	Within   time.Duration // a deadline that is part of the expectation, counted from the start of the step, or of the step named Since
	Patience time.Duration // without Within: how long nothing may move; the far limit is lab.FarLimit times that
	Stays    time.Duration // how long it must stay met
	Since    string
}

// Await waits until judge is met and stays met. The error is *Unmet or that of ctx.
func (c *Call) Await(ctx context.Context, judge func(View) Judgement, limit Limit) (View, error) {
	start := c.began
	if limit.Since != "" {
		at, ok := c.playing.started[limit.Since]
		if !ok {
			return nil, fmt.Errorf("step %q was not played, so there is nothing to measure from", limit.Since)
		}
		start = at.time
	}
	wish := Wish{Judge: judge, From: c.from, By: start.Add(limit.Within), Stays: limit.Stays}
	if limit.Within == 0 {
		wish.Patience, wish.By, wish.Concerns = limit.Patience, c.began.Add(lab.FarLimit*limit.Patience), concerning(c.subjects)
		c.playing.recorder.around(c.subjects)
	}
	out, err := c.playing.recorder.await(ctx, wish)
	if err != nil {
		return nil, c.playing.explain(err, out)
	}
	if !out.Met || out.View == nil {
		c.playing.about = append(slices.Clone(c.subjects), out.Subject)
		u := &Unmet{Expected: out.Expected, LastSeen: out.Seen, Notes: c.playing.notes(ctx, out.Subject)}
		if limit.Within == 0 {
			u.Notes = append(u.Notes, lab.OutOfPatience{Patience: cmp.Or(out.Still, limit.Patience), Moving: out.Still == 0}.Error())
		}
		if !out.Since.IsZero() {
			u.Unchanged = time.Since(out.Since)
		}
		return nil, u
	}
	c.next = &out.Cursor
	if limit.Since != "" {
		c.playing.measure(limit.Since, out.At)
	}
	return out.View, nil
}
