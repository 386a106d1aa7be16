package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// Undone is what became of a recorded change.
type Undone struct {
	What string
	When time.Time
	Done bool
	Note string // why it was left, or how it was reverted
}

// undoneTimeout is the timeout of a reload that makes the engine forget a runtime; one that has no other keeps it until it restarts.
const undoneTimeout = time.Second

// Undo reverts the recorded changes of Fix, the last one first. What has been changed since is left, and so are packages and a started
// engine, which others may be using. A change that fails stays in the record.
func (d *Doctor) Undo(ctx context.Context, progress func(string)) ([]Undone, error) {
	h := d.o.Host
	if h.OS != "linux" || !*h.Root {
		return nil, &lab.Error{
			Exit: lab.ExitFailed, Code: "needs_root", Message: "only root on Linux can change the host", Cure: "run it with sudo: sudo lab doctor --undo",
		}
	}
	r, err := h.readRecord()
	if err != nil {
		return nil, err
	}
	if err := d.unused(ctx, r); err != nil {
		return nil, err
	}
	list := d.unrecorded(r)
	registered := false // the engine's configuration still names the runtime
	for i, c := range slices.Backward(r.Changes) {
		u, err := Undone{Note: "the engine's configuration still needs it"}, error(nil)
		if !registered || c.What != h.Runtime && c.What != h.Wrapper {
			u, err = d.undo(ctx, c)
		}
		if err != nil {
			return list, fixError("put back "+c.What, err)
		}
		r.Changes = r.Changes[:i]
		if err := h.writeRecord(r); err != nil {
			return list, fixError("write "+h.Record, err)
		}
		registered = registered || c.Kind == changedEngine && !u.Done
		if u.Done {
			progress(strings.TrimSuffix("put back "+c.What+": "+u.Note, ": "))
		}
		u.What, u.When = c.What, c.When
		list = append(list, u)
	}
	return list, nil
}

// unrecorded returns what versions up to 0.1 did, which kept no record.
func (d *Doctor) unrecorded(r record) []Undone {
	file := d.o.Host.DaemonJSON
	if pid, ok := d.o.Host.dockerd(); ok {
		file = d.o.Host.configFile(pid)
	}
	text, _ := os.ReadFile(file)
	config, err := parseDaemonConfig(text)
	if err != nil || config.defaultRuntime() != runtimeName || slices.ContainsFunc(r.Changes, func(c change) bool { return c.Kind == changedEngine }) {
		return nil
	}
	note := "there was no such file before"
	if all := backups(file); readable(all[len(all)-1]) {
		note = "the file before: " + all[len(all)-1]
	}
	return []Undone{{What: file, Note: "an older version of lab made " + runtimeName + " the default without a record; " + note}}
}

func readable(file string) bool {
	_, err := os.ReadFile(file)
	return err == nil
}

// unused fails if a container has the runtime that Undo removes: it could not be started again.
func (d *Doctor) unused(ctx context.Context, r record) error {
	registered := slices.ContainsFunc(r.Changes, func(c change) bool { return c.Kind == changedEngine })
	if _, err := d.o.Host.LookPath("docker"); !registered || err != nil {
		return nil
	}
	ids, err := d.o.Docker.Output(ctx, nil, "ps", "--all", "--quiet")
	if err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine does not respond, nothing was reverted", Err: err,
			Cure: "start it, then lab doctor --undo: containers may need the runtime",
		}
	}
	all := strings.Fields(string(ids))
	if len(all) == 0 {
		return nil
	}
	out, err := d.o.Docker.Output(ctx, nil, append([]string{"inspect", "--format", "{{.HostConfig.Runtime}} {{.Name}}"}, all...)...)
	if err != nil && !docker.NotFound(err) { // one may have been removed
		return err
	}
	var users []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), runtimeName+" "); ok {
			users = append(users, strings.TrimPrefix(name, "/"))
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "in_use", Message: fmt.Sprintf("%s need the runtime %s, nothing was reverted", count(len(users), "container"), runtimeName),
		Details: users, Cure: "remove them first: lab down",
	}
}

// undo puts one change back.
func (d *Doctor) undo(ctx context.Context, c change) (Undone, error) {
	switch c.Kind {
	case changedPackages:
		return Undone{Note: "removing packages is up to you: apt-get remove " + c.What}, nil
	case changedProcess:
		return Undone{Note: "lab started it; stopping it would stop everybody's containers"}, nil
	case changedSetting:
		return d.undoSetting(c)
	}
	is, err := os.ReadFile(c.What)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return Undone{}, err
	case missing && c.Before == nil, !missing && c.Before != nil && string(is) == *c.Before:
		return Undone{Done: true, Note: "it was already reverted"}, nil
	case missing:
		return Undone{Note: "it has been removed since"}, nil
	case c.Kind == changedEngine:
		return d.undoEngine(ctx, c, is)
	case string(is) != c.After:
		return Undone{Note: "it has been changed since"}, nil
	case c.Before == nil:
		return Undone{Done: true, Note: "removed, as before"}, os.Remove(c.What)
	}
	return Undone{Done: true}, errors.Join(writeAtomic(c.What, []byte(*c.Before), c.Mode), os.Chmod(c.What, c.Mode))
}

func (d *Doctor) undoSetting(c change) (Undone, error) {
	is, ok := d.o.Host.number(c.What)
	switch now := strconv.Itoa(is); {
	case !ok:
		return Undone{Note: "the kernel does not report it"}, nil
	case now == *c.Before:
		return Undone{Done: true, Note: "it was already " + now}, nil
	case now != c.After:
		return Undone{Note: "it has been changed to " + now + " since"}, nil
	}
	return Undone{Done: true, Note: c.After + " is " + *c.Before + " again"}, os.WriteFile(d.o.Host.setting(c.What), []byte(*c.Before+"\n"), 0o644)
}

// undoEngine takes lab's runtime out of daemon.json, whatever else was changed there since, and reloads the engine.
func (d *Doctor) undoEngine(ctx context.Context, c change, is []byte) (Undone, error) {
	restored, note := []byte(nil), ""
	if c.Before != nil {
		restored = []byte(*c.Before)
	}
	if string(is) != c.After {
		now, err := parseDaemonConfig(is)
		before, err1 := parseDaemonConfig(restored)
		after, err2 := parseDaemonConfig([]byte(c.After))
		if err = errors.Join(err, err1, err2); err == nil {
			restored, err = now.without(runtimeName, before, after)
		}
		if err != nil {
			return Undone{Note: "it has been changed since: " + err.Error()}, nil
		}
		note = "other changes to it are kept"
	}
	if len(bytes.TrimSpace(restored)) == 0 && c.Before == nil {
		if err := os.Remove(c.What); err != nil {
			return Undone{}, err
		}
	} else if err := writeAtomic(c.What, restored, c.Mode); err != nil {
		return Undone{}, err
	}
	pid, ok := d.o.Host.dockerd()
	if !ok {
		return Undone{Done: true, Note: note}, nil
	}
	err := d.reloadUntil(ctx, pid, undoneTimeout, func(info docker.Info) error {
		if _, ok := info.Runtimes[runtimeName]; ok {
			return errors.New("it still has the runtime")
		}
		return nil
	})
	if err != nil && ctx.Err() == nil { // an engine whose list of runtimes is gone keeps the one that it has
		note = strings.TrimPrefix(note+"; docker keeps the runtime until it restarts", "; ")
	}
	return Undone{Done: true, Note: note}, ctx.Err()
}
