package up

import (
	"testing"

	"homelab/lab"
)

// The health of left-out ApplicationSets belongs to no application.
func TestWithoutLeftOut(t *testing.T) {
	l := &Lab{Estate: &lab.Estate{
		UnknownSets:  []lab.UnknownSet{{Name: "decided"}},
		Applications: []lab.Generated{{Application: lab.Application{Name: "web", LeftOut: "invalid"}, Set: "webs"}},
	}}
	for _, c := range []struct {
		faulty, want string
	}{
		{"", "Degraded"},
		{"ApplicationSet decided,ApplicationSet webs", "Healthy"},
		{"ApplicationSet decided,ApplicationSet other", "Degraded"},
	} {
		apps := []lab.Application{{Name: "root", Health: "Degraded", FaultySets: c.faulty}}
		if got := l.withoutLeftOut(apps)[0].Health; got != c.want || apps[0].Health != "Degraded" {
			t.Errorf("%q: %s, want %s; given %s", c.faulty, got, c.want, apps[0].Health)
		}
	}
}
