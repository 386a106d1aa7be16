package snapshottest

import (
	"fmt"
	"maps"
	"testing"

	"homelab/lab/snapshot"
)

// boxes are in-memory containers.
type boxes struct {
	held    map[string]string // data by name
	running map[string]bool
	ids     int
}

func (b *boxes) Take(containers []string) (func() (map[string]string, error), error) {
	taken := map[string]string{}
	for _, name := range containers {
		taken[name] = b.held[name]
	}
	return func() (map[string]string, error) {
		ids := map[string]string{}
		maps.Copy(b.held, taken)
		for name := range taken {
			b.ids++
			ids[name] = fmt.Sprint(b.ids)
		}
		return ids, nil
	}, nil
}

func (b *boxes) Wake(containers []string) error {
	for _, name := range containers {
		b.running[name] = true
	}
	return nil
}

func TestFake(t *testing.T) {
	Run(t, func(*testing.T) Bench {
		b := &boxes{held: map[string]string{}, running: map[string]bool{"node": true, "other": true}}
		fake := &Fake{Machine: b, Lab: "demo"}
		return Bench{
			Snapshots: fake, Node: "node", Other: "other",
			Write:   func(_ *testing.T, container, text string) { b.held[container] = text },
			Read:    func(_ *testing.T, container string) string { return b.held[container] },
			Remove:  func(*testing.T) { clear(b.held); clear(b.running) },
			Running: func(_ *testing.T, container string) bool { return b.running[container] },
			Fill:    func(*testing.T) {},
			Prune:   func(*testing.T) { fake.Prune() },
			Spoil:   func(_ *testing.T, o snapshot.Snapshot) { fake.Spoil(o.Name) },
		}
	})
}
