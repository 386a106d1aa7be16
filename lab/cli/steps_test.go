package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
)

// What a killed run had begun comes into being after the plan was made: it is removed and made anew, once; anything else that is wrong stays wrong.
func TestCreateAbsent(t *testing.T) {
	spec := cluster.Spec{Cluster: lab.Cluster{Name: "dev"}, NodeRef: "lab/node:v1"}
	f := clustertest.NewFake(clustertest.NewEngine(), "homelab", t.TempDir())
	if err := f.Create(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	removed := 0
	create := func() error {
		if err := f.Create(t.Context(), spec, nil); err != nil {
			return fmt.Errorf("cluster dev: %w", err)
		}
		return nil
	}
	remove := func() error { removed++; return f.Delete(context.Background(), "dev") }
	if err := createAbsent(create, remove); err != nil || removed != 1 {
		t.Errorf("left over: %v, removed %d times", err, removed)
	}
	broken := errors.New("broken")
	if err := createAbsent(func() error { return broken }, remove); !errors.Is(err, broken) || removed != 1 {
		t.Errorf("broken: %v, removed %d times", err, removed)
	}
}
