// Package workspace finds the lab and the estate of a command line, checks that they belong together, and says how the next command line names them.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/interrupt"
	"homelab/lab/state"
)

// Options is what a command line says of the lab and the estate that it is about.
type Options struct {
	Name     string         // of the lab; empty for the estate's
	Estate   string         // folder; empty for the one around the working folder
	Builtin  bool           // the built-in estate, whatever the working folder holds
	Embedded fs.FS          // the built-in estate
	Engine   lab.EngineType // asked for; empty for the lab's, or the estate's
	// Around is what the environment says in place of Name and Estate.
	AroundName, AroundEstate string
}

// Workspace is one lab, as a command sees it.
type Workspace struct {
	Name   string
	Dir    *state.Dir
	Record state.Record
	Estate Files

	Engine lab.EngineType // asked for, now or when the lab was made; empty for the estate's

	here   string // lab that a command is about here when nothing names another
	given  bool   // the lab was named, by the command line or the environment
	named  string // folder of the estate, where the command line names it
	around string // lab that the environment names

	doubt   string // why the estate is not taken for what the working folder is about; empty where there is no doubt
	builtin bool   // the built-in estate was asked for where it would not be taken by itself
	garbled error  // the lab's record is there and cannot be read
}

// Open finds the lab and the estate that a command is about. It reads, and makes nothing.
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
	w.Engine = cmp.Or(o.Engine, w.Record.Asked)
	return w, w.origin(o)
}

// origin settles which estate a lab is about where the working folder has none: one that is up is about the estate that it came from.
func (w *Workspace) origin(o Options) error {
	w.doubt = w.Estate.nobody
	if o.Builtin {
		if o.Estate != "" {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "both --builtin and an estate's folder", Cure: "one of them"}
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
		w.doubt = fmt.Sprintf("lab %s was made from %s, which has no folder %s", w.Name, from, lab.ClustersDir)
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

// garbled reports whether a state file is there and is no valid document.
func garbled(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == state.CodeGarbled
}

// Existing is Open for a command that needs a lab that was brought up.
func Existing(o Options) (*Workspace, error) {
	w, err := Open(o)
	if err != nil {
		return nil, err
	}
	if w.garbled != nil {
		return nil, w.garbled
	}
	if w.Dir.Exists() {
		return w, nil
	}
	e := &lab.Error{Exit: lab.ExitFailed, Code: "no_lab", Message: fmt.Sprintf("there is no lab %q", w.Name), Cure: "lab up makes it"}
	if others, err := state.List(); err == nil && len(others) > 0 {
		e.Cure += "; there are: " + strings.Join(others, ", ") + " (--name)"
	}
	return nil, e
}

// Beside is a lab of the same estate under another name.
func (w *Workspace) Beside(name string) (*Workspace, error) {
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

// HasEstate refuses to take another estate for that of a folder which has none.
func (w *Workspace) HasEstate() error {
	if w.doubt == "" {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "no_estate", Message: w.doubt, Details: []string{"nothing was touched"},
		Cure: "lab init DIR writes one to a folder, -C DIR names one, lab up --builtin takes the built-in one",
	}
}

// Ours refuses to let a lab follow another estate than the one that it was made from. The built-in estate may go on in a folder, as lab init writes it.
func (w *Workspace) Ours() error {
	if err := w.HasEstate(); err != nil {
		return err
	}
	if !w.Dir.Exists() || w.Record.Estate == "" || sameFolder(w.Record.Estate, w.Estate.Dir) {
		return nil
	}
	e := w.otherEstate()
	e.Cure = "another lab: --name NAME; or, where the estate has moved: " + w.OnEstate("lab up --adopt")
	return e
}

func (w *Workspace) otherEstate() *lab.Error {
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "other_estate", Message: "lab " + w.Name + " was made from another estate, nothing was touched",
		Details: []string{"it was made from  " + w.Record.Estate, "this is           " + cmp.Or(w.Estate.Dir, "the built-in estate")},
	}
}

// Editable refuses the built-in estate, whose files nobody can change.
func (w *Workspace) Editable() error {
	if w.Estate.Dir != "" {
		return nil
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "embedded", Message: "the built-in estate cannot be changed", Cure: "lab init DIR writes it out"}
}

// Readable refuses a lab whose record cannot be read.
func (w *Workspace) Readable() error { return w.garbled }

// Followed reports whether the estate is in a folder that is known to be the lab's.
func (w *Workspace) Followed() bool { return w.Estate.Dir != "" && w.doubt == "" }

// Load reads and checks the estate.
func (w *Workspace) Load(options ...estate.Option) (*lab.Estate, error) {
	if w.Estate.Dir == "" && !w.Dir.Exists() || w.Record.Estate != "" && w.Estate.Dir == "" && !w.builtin {
		if err := w.HasEstate(); err != nil {
			return nil, err
		}
	}
	est, err := estate.Load(w.Estate.FS, w.Estate.Dir, w.Name, append([]estate.Option{estate.WithEngine(w.Engine)}, options...)...)
	if err != nil {
		return nil, err
	}
	order := func(c lab.Cluster) int {
		if c.Role == lab.RoleHub {
			return -1
		}
		env, _ := est.Environment(c.Environment)
		return env.Order
	}
	// as a user reads them: the hub, then the spokes in the order of promotion
	slices.SortStableFunc(est.Clusters, func(a, b lab.Cluster) int { return cmp.Compare(order(a), order(b)) })
	return est, nil
}

// ToMake counts the clusters that are still to be made: those of a lab that was up hold their memory already.
func (w *Workspace) ToMake(est *lab.Estate) int {
	if w.Record.Engine != "" {
		return 0
	}
	return len(est.Clusters)
}

// SetAside puts state files that cannot be read out of the way, so that a run goes on as after their loss.
func (w *Workspace) SetAside(p lab.Progress) error {
	files, err := w.Dir.SetAside()
	for _, f := range files {
		p("cannot be read, and kept aside: " + f)
	}
	if err != nil {
		return err
	}
	if w.garbled != nil {
		w.garbled, w.Record = nil, state.Record{Lab: w.Name}
	}
	return nil
}

// Spare refuses to have snapshots removed that find does not find, or without which the lab is lost: a restore of one has not ended.
func (w *Workspace) Spare(names []string, find func(name string) error) error {
	for _, name := range names {
		if err := find(name); err != nil {
			return err
		}
		if name == w.Dir.Restoring() {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "restoring", Message: "a restore of snapshot " + name + " has not ended: without it the lab is lost",
				Cure: w.Command("lab up") + " goes on with it",
			}
		}
	}
	return nil
}

// Locked runs do while no other command changes this lab.
func (w *Workspace) Locked(ctx context.Context, do func(context.Context) error) error {
	unlock, err := w.Dir.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	defer interrupt.Outlive()()
	if err := w.unchanged(); err != nil {
		return err
	}
	return do(ctx)
}

// unchanged refuses to go on from a record that another command has changed since it was read, before it held the lock.
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

// Emptied is Locked for a command that takes away what the lab is: a lab that was made from another estate which is still there has to be named.
func (w *Workspace) Emptied(ctx context.Context, do func(context.Context) error) error {
	if err := w.meant(); err != nil {
		return err
	}
	return w.Locked(ctx, do)
}

// meant refuses a lab that is known by the name of a folder alone, and not by its own.
func (w *Workspace) meant() error {
	if w.given || w.Estate.Dir == "" || w.Record.Estate == "" || sameFolder(w.Record.Estate, w.Estate.Dir) || !isEstate(w.Record.Estate) {
		return nil
	}
	e := w.otherEstate()
	e.Cure = "to mean that one all the same: --name " + w.Name
	return e
}

// Held is Locked for a command that a lab which is down may be the object of: the folder that the lock needs goes again.
func (w *Workspace) Held(ctx context.Context, do func(context.Context) error) error {
	if err := w.meant(); err != nil {
		return err
	}
	if w.Dir.Exists() {
		return w.Locked(ctx, do)
	}
	return w.Locked(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if !w.Dir.Exists() && w.Dir.Restoring() == "" {
			_ = w.Dir.Remove() // what is left there holds nothing
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
