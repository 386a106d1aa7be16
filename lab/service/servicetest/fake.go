// Package servicetest has a fake of a lab's service, and the contract that it shares with the real one.
package servicetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"homelab/lab"
	"homelab/lab/service"
)

// Fake is a service in memory. Its zero value is absent.
type Fake struct {
	Name  string
	Keeps bool // it has a volume

	mu    sync.Mutex
	state service.State
	held  string // content of the volume
	sick  bool
}

// Inputs implements up.Service.
func (f *Fake) Inputs(images ...lab.Image) string {
	var of []string
	for _, i := range images {
		of = append(of, i.Ref, i.Digest)
	}
	return strings.Join(of, " ")
}

// Observe implements up.Service.
func (f *Fake) Observe(ctx context.Context) (service.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	s.Answers = s.Running && !f.sick
	return s, ctx.Err()
}

// Start implements up.Service.
func (f *Fake) Start(ctx context.Context, _ lab.Progress, images ...lab.Image) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(images) == 0 {
		return errors.New(f.Name + " has no image")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sick = false
	f.state = service.State{Exists: true, Volume: f.Keeps, Running: true, Connected: true, Inputs: f.Inputs(images...), Ports: map[int]string{5000: "127.0.0.1:5000"}}
	return nil
}

// Remove implements up.Service.
func (f *Fake) Remove(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.held = service.State{}, ""
	return nil
}

// Stop stops the container.
func (f *Fake) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Running = false
}

// Disconnect takes the container off the lab's network.
func (f *Fake) Disconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Connected = false
}

// Sicken loses the service's files.
func (f *Fake) Sicken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sick = true
}

// Lose removes the container without its volume.
func (f *Fake) Lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = service.State{Volume: f.state.Volume}
}

// Put replaces the content of the volume.
func (f *Fake) Put(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = text
}

// Held returns the content of the volume.
func (f *Fake) Held() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// Take copies the service, and returns how to bring the copy back.
func (f *Fake) Take() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, held := f.state, f.held
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.state, f.held = state, held
		f.state.Running = false
	}
}

// Contents describes what exists.
func (f *Fake) Contents() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.state.Exists && !f.state.Volume {
		return nil
	}
	return []string{fmt.Sprintf("part %s running %t connected %t inputs %s volume %t %q", f.Name, f.state.Running, f.state.Connected, f.state.Inputs, f.state.Volume, f.held)}
}
