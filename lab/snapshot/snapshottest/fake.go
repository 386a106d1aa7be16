// Package snapshottest provides a contract suite for snapshots, and a fake.
package snapshottest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/snapshot"
)

// Snapshots is the interface that the suite tests.
type Snapshots interface {
	Save(ctx context.Context, name string, replace bool, c snapshot.Contents, p lab.Progress) (snapshot.Snapshot, error)
	List(ctx context.Context) ([]snapshot.Snapshot, error)
	Find(ctx context.Context, name string) (snapshot.Snapshot, error)
	Remove(ctx context.Context, names ...string) error
	Clean(ctx context.Context) error
	Stage(ctx context.Context, o snapshot.Snapshot, p lab.Progress) error
	Place(ctx context.Context, o snapshot.Snapshot, p lab.Progress) (map[string]string, error)
	Start(ctx context.Context, o snapshot.Snapshot, network string) error
}

// Machine is where a fake's containers run.
type Machine interface {
	// Take copies containers; the returned function recreates them, stopped, and returns their ids by name.
	Take(containers []string) (func() (map[string]string, error), error)
	Wake(containers []string) error
}

// Fake keeps snapshots in memory.
type Fake struct {
	Machine Machine
	Lab     string
	saved   []entry
	staged  string // name of the staged snapshot
}

type entry struct {
	snapshot.Snapshot
	put func() (map[string]string, error)
}

var _ Snapshots = (*Fake)(nil)

// Save copies the containers.
func (f *Fake) Save(ctx context.Context, name string, replace bool, c snapshot.Contents, p lab.Progress) (snapshot.Snapshot, error) {
	if ctx.Err() != nil {
		return snapshot.Snapshot{}, ctx.Err()
	}
	is := func(e entry) bool { return e.Name == name }
	if slices.ContainsFunc(f.saved, is) && !replace {
		return snapshot.Snapshot{}, &lab.Error{Exit: lab.ExitInvalid, Code: "exists", Message: "there is a snapshot " + name + " already", Cure: "another name, or --replace"}
	}
	p("copying their volumes")
	put, err := f.Machine.Take(c.Containers())
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	e := entry{snapshot.Snapshot{Name: name, Taken: time.Now(), Contents: c, Bytes: 1}, put}
	f.saved = append([]entry{e}, slices.DeleteFunc(f.saved, is)...)
	return e.Snapshot, nil
}

// List returns the snapshots, newest first.
func (f *Fake) List(context.Context) ([]snapshot.Snapshot, error) {
	var list []snapshot.Snapshot
	for _, e := range f.saved {
		list = append(list, e.Snapshot)
	}
	return list, nil
}

// Find returns a snapshot, or the newest if the name is empty.
func (f *Fake) Find(_ context.Context, name string) (snapshot.Snapshot, error) {
	var names []string
	for _, e := range f.saved {
		if name == "" && e.Restorable() == nil || e.Name == name {
			return e.Snapshot, nil
		}
		names = append(names, e.Name)
	}
	return snapshot.Snapshot{}, &lab.Error{
		Exit: lab.ExitInvalid, Code: snapshot.CodeNone, Message: fmt.Sprintf("lab %s has no snapshot %q", f.Lab, name), Cure: "there are: " + strings.Join(names, ", "),
	}
}

// Remove removes snapshots.
func (f *Fake) Remove(_ context.Context, names ...string) error {
	f.saved = slices.DeleteFunc(f.saved, func(e entry) bool { return slices.Contains(names, e.Name) })
	return nil
}

// Clean drops the staged snapshot.
func (f *Fake) Clean(context.Context) error {
	f.staged = ""
	return nil
}

// Prune removes the images of all snapshots.
func (f *Fake) Prune() {
	for i := range f.saved {
		f.saved[i].Pruned = []string{"image of " + f.saved[i].Name}
	}
}

// Spoil garbles the metadata of a snapshot.
func (f *Fake) Spoil(name string) {
	i := slices.IndexFunc(f.saved, func(e entry) bool { return e.Name == name })
	f.saved[i].Snapshot = snapshot.Snapshot{Name: name, Unreadable: "garbled"}
}

// Stage records the staged snapshot.
func (f *Fake) Stage(_ context.Context, o snapshot.Snapshot, _ lab.Progress) error {
	if err := o.Restorable(); err != nil {
		return err
	}
	f.staged = o.Name
	return nil
}

// Place recreates the containers.
func (f *Fake) Place(_ context.Context, o snapshot.Snapshot, _ lab.Progress) (map[string]string, error) {
	i := slices.IndexFunc(f.saved, func(e entry) bool { return e.Name == o.Name })
	if f.staged != o.Name || i < 0 {
		return nil, errors.New("snapshot " + o.Name + " is not unpacked")
	}
	ids, err := f.saved[i].put()
	if err == nil {
		f.staged = ""
	}
	return ids, err
}

// Start starts the containers.
func (f *Fake) Start(_ context.Context, o snapshot.Snapshot, _ string) error {
	return f.Machine.Wake(o.Containers())
}
