package enginetest

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab/engine"
)

func (c *contract) registerEarly(t *testing.T) {
	lines, err := c.Engine.Register(c.context(t), c.spoke(nil), c.Spoke)
	if err != nil || !slices.Equal(lines, []string{"registered as " + c.Server}) {
		t.Fatalf("%v, %v", lines, err)
	}
	before := c.Fingerprint(t)
	again, err := c.Engine.Register(c.context(t), c.spoke(nil), c.Spoke)
	if err != nil || len(again) != 0 {
		t.Errorf("second Register: %v, %v", again, err)
	}
	if after := c.Fingerprint(t); !slices.Equal(before, after) {
		t.Errorf("second Register changed objects:\n%v\n%v", before, after)
	}
	r := c.registered(t)
	if d := engine.Diff(c.spoke(nil), r); len(d) != 0 {
		t.Errorf("registration differs: %v", d)
	}
	if r.Since.IsZero() {
		t.Error("Since is zero")
	}
}

// registered returns the spoke's registration.
func (c *contract) registered(t *testing.T) engine.Registered {
	t.Helper()
	s, err := c.Engine.Observe(c.context(t))
	if err != nil || len(s.Registrations) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	return s.Registrations[0]
}

func (c *contract) revoked(t *testing.T) {
	if why, err := c.Engine.CheckCredentials(c.context(t), "spoke", c.Spoke); why != "" || err != nil {
		t.Fatalf("%q, %v", why, err)
	}
	c.Revoke(t)
	before := c.registered(t)
	ctx := c.context(t)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for { // revocation may take effect with a delay
		why, err := c.Engine.CheckCredentials(ctx, "spoke", c.Spoke)
		if err != nil {
			t.Fatal(err)
		}
		if why != "" {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("credentials still accepted")
		case <-tick.C:
		}
	}
	lines, err := c.Engine.Register(ctx, c.spoke(nil), c.Spoke)
	if err != nil || !slices.Equal(lines, []string{cmp.Or(c.Renewed, "credentials renewed")}) {
		t.Fatalf("%v, %v", lines, err)
	}
	if why, err := c.Engine.CheckCredentials(ctx, "spoke", c.Spoke); why != "" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	renewed := c.registered(t)
	if !renewed.Since.After(before.Since) {
		t.Errorf("credentials renewed, Since = %s, before %s", renewed.Since, before.Since)
	}
	c.settle(t)
}

func (c *contract) registrationChanged(t *testing.T) {
	since := c.registered(t).Since
	changed := c.spoke(func(labels, annotations map[string]string) {
		labels["tier"] = "gold"
		delete(labels, "cluster_name")
		annotations["aws_region"] = "eu-central-1"
		delete(annotations, "odd/key")
	})
	want := []string{
		"annotation aws_region: eu-west-1 -> eu-central-1", "annotation odd/key: removed",
		"label cluster_name: removed", "label tier: gold",
	}
	lines, err := c.Engine.Register(c.context(t), changed, c.Spoke)
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(lines)), want) {
		t.Errorf("%v, %v; want %v", lines, err, want)
	}
	if r := c.registered(t); !maps.Equal(r.Annotations, map[string]string{"aws_region": "eu-central-1"}) || !r.Since.Equal(since) {
		t.Errorf("%+v, want credentials since %s", r, since)
	}
}

func (c *contract) registrationFollowed(t *testing.T) {
	// The applications stay in sync and healthy, at first with the old value, which the wait must not accept.
	for _, region := range []string{"eu-central-1", "eu-west-1", "eu-north-1", "eu-west-1"} {
		next := c.spoke(func(_, annotations map[string]string) { annotations["aws_region"] = region })
		if _, err := c.Engine.Register(c.context(t), next, c.Spoke); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		apps, err := c.Engine.WaitConverged(c.context(t), c.want(func(w *engine.Want) { w.Changed = true }), progress(t))
		if err != nil {
			t.Fatal(err)
		}
		c.converged(t, apps)
		t.Logf("converged in %s", time.Since(start).Round(time.Millisecond))
		if got := c.Region(t); got != region {
			t.Errorf("after the wait region = %s, want %s", got, region)
		}
	}
}

// commit calls a hook that commits; nil does nothing. It reports whether it did.
func (c *contract) commit(t *testing.T, hook func(*testing.T) string) bool {
	t.Helper()
	if hook == nil {
		return false
	}
	c.Revision = hook(t)
	return true
}

func (c *contract) switchedOff(t *testing.T) {
	if !c.commit(t, c.Off) {
		off := c.spoke(func(labels, _ map[string]string) { labels["enable_hello"] = "false" })
		lines, err := c.Engine.Register(c.context(t), off, c.Spoke)
		if err != nil || !slices.Equal(lines, []string{"label enable_hello: true -> false"}) {
			t.Fatalf("%v, %v", lines, err)
		}
	}
	want := c.want(func(w *engine.Want) { w.Expected, w.Gone, w.Changed = nil, []string{c.app}, true })
	apps, err := c.Engine.WaitConverged(c.context(t), want, progress(t))
	if err != nil || len(apps) != 0 {
		t.Fatalf("%v, %v", apps, err)
	}
	c.commit(t, c.On)
	if _, err := c.Engine.Register(c.context(t), c.spoke(nil), c.Spoke); err != nil {
		t.Fatal(err)
	}
	c.settle(t)
}

func (c *contract) unregister(t *testing.T) {
	c.commit(t, c.Off) // it has left the estate, hence Git
	lines, err := c.Engine.Unregister(c.context(t), engine.Departure{Cluster: "spoke", Spoke: c.Spoke}, progress(t))
	if err != nil || !slices.Equal(lines, []string{"cluster spoke is no longer registered"}) {
		t.Errorf("%v, %v", lines, err)
	}
	apps, err := c.Engine.Applications(c.context(t))
	if err != nil || len(apps) != 0 {
		t.Errorf("%v, %v", apps, err)
	}
	s, err := c.Engine.Observe(c.context(t))
	if err != nil || len(s.Registrations) != 0 || !s.Installed() {
		t.Errorf("%+v, %v", s, err)
	}
	if again, err := c.Engine.Unregister(c.context(t), engine.Departure{Cluster: "spoke", Spoke: c.Spoke}, progress(t)); err != nil || len(again) != 0 {
		t.Errorf("second Unregister: %v, %v", again, err)
	}
}

func (c *contract) withdraw(t *testing.T) {
	up := func() {
		t.Helper()
		if _, err := c.Engine.Register(c.context(t), c.spoke(nil), c.Spoke); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Engine.ApplyRepositories(c.context(t), c.Repositories); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Engine.ApplyRoot(c.context(t), c.Root); err != nil {
			t.Fatal(err)
		}
		c.settle(t)
	}
	c.commit(t, c.On)
	up()
	if held := c.Holds(t); len(held) < 2 {
		t.Fatalf("before Withdraw: %v", held)
	}
	for range 2 { // an interrupted run is repeated
		stays, err := c.Engine.Withdraw(c.context(t), map[string]*rest.Config{"spoke": c.Spoke}, progress(t))
		if err != nil || len(stays) != 0 {
			t.Fatalf("%v, %v", stays, err)
		}
		if held := c.Holds(t); len(held) != 0 {
			t.Errorf("left in the spoke: %v", held)
		}
		if apps, err := c.Engine.Applications(c.context(t)); err != nil || len(apps) != 0 {
			t.Errorf("%v, %v", apps, err)
		}
	}
	up() // Withdraw can be reverted
}

func (c *contract) retire(t *testing.T) {
	before := c.Applied(t)
	if len(before) < 2 || len(c.Traces(t)) == 0 {
		t.Fatalf("applied: %v", before)
	}
	for range 2 { // an interrupted run is repeated
		if err := c.Engine.Retire(c.context(t), map[string]*rest.Config{"spoke": c.Spoke}, progress(t)); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Engine.Observe(c.context(t)); err != nil || s.Installed() || len(s.Registrations) != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		if traces := c.Traces(t); len(traces) != 0 {
			t.Errorf("left: %v", traces)
		}
		if after := c.Applied(t); !slices.Equal(before, after) {
			t.Errorf("applied before %v, after %v", before, after)
		}
	}
	// An engine, here the same one, adopts the objects of a retired one.
	if _, err := c.Engine.Install(c.context(t), c.Chart, c.Values, progress(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Engine.Register(c.context(t), c.spoke(nil), c.Spoke); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Engine.ApplyRepositories(c.context(t), c.Repositories); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Engine.ApplyRoot(c.context(t), c.Root); err != nil {
		t.Fatal(err)
	}
	c.settle(t)
	if after := c.Applied(t); !slices.Equal(before, after) {
		t.Errorf("applied before %v, taken over %v", before, after)
	}
}
