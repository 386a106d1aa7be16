package up_test

import (
	"errors"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/up"
)

// Before an engine is replaced, everything else must match the estate.
func TestCurrent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*stage)
		want   string // empty if current
	}{
		"unchanged":       {func(*stage) {}, ""},
		"engine lost":     {func(s *stage) { clear(s.engines) }, ""},
		"cluster stopped": {func(s *stage) { s.clusters.Stop("dev") }, "cluster dev"},
		"estate edited":   {(*stage).edit, "estate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			c.change(s)
			err := (&process{stage: s}).lab().Current(t.Context(), up.Options{})
			var e *lab.Error
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.As(err, &e) || e.Code != lab.CodeNotUpToDate || !strings.Contains(e.Message, c.want) || e.Cure != "lab up"):
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
