package up_test

import (
	"errors"
	"testing"

	"homelab/lab"
	"homelab/lab/up"
)

func TestOnly(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub}, {Name: "dev"}, {Name: "prod"}}}
	var o up.Options
	if err := o.Only(est, []string{"prod"}); err != nil || !o.Others || len(o.Clusters) != 2 || o.Clusters[0].Name != "hub" || o.Clusters[1].Name != "prod" {
		t.Errorf("%+v, %v", o, err)
	}
	var e *lab.Error
	if err := o.Only(est, []string{"nope"}); !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Cure != "there are: hub, dev, prod" {
		t.Errorf("%v", err)
	}
}
