// Package enginetest provides the contract suite of GitOps engines, and an in-memory fake.
package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
)

// Engine is the interface under test. Watching and marking are tested separately.
type Engine interface {
	engine.Installer
	engine.Retirer
	engine.Registrar
	engine.Receiver
	engine.Reporter
	Applications(ctx context.Context) ([]lab.Application, error)
}

// Subject is an engine under test with its environment: a hub without the engine, a spoke named "spoke", and an estate whose only addon "hello" is deployed as
// application CLUSTER-hello to every cluster with the label enable_hello.
type Subject struct {
	Engine       Engine
	Chart        lab.Chart
	Values       map[string]any
	OtherValues  map[string]any // Values with an insignificant change
	Spoke        *rest.Config
	Server       string // the spoke's address from the hub
	Repositories []engine.Repository
	Root         engine.Root
	Revision     string                    // commit of the estate
	Break        func(*testing.T) string   // commits a version of hello that stays unhealthy, and returns the commit
	Fix          func(*testing.T) string   // commits a healthy version, and returns the commit
	Region       func(*testing.T) string   // returns annotation aws_region of the spoke's registration as deployed by hello
	Off, On      func(*testing.T) string   // commits that hello leaves the spoke, and that it returns, and returns the commit; nil if the label switches it
	Revoke       func(*testing.T)          // makes the spoke reject the engine's credentials
	Renewed      string                    // lines of Register then; "" for "credentials renewed"
	Holds        func(*testing.T) []string // returns objects of the engine and hello in the spoke, including namespaces
	Applied      func(*testing.T) []string // returns hello's objects in the spoke, with uids
	Traces       func(*testing.T) []string // returns objects with traces of the engine, in the spoke and on the hub
	Fingerprint  func(*testing.T) []string // returns every object written by lab, with its version
	Patience     time.Duration             // limit of each operation
	Simulated    bool                      // the API is simulated, and no controller of the engine runs: what waits for one is left out
}

// Contract runs the suite. Its parts depend on one another, in this order.
func Contract(t *testing.T, s Subject) {
	t.Helper()
	c := &contract{Subject: s, app: "spoke-hello"}
	for _, part := range []struct {
		name  string
		run   func(*testing.T)
		awake bool // needs the engine's controllers
	}{
		{"absent", c.absent, false},
		{"register before install", c.registerEarly, false},
		{"install", c.install, false},
		{"install again", c.installAgain, false},
		{"upgrade", c.upgrade, false},
		{"repositories and root", c.roots, false},
		{"converge", c.converge, true},
		{"converged", c.untouched, true},
		{"credentials revoked", c.revoked, false},
		{"registration changed", c.registrationChanged, false},
		{"registration followed", c.registrationFollowed, true},
		{"timeout", c.timeout, true},
		{"repaired", c.repaired, true},
		{"cancelled", c.cancelled, false},
		{"switched off", c.switchedOff, true},
		{"unregister", c.unregister, false},
		{"withdraw", c.withdraw, false},
		{"retire", c.retire, false},
	} {
		if part.awake && s.Simulated {
			continue
		}
		if !t.Run(part.name, part.run) {
			t.FailNow() // later parts would fail for the same reason
		}
	}
}

type contract struct {
	Subject
	app string
}

func (c *contract) context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
	t.Cleanup(cancel)
	return ctx
}

func progress(t *testing.T) lab.Progress {
	return func(s string) {
		t.Log(s)
		if s == "" || strings.Contains(s, "\n") {
			t.Errorf("progress of several lines: %q", s)
		}
	}
}

func registration(cluster, server string, labels, annotations map[string]string) lab.Registration {
	r := lab.Registration{Cluster: cluster, Server: server, Labels: map[string]lab.Value{}, Annotations: map[string]lab.Value{}}
	for k, v := range labels {
		r.Labels[k] = lab.Value{Value: v}
	}
	for k, v := range annotations {
		r.Annotations[k] = lab.Value{Value: v}
	}
	return r
}

func (c *contract) spoke(change func(labels, annotations map[string]string)) lab.Registration {
	labels := map[string]string{"enable_hello": "true", "environment": "prod", "cluster_name": "spoke"}
	annotations := map[string]string{"aws_region": "eu-west-1", "odd/key": "a b: c"}
	if change != nil {
		change(labels, annotations)
	}
	return registration("spoke", c.Server, labels, annotations)
}

func (c *contract) absent(t *testing.T) {
	s, err := c.Engine.Observe(c.context(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.Installed() || s.Ready || s.Revision != 0 || len(s.Registrations) != 0 {
		t.Errorf("%+v", s)
	}
	if again, err := c.Engine.Unregister(c.context(t), engine.Departure{Cluster: "unknown", Spoke: c.Spoke}, progress(t)); err != nil || len(again) != 0 {
		t.Errorf("unregistered cluster: %v, %v", again, err)
	}
}

func (c *contract) install(t *testing.T) {
	changed, err := c.Engine.Install(c.context(t), c.Chart, c.Values, progress(t))
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	s, err := c.Engine.Observe(c.context(t))
	if err != nil || !s.Installed() || !s.Ready || s.Waiting != "" || s.Revision != 1 || s.Inputs == "" || s.Version == "" {
		t.Errorf("%+v, %v", s, err)
	}
}

func (c *contract) installAgain(t *testing.T) {
	before := c.Fingerprint(t)
	start := time.Now()
	changed, err := c.Engine.Install(c.context(t), c.Chart, c.Values, progress(t))
	if err != nil || changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	t.Logf("install again took %s", time.Since(start).Round(time.Millisecond))
	if after := c.Fingerprint(t); !slices.Equal(before, after) {
		t.Errorf("second install changed objects:\n%v\n%v", before, after)
	}
}

func (c *contract) upgrade(t *testing.T) {
	for i, want := range []bool{true, false} {
		changed, err := c.Engine.Install(c.context(t), c.Chart, c.OtherValues, progress(t))
		if err != nil || changed != want {
			t.Fatalf("upgrade %d: changed %v, %v", i+1, changed, err)
		}
	}
	if s, err := c.Engine.Observe(c.context(t)); err != nil || s.Revision != 2 || !s.Ready {
		t.Errorf("%+v, %v", s, err)
	}
}

func (c *contract) roots(t *testing.T) {
	drift := func(want ...string) {
		t.Helper()
		if got, err := c.Engine.Drift(c.context(t), c.Root, c.Repositories); err != nil || len(got) != len(want) || !strings.HasPrefix(strings.Join(got, "\n"), strings.Join(want, "\n")) {
			t.Errorf("drift %q, %v; want %q", got, err, want)
		}
	}
	lines, err := c.Engine.ApplyRepositories(c.context(t), c.Repositories)
	if err != nil || len(lines) != len(c.Repositories) {
		t.Fatalf("%v, %v", lines, err)
	}
	for _, r := range c.Repositories {
		if r.Password != "" && slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, r.Password) }) {
			t.Errorf("password in the output: %v", lines)
		}
	}
	if changed, err := c.Engine.ApplyRoot(c.context(t), c.Root); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if lines, err = c.Engine.ApplyRepositories(c.context(t), c.Repositories); err != nil || len(lines) != 0 {
		t.Errorf("second ApplyRepositories: %v, %v", lines, err)
	}
	if changed, err := c.Engine.ApplyRoot(c.context(t), c.Root); err != nil || changed {
		t.Errorf("second ApplyRoot: changed %v, %v", changed, err)
	}
	drift()
	one := c.Repositories[0]
	if _, err := c.Engine.ApplyRepositories(c.context(t), c.Repositories[1:]); err != nil {
		t.Fatal(err)
	}
	drift("repository " + one.Name + " is gone")
	other := slices.Clone(c.Repositories)
	other[0].URL += "x"
	if _, err := c.Engine.ApplyRepositories(c.context(t), other); err != nil {
		t.Fatal(err)
	}
	drift("repository " + one.Name + " was changed")
	if _, err := c.Engine.ApplyRepositories(c.context(t), c.Repositories); err != nil {
		t.Fatal(err)
	}
	drift()
}

func (c *contract) want(change func(*engine.Want)) engine.Want {
	w := engine.Want{Revision: c.Revision, Expected: []string{c.app}}
	if change != nil {
		change(&w)
	}
	return w
}

func (c *contract) converge(t *testing.T) {
	apps, err := c.Engine.WaitConverged(c.context(t), c.want(func(w *engine.Want) { w.Changed = true }), progress(t))
	if err != nil {
		t.Fatal(err)
	}
	c.converged(t, apps)
	listed, err := c.Engine.Applications(c.context(t))
	if err != nil {
		t.Fatal(err)
	}
	c.converged(t, listed)
	s, err := c.Engine.Snapshot(c.context(t))
	if err != nil || !s.Root || !s.Settled || s.Revision != c.Revision {
		t.Errorf("standing %+v, %v", s, err)
	}
	if behind := s.Behind(c.want(nil), nil); len(behind) > 0 {
		t.Errorf("behind: %v", behind)
	}
	if behind := s.Behind(engine.Want{Revision: "another"}, nil); len(behind) == 0 {
		t.Error("Behind is empty for another commit")
	}
}

// settle waits for the controllers, if there are any.
func (c *contract) settle(t *testing.T) {
	t.Helper()
	if c.Simulated {
		return
	}
	apps, err := c.Engine.WaitConverged(c.context(t), c.want(func(w *engine.Want) { w.Changed = true }), progress(t))
	if err != nil {
		t.Fatal(err)
	}
	c.converged(t, apps)
}

func (c *contract) converged(t *testing.T, apps []lab.Application) {
	t.Helper()
	if len(apps) != 1 {
		t.Fatalf("%d applications, want one: %+v", len(apps), apps)
	}
	a := apps[0]
	if a.Name != c.app || a.Addon != "hello" || a.Cluster != "spoke" || !a.Converged() || a.Version == "" || a.Message != "" {
		t.Errorf("%+v", a)
	}
}

func (c *contract) untouched(t *testing.T) {
	before := c.Fingerprint(t)
	var reported []string
	apps, err := c.Engine.WaitConverged(c.context(t), c.want(nil), func(s string) { reported = append(reported, s) })
	if err != nil {
		t.Fatal(err)
	}
	c.converged(t, apps)
	if len(reported) != 0 {
		t.Errorf("waited for a converged lab: %v", reported)
	}
	if after := c.Fingerprint(t); !slices.Equal(before, after) {
		t.Errorf("waiting changed objects:\n%v\n%v", before, after)
	}
}

func (c *contract) timeout(t *testing.T) {
	c.Revision = c.Break(t)
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience/6)
	defer cancel()
	apps, err := c.Engine.WaitConverged(ctx, c.want(func(w *engine.Want) { w.Changed = true }), progress(t))
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != lab.ExitTimeout || e.Code != "not_converged" {
		t.Fatalf("%v", err)
	}
	t.Log(e.Message, "\n", strings.Join(e.Details, "\n"))
	if !strings.HasPrefix(e.Message, "1 of 1 applications is not healthy after ") {
		t.Errorf("message %q", e.Message)
	}
	if len(e.Details) == 0 || !strings.HasPrefix(e.Details[0], c.app+"   ") {
		t.Errorf("details %q", e.Details)
	}
	for _, d := range e.Details {
		if len([]rune(d)) > 80 {
			t.Errorf("line of %d columns: %s", len([]rune(d)), d)
		}
	}
	if len(apps) != 1 || apps[0].Converged() || apps[0].Message == "" {
		t.Errorf("%+v", apps)
	}

	// LeftOut applications are reported, but not waited for.
	apps, err = c.Engine.WaitConverged(c.context(t), c.want(func(w *engine.Want) { w.Expected, w.LeftOut = nil, []string{c.app} }), progress(t))
	if err != nil || len(apps) != 1 || apps[0].Converged() {
		t.Errorf("%v, %+v", err, apps)
	}
}

func (c *contract) repaired(t *testing.T) {
	c.Revision = c.Fix(t)
	c.settle(t)
}

func (c *contract) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Engine.WaitConverged(ctx, c.want(func(w *engine.Want) { w.Expected = append(w.Expected, "never") }), progress(t))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
