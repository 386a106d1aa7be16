package servicetest

import (
	"context"
	"testing"

	"homelab/lab"
	"homelab/lab/service"
)

// Service is what the contract is about.
type Service interface {
	Inputs(images ...lab.Image) string
	Observe(ctx context.Context) (service.State, error)
	Start(ctx context.Context, p lab.Progress, images ...lab.Image) error
	Remove(ctx context.Context) error
}

// Subject is an absent service with a volume, and ways to spoil it.
type Subject struct {
	Service    Service
	Image      lab.Image
	Newer      lab.Image // another
	Stop       func()
	Disconnect func() // from its network
	Sicken     func() // it lost its files, and does not answer
	Lose       func() // the container
	Put        func(text string)
	Held       func() string // by the volume
}

// Contract tests a service.
func Contract(t *testing.T, s Subject) {
	observe := func(standing string) service.State {
		t.Helper()
		st, err := s.Service.Observe(t.Context())
		if err != nil || st.Phase() != standing {
			t.Fatalf("%+v, %v; want %s", st, err, standing)
		}
		return st
	}
	start := func(image lab.Image) service.State {
		t.Helper()
		if err := s.Service.Start(t.Context(), func(string) {}, image); err != nil {
			t.Fatal(err)
		}
		st := observe(service.Ready)
		if want := s.Service.Inputs(image); st.Inputs != want {
			t.Errorf("inputs %q, want %q", st.Inputs, want)
		}
		return st
	}
	remove := func() {
		t.Helper()
		if err := s.Service.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := observe("absent"); st.Volume {
			t.Error("its volume is left")
		}
	}
	remove()
	first := start(s.Image)
	if len(first.Ports) == 0 || !first.Volume {
		t.Fatalf("%+v", first)
	}
	s.Put("kept")
	kept := func() {
		t.Helper()
		if got := s.Held(); got != "kept" {
			t.Errorf("its volume has %q", got)
		}
	}
	again := start(s.Image)
	for port, at := range first.Ports {
		if again.Ports[port] != at {
			t.Errorf("port %d moved from %s to %s", port, at, again.Ports[port])
		}
	}
	for spoil, standing := range map[string]string{"stop": "stopped", "disconnect": "not connected", "sicken": "unreachable", "lose": "absent"} {
		map[string]func(){"stop": s.Stop, "disconnect": s.Disconnect, "sicken": s.Sicken, "lose": s.Lose}[spoil]()
		if st := observe(standing); !st.Volume {
			t.Errorf("%s: no volume", spoil)
		}
		start(s.Image)
		kept()
	}
	if a, b := s.Service.Inputs(s.Image), s.Service.Inputs(s.Newer); a == b {
		t.Error("another image has the same inputs")
	}
	newer := start(s.Newer)
	kept()
	for port, at := range first.Ports {
		if newer.Ports[port] != at {
			t.Errorf("port %d moved from %s to %s with another image", port, at, newer.Ports[port])
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Service.Start(cancelled, func(string) {}, s.Newer); err == nil {
		t.Error("a cancelled start succeeds")
	}
	remove()
	remove()
}
