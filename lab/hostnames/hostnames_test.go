package hostnames

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/door/proxy"
	"homelab/lab/service"
)

// fakeContainer is a container in memory.
type fakeContainer struct {
	state service.State
	file  string
}

func (f *fakeContainer) Inputs(...lab.Image) string { return "inputs" }

func (f *fakeContainer) Observe(context.Context) (service.State, error) { return f.state, nil }

func (f *fakeContainer) Start(context.Context, lab.Progress, ...lab.Image) error {
	f.state = service.State{Exists: true, Running: true, Connected: true, Answers: true, Ports: map[int]string{443: "127.0.0.1:8443", 80: "127.0.0.1:8080"}}
	return nil
}

func (f *fakeContainer) Remove(context.Context) error {
	*f = fakeContainer{}
	return nil
}

func (f *fakeContainer) Put(_ context.Context, files ...service.File) error {
	f.file = string(files[0].Data)
	if files[0].Path != "/etc/door/reach.json" || files[0].Mode != 0 {
		return fmt.Errorf("%+v", files[0])
	}
	return nil
}

func (f *fakeContainer) File(context.Context, string) ([]byte, error) { return []byte(f.file), nil }

// fakeClusters maps clusters to their tokens; those without one are away.
type fakeClusters struct {
	tokens map[string]string
	lacks  string
	fails  error
}

func (f *fakeClusters) Observe(ctx context.Context, name string) (Credential, string, error) {
	c, err := f.Admit(ctx, name)
	return c, f.lacks, err
}

func (f *fakeClusters) Admit(_ context.Context, name string) (Credential, error) {
	if f.tokens[name] == "" {
		return Credential{}, ErrAway
	}
	return Credential{Token: f.tokens[name], CA: []byte("ca")}, f.fails
}

func TestDoor(t *testing.T) {
	c, in := &fakeContainer{}, &fakeClusters{tokens: map[string]string{"hub": "h"}}
	d := &Door{container: c, lab: "demo", clusters: []string{"hub", "dev"}, in: in}
	behind := func(want string) {
		t.Helper()
		st, err := d.Observe(t.Context())
		if err != nil || st.Behind != want {
			t.Errorf("behind %q, %v; want %q", st.Behind, err, want)
		}
	}
	start := func() proxy.Reach {
		t.Helper()
		if err := d.Start(t.Context(), func(string) {}); err != nil {
			t.Fatal(err)
		}
		behind("")
		var r proxy.Reach
		if err := json.Unmarshal([]byte(c.file), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	behind("") // an absent door is not behind
	want := proxy.Cluster{Name: "hub", Node: "demo-hub-control-plane", Server: "https://demo-hub-control-plane:6443", CA: "ca", Token: "h"}
	if r := start(); r.HTTPS != 8443 || r.HTTP != 8080 || len(r.Clusters) != 1 || r.Clusters[0] != want {
		t.Errorf("%+v", r)
	}

	in.tokens["dev"] = "d"
	behind("it does not know cluster dev")
	if r := start(); len(r.Clusters) != 2 || r.Clusters[1].Token != "d" {
		t.Errorf("%+v", r)
	}
	in.tokens["dev"] = "" // stopped
	if r := start(); len(r.Clusters) != 2 {
		t.Errorf("a stopped cluster is forgotten: %+v", r)
	}
	in.tokens["dev"] = "new" // created again
	behind("it does not know cluster dev")
	start()
	in.lacks = "its DNS does not know the door"
	behind("cluster dev: its DNS does not know the door")
	in.lacks = ""
	c.state.Ports[443] = "127.0.0.1:443"
	behind("its ports changed")
	start()
	c.file = "garbled"
	behind("it does not know cluster dev")
	start()
	d.clusters = []string{"hub"}
	behind("cluster dev left")
	if r := start(); len(r.Clusters) != 1 {
		t.Errorf("%+v", r)
	}
	in.fails = errors.New("no rights")
	if err := d.Start(t.Context(), func(string) {}); err == nil || err.Error() != "door: cluster hub: no rights" {
		t.Errorf("%v", err)
	}
}

func TestNew(t *testing.T) {
	ca, err := NewAuthority("demo", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	one, err := Certificate(ca)
	if err != nil || !strings.HasPrefix(one, "-----BEGIN CERTIFICATE-----") || strings.Contains(one, "KEY") {
		t.Errorf("%s, %v", one, err)
	}
	if _, err := Certificate("x"); err == nil {
		t.Error("no authority has a certificate")
	}
	other, err := NewAuthority("demo", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	inputs := New("demo", nil, nil, ca, nil, nil).Inputs(lab.Image{Ref: "door"})
	if inputs == New("demo", nil, nil, other, nil, nil).Inputs(lab.Image{Ref: "door"}) {
		t.Error("another authority does not change the inputs")
	}
	if inputs != New("demo", nil, nil, ca, []string{"hub"}, nil).Inputs(lab.Image{Ref: "door"}) {
		t.Error("clusters change the inputs")
	}
}
