// Package workspace finds the lab and the estate of a command line and checks that they belong together.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/state"
)

// Options are the parts of a command line that select the lab and the estate.
type Options struct {
	Name     string         // of the lab; default: the estate's
	Estate   string         // folder; default: the one enclosing the working folder
	Builtin  bool           // use the built-in estate
	Embedded fs.FS          // the built-in estate
	Engine   lab.EngineType // requested; default: the lab's, else the estate's
	Version  string         // of the engine, requested; default: the lab's, else the estate's
	// AroundName and AroundEstate are the environment's values for Name and Estate.
	AroundName, AroundEstate string
}

// Workspace is a lab with its estate.
type Workspace struct {
	Name   string
	Dir    *state.Dir
	Record state.Record
	Estate Files

	Engine  lab.EngineType // requested, now or on creation; default: the estate's
	Version estate.Asked   // of the engine, requested now or by an earlier run
	Values  map[string]any // for the engine over those of the estate, of a story that is played

	asked  Options
	here   string // default lab of commands here
	given  bool   // the lab was named, on the command line or by the environment
	named  string // folder of the estate on the command line
	around string // lab named by the environment

	doubt   string // why the estate may be the wrong one; empty if certain
	builtin bool   // the built-in estate was requested where it is not the default
	garbled error  // error of an unreadable record

	read    *[]Revision // by Desired; nil unless At made this
	revised []string    // folders with a revision

	drafting *drafting // nil if there is an estate
}

// Open finds the lab and the estate of a command. It changes nothing.
func Open(o Options) (*Workspace, error) {
	src, err := Find(o.Estate, o.Embedded)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Name: cmp.Or(o.Name, src.Name), Estate: src, here: cmp.Or(o.AroundName, src.Name), around: o.AroundName, given: o.Name != ""}
	if o.Estate != o.AroundEstate {
		w.named = o.Estate
		if around, err := Find(o.AroundEstate, o.Embedded); err == nil {
			w.here = cmp.Or(o.AroundName, around.Name)
		}
	}
	if err := validName(w.Name); err != nil {
		return nil, err
	}
	if w.Dir, err = state.Open(w.Name); err != nil {
		return nil, err
	}
	if w.Record, err = w.Dir.Load(); err != nil {
		if !garbled(err) {
			return nil, err
		}
		w.garbled = err
	}
	w.asked = o
	w.ask()
	return w, w.origin(o)
}

// ask determines the engine and its version, requested now or by an earlier run.
func (w *Workspace) ask() {
	w.Engine = cmp.Or(w.asked.Engine, w.Record.Asked)
	w.Version = estate.Asked{Version: w.asked.Version}
	if w.Version.Version == "" && w.Record.Version != "" {
		w.Version = estate.Asked{Version: w.Record.Version, Of: w.Record.Type}
	}
}

// ForgetVersion drops the engine version of this command line; it takes effect with Reload.
func (w *Workspace) ForgetVersion() { w.asked.Version = "" }

// Reload reads the record again, which a restored snapshot replaced.
func (w *Workspace) Reload() (err error) {
	if w.Record, err = w.Dir.Load(); err == nil {
		w.ask()
	}
	return err
}

// origin settles the estate of a lab where the working folder has none: an existing lab keeps the estate that it was created from.
func (w *Workspace) origin(o Options) error {
	w.doubt = w.Estate.doubt
	if o.Builtin {
		if o.Estate != "" {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--builtin excludes an estate folder", Cure: "use one of them"}
		}
		w.Estate, w.builtin, w.doubt = Files{FS: o.Embedded, Name: BuiltinName}, w.doubt != "", ""
		return nil
	}
	if w.Estate.Dir != "" || !w.Dir.Exists() {
		return nil
	}
	switch from := w.Record.Estate; {
	case from == "":
	case !isEstate(from):
		w.doubt = fmt.Sprintf("lab %s was created from %s, which has no folder %s", w.Name, from, lab.ClustersDir)
		return nil
	default:
		var err error
		if w.Estate, err = onDisk(from); err != nil {
			return err
		}
	}
	if o.Name != "" {
		w.doubt = ""
	}
	return nil
}

// garbled reports whether err is about a state file with invalid content.
func garbled(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == state.CodeGarbled
}

// Existing is like Open for a command that needs an existing lab.
func Existing(o Options) (*Workspace, error) {
	w, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := w.HasLab(); err != nil {
		return nil, err
	}
	return w, nil
}

// HasLab returns an error if there is no lab.
func (w *Workspace) HasLab() error {
	if w.garbled != nil {
		return w.garbled
	}
	if w.Dir.Exists() {
		return nil
	}
	e := &lab.Error{Exit: lab.ExitFailed, Code: "no_lab", Message: fmt.Sprintf("no lab %q", w.Name), Cure: "lab up creates it"}
	if others, err := state.List(); err == nil && len(others) > 0 {
		e.Cure += "; there are: " + strings.Join(others, ", ") + " (--name)"
	}
	return e
}

// Sibling returns a lab of the same estate, under its name with a suffix.
func (w *Workspace) Sibling(suffix string) (*Workspace, error) {
	name := strings.TrimSuffix(w.Name[:min(len(w.Name), lab.MaxName-len(suffix))], "-") + suffix
	dir, err := state.Open(name)
	if err != nil {
		return nil, err
	}
	return &Workspace{Name: name, Dir: dir, Estate: w.Estate}, nil
}

// WithFiles returns the lab with files as its estate, or unchanged if files is nil.
func (w *Workspace) WithFiles(files fs.FS) *Workspace {
	if files == nil {
		return w
	}
	other := *w
	other.Estate, other.doubt, other.builtin = Files{FS: files, Name: w.Estate.Name}, "", true
	return &other
}

// HasEstate returns an error if the estate may be the wrong one.
func (w *Workspace) HasEstate() error {
	if w.doubt == "" {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "no_estate", Message: w.doubt, Details: []string{"nothing was touched"},
		Cure: "lab init DIR creates one, -C DIR selects one, lab up --builtin uses the built-in one",
	}
}

// Ours returns an error if the lab was created from another estate. The built-in estate may continue in a folder.
func (w *Workspace) Ours() error {
	if err := w.HasEstate(); err != nil {
		return err
	}
	if !w.Dir.Exists() || w.Record.Estate == "" || sameFolder(w.Record.Estate, w.Estate.Dir) {
		return nil
	}
	e := w.otherEstate()
	e.Cure = "--name NAME for another lab; if the estate has moved: " + w.OnEstate("lab up --adopt")
	return e
}

func (w *Workspace) otherEstate() *lab.Error {
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "other_estate", Message: "lab " + w.Name + " was created from another estate, nothing was touched",
		Details: []string{"created from  " + w.Record.Estate, "this estate   " + cmp.Or(w.Estate.Dir, "the built-in estate")},
	}
}

// Editable returns an error for the built-in estate.
func (w *Workspace) Editable() error {
	if w.Estate.Dir != "" {
		return nil
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "embedded", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out"}
}

// Readable returns an error if the lab's record is unreadable.
func (w *Workspace) Readable() error { return w.garbled }

// Followed reports whether the estate is a folder known to be the lab's.
func (w *Workspace) Followed() bool { return w.Estate.Dir != "" && w.doubt == "" }

// ToCreate counts the clusters that need memory of this machine: lab creates them, and has not yet.
func (w *Workspace) ToCreate(clusters []lab.Cluster) int {
	n := 0
	for _, c := range clusters {
		if c.Provider != lab.ProviderExisting && !w.Dir.Cluster(c.Name).Whole {
			n++
		}
	}
	return n
}

// SetAside renames unreadable state files, so that a run treats them as lost.
func (w *Workspace) SetAside(p lab.Progress) error {
	files, err := w.Dir.SetAside()
	for _, f := range files {
		p("unreadable, kept as " + f)
	}
	if err != nil {
		return err
	}
	if w.garbled != nil {
		w.garbled, w.Record = nil, state.Record{Lab: w.Name}
	}
	return nil
}

// Spare returns an error if a snapshot does not exist or is needed to complete a restore.
func (w *Workspace) Spare(names []string, find func(name string) error) error {
	for _, name := range names {
		if err := find(name); err != nil {
			return err
		}
		if name == w.Dir.Restoring() {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "restoring", Message: "snapshot " + name + " is needed: its restore is incomplete",
				Cure: w.Command("lab up") + " resumes it",
			}
		}
	}
	return nil
}

// Locked calls do with the lab locked. SIGPIPE is ignored meanwhile: a change completes even if its reader is gone, as in lab up |& head.
func (w *Workspace) Locked(ctx context.Context, do func(context.Context) error) error {
	unlock, err := w.Dir.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	if err := w.unchanged(); err != nil {
		return err
	}
	return do(ctx)
}

// unchanged returns an error if the record was changed between its reading and the locking.
func (w *Workspace) unchanged() error {
	now, err := w.Dir.Load()
	switch {
	case garbled(err) && w.garbled != nil:
		return nil
	case err != nil:
		return err
	}
	was := w.Record
	was.Lab = now.Lab
	if now == was {
		return nil
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "changed", Message: "lab " + w.Name + " was changed by another lab command, nothing was touched", Cure: "run this one again"}
}

// LockedToDelete is like Locked for a command that deletes the lab's content: a lab of another existing estate must be named explicitly.
func (w *Workspace) LockedToDelete(ctx context.Context, do func(context.Context) error) error {
	if err := w.meant(); err != nil {
		return err
	}
	return w.Locked(ctx, do)
}

// meant returns an error if only the folder's name selects the lab, which has another existing estate.
func (w *Workspace) meant() error {
	if w.given || w.Estate.Dir == "" || w.Record.Estate == "" || sameFolder(w.Record.Estate, w.Estate.Dir) || !isEstate(w.Record.Estate) {
		return nil
	}
	e := w.otherEstate()
	e.Cure = "to select it anyway: --name " + w.Name
	return e
}

// LockedOrDown is like LockedToDelete for a lab that may be down, which leaves no folder.
func (w *Workspace) LockedOrDown(ctx context.Context, do func(context.Context) error) error {
	if err := w.meant(); err != nil {
		return err
	}
	if w.Dir.Exists() {
		return w.Locked(ctx, do)
	}
	return w.Locked(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if !w.Dir.Exists() && w.Dir.Restoring() == "" {
			_ = w.Dir.Remove() // only the lock remains
		}
		return err
	})
}

func validName(name string) error {
	if lab.IsName(name) {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be the name of a lab", name),
		Cure: lab.NameRule + " (--name)",
	}
}
