package snapshottest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"homelab/lab"
	"homelab/lab/snapshot"
)

// Bench is a lab with running containers.
type Bench struct {
	Snapshots Snapshots
	Node      string // a node of cluster "hub"
	Other     string // a container that is not a node
	Network   string
	Write     func(t *testing.T, container, text string) // into a volume
	Read      func(t *testing.T, container string) string
	Remove    func(t *testing.T) // both containers and their data
	Running   func(t *testing.T, container string) bool
	Prune     func(t *testing.T)                      // images that no container uses
	Spoil     func(t *testing.T, o snapshot.Snapshot) // garbles its metadata
	Fill      func(t *testing.T)                      // the node with much to copy
	Copying   func(t *testing.T)                      // returns once Save, which says that it copies, does so; nil if it does as it says
}

func (b Bench) contents() snapshot.Contents {
	return snapshot.Contents{
		Clusters: map[string][]string{"hub": {b.Node}}, Others: []string{b.Other}, Files: map[string][]byte{"lab.json": []byte("{}\n"), "clusters/hub.json": {0, 255}},
	}
}

func silent(string) {}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func code(err error) string {
	var e *lab.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Run runs the contract suite with a new bench per case.
func Run(t *testing.T, bench func(t *testing.T) Bench) {
	cases := map[string]func(t *testing.T, b Bench){
		"restored":                    comesBack,
		"name exists":                 taken,
		"missing snapshot":            absent,
		"staging does not affect lab": stagedBeside,
		"place without stage":         unstaged,
		"interrupted save":            interrupted,
		"interrupted copy":            copying,
		"snapshot of a restored lab":  again,
		"images pruned":               pruned,
		"metadata garbled":            garbled,
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { cases[name](t, bench(t)) })
	}
}

func (b Bench) write(t *testing.T, text string) {
	t.Helper()
	b.Write(t, b.Node, "node "+text)
	b.Write(t, b.Other, "other "+text)
}

func (b Bench) wants(t *testing.T, text string) {
	t.Helper()
	for container, want := range map[string]string{b.Node: "node " + text, b.Other: "other " + text} {
		if got := b.Read(t, container); got != want {
			t.Errorf("container %s contains %q, want %q", container, got, want)
		}
	}
}

func (b Bench) save(t *testing.T, name string, replace bool) snapshot.Snapshot {
	t.Helper()
	o, err := b.Snapshots.Save(t.Context(), name, replace, b.contents(), silent)
	must(t, err)
	return o
}

func (b Bench) restore(t *testing.T, name string) {
	t.Helper()
	o, err := b.Snapshots.Find(t.Context(), name)
	must(t, err)
	must(t, b.Snapshots.Stage(t.Context(), o, silent))
	b.Remove(t)
	ids, err := b.Snapshots.Place(t.Context(), o, silent)
	must(t, err)
	for _, name := range []string{b.Node, b.Other} {
		if ids[name] == "" {
			t.Errorf("no id of container %s: %v", name, ids)
		}
	}
	must(t, b.Snapshots.Start(t.Context(), o, b.Network))
	for _, name := range []string{b.Node, b.Other} {
		if !b.Running(t, name) {
			t.Errorf("container %s does not run", name)
		}
	}
}

func comesBack(t *testing.T, b Bench) {
	b.write(t, "first")
	saved := b.save(t, "one", false)
	if saved.Name != "one" || saved.Taken.IsZero() || saved.Bytes <= 0 {
		t.Errorf("saved %+v", saved)
	}
	b.write(t, "second")
	b.wants(t, "second")
	list, err := b.Snapshots.List(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Name != "one" || !maps.EqualFunc(list[0].Clusters, b.contents().Clusters, slices.Equal) ||
		string(list[0].Files["clusters/hub.json"]) != "\x00\xff" {
		t.Errorf("listed %+v", list)
	}
	b.restore(t, "one")
	b.wants(t, "first")
	b.write(t, "third") // must not affect the snapshot
	b.restore(t, "one")
	b.wants(t, "first")
	must(t, b.Snapshots.Remove(t.Context(), "one"))
	b.wants(t, "first")
	if list, err := b.Snapshots.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after its removal %+v, %v", list, err)
	}
}

func taken(t *testing.T, b Bench) {
	b.write(t, "first")
	b.save(t, "one", false)
	b.write(t, "second")
	if _, err := b.Snapshots.Save(t.Context(), "one", false, b.contents(), silent); code(err) != "exists" {
		t.Errorf("%v", err)
	}
	b.save(t, "one", true)
	b.save(t, "two", false)
	b.write(t, "third")
	list, err := b.Snapshots.List(t.Context())
	must(t, err)
	if len(list) != 2 {
		t.Errorf("listed %+v", list)
	}
	b.restore(t, "one")
	b.wants(t, "second")
}

func absent(t *testing.T, b Bench) {
	for _, name := range []string{"", "one"} {
		if _, err := b.Snapshots.Find(t.Context(), name); code(err) != snapshot.CodeNone {
			t.Errorf("%q: %v", name, err)
		}
	}
	b.save(t, "one", false)
	if o, err := b.Snapshots.Find(t.Context(), ""); err != nil || o.Name != "one" {
		t.Errorf("the newest is %q, %v", o.Name, err)
	}
	if _, err := b.Snapshots.Find(t.Context(), "two"); code(err) != snapshot.CodeNone {
		t.Errorf("%v", err)
	}
	must(t, b.Snapshots.Remove(t.Context(), "two"))
	if list, err := b.Snapshots.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

func stagedBeside(t *testing.T, b Bench) {
	b.write(t, "first")
	o := b.save(t, "one", false)
	b.write(t, "second")
	must(t, b.Snapshots.Stage(t.Context(), o, silent))
	must(t, b.Snapshots.Stage(t.Context(), o, silent)) // again, as after a kill
	b.wants(t, "second")
	must(t, b.Snapshots.Clean(t.Context()))
	b.wants(t, "second")
	b.restore(t, "one")
	b.wants(t, "first")
}

func unstaged(t *testing.T, b Bench) {
	b.write(t, "first")
	o := b.save(t, "one", false)
	b.Remove(t)
	if _, err := b.Snapshots.Place(t.Context(), o, silent); err == nil {
		t.Error("Place succeeded without staged volumes")
	}
}

func interrupted(t *testing.T, b Bench) {
	b.write(t, "first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Snapshots.Save(ctx, "one", false, b.contents(), silent); err == nil {
		t.Error("Save succeeded although interrupted")
	}
	for _, name := range []string{b.Node, b.Other} {
		if !b.Running(t, name) {
			t.Errorf("container %s does not run", name)
		}
	}
	if list, err := b.Snapshots.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	b.save(t, "one", false)
}

// copying tests that a save that is cancelled while it copies leaves nothing that copies on. The bench looks for leftovers.
func copying(t *testing.T, b Bench) {
	b.write(t, "first")
	b.Fill(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended sync.WaitGroup
	_, err := b.Snapshots.Save(ctx, "one", false, b.contents(), func(text string) {
		switch {
		case text != "copying their volumes":
		case b.Copying == nil:
			cancel()
		default:
			ended.Go(func() { b.Copying(t); cancel() })
		}
	})
	ended.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Save: %v", err)
	}
	for _, name := range []string{b.Node, b.Other} {
		if !b.Running(t, name) {
			t.Errorf("container %s does not run", name)
		}
	}
	if list, err := b.Snapshots.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	b.wants(t, "first")
}

func again(t *testing.T, b Bench) {
	b.write(t, "first")
	b.save(t, "one", false)
	b.restore(t, "one")
	b.write(t, "second")
	b.save(t, "two", false)
	must(t, b.Snapshots.Remove(t.Context(), "one"))
	b.restore(t, "two")
	b.wants(t, "second")
}

// pruned tests that a snapshot without its images is listed but cannot be restored, and that others can.
func pruned(t *testing.T, b Bench) {
	b.write(t, "first")
	b.save(t, "one", false)
	b.Prune(t)
	b.write(t, "second")
	b.save(t, "two", false)
	must(t, b.Snapshots.Clean(t.Context()))
	list, err := b.Snapshots.List(t.Context())
	must(t, err)
	if len(list) != 2 || list[0].Name != "two" || len(list[0].Pruned) > 0 || list[1].Name != "one" || len(list[1].Pruned) == 0 {
		t.Errorf("listed %+v", list)
	}
	o, err := b.Snapshots.Find(t.Context(), "one")
	must(t, err)
	if err := b.Snapshots.Stage(t.Context(), o, silent); code(err) != snapshot.CodePruned {
		t.Errorf("staged: %v", err)
	}
	b.wants(t, "second")
	b.write(t, "third")
	b.restore(t, "two")
	b.wants(t, "second")
	must(t, b.Snapshots.Remove(t.Context(), "two"))
	if o, err := b.Snapshots.Find(t.Context(), ""); code(err) != snapshot.CodeNone {
		t.Errorf("the newest is %q, %v", o.Name, err)
	}
	must(t, b.Snapshots.Remove(t.Context(), "one"))
	if list, err := b.Snapshots.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// garbled tests that a snapshot with garbled metadata is listed and removed, and keeps no other from being listed, saved, restored and removed.
func garbled(t *testing.T, b Bench) {
	b.write(t, "first")
	b.save(t, "one", false)
	b.Spoil(t, b.save(t, "bad", false))
	must(t, b.Snapshots.Clean(t.Context()))
	b.write(t, "second")
	b.save(t, "two", false)
	list, err := b.Snapshots.List(t.Context())
	must(t, err)
	i := slices.IndexFunc(list, func(o snapshot.Snapshot) bool { return o.Name == "bad" })
	if len(list) != 3 || i < 0 || list[i].Unreadable == "" {
		t.Fatalf("listed %+v", list)
	}
	if err := b.Snapshots.Stage(t.Context(), list[i], silent); code(err) != snapshot.CodeUnreadable {
		t.Errorf("staged: %v", err)
	}
	if _, err := b.Snapshots.Save(t.Context(), "bad", false, b.contents(), silent); code(err) != "exists" {
		t.Errorf("saved over it: %v", err)
	}
	b.restore(t, "one")
	b.wants(t, "first")
	must(t, b.Snapshots.Remove(t.Context(), "two"))
	if o, err := b.Snapshots.Find(t.Context(), ""); err != nil || o.Name != "one" {
		t.Errorf("the newest is %q, %v", o.Name, err)
	}
	must(t, b.Snapshots.Remove(t.Context(), "bad", "one"))
	if list, err := b.Snapshots.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
