package supply

import (
	"errors"
	"testing"

	"homelab/lab"
)

func TestChoose(t *testing.T) {
	s := open(t, Options{Mode: ModeSource, CacheDir: t.TempDir()})
	all, err := s.Choose(t.Context(), nil)
	if err != nil || len(all) < 5 {
		t.Fatalf("%d, %v", len(all), err)
	}
	some, err := s.Choose(t.Context(), []string{"node", "redis"})
	if err != nil || len(some) != 2 || some[0].Name != "node" {
		t.Errorf("%v, %v", some, err)
	}
	var labErr *lab.Error
	if _, err := s.Choose(t.Context(), []string{"node", "nothing"}); !errors.As(err, &labErr) || labErr.Exit != lab.ExitInvalid {
		t.Errorf("%v", err)
	}
}
