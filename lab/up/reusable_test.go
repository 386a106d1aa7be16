package up

import (
	"errors"
	"strings"
	"testing"

	"homelab/lab"
)

// An existing cluster is not recreated, whether its inputs changed or are unknown.
func TestCheckReusable(t *testing.T) {
	whole := lab.ClusterState{Made: lab.MadeWhole, Inputs: "a"}
	for name, c := range map[string]struct {
		change  func(*lab.ClusterState)
		message string
	}{
		"unchanged":  {func(*lab.ClusterState) {}, ""},
		"changed":    {func(s *lab.ClusterState) { s.Inputs = "b" }, "spec.kind changed in dev"},
		"of others":  {func(s *lab.ClusterState) { s.Inputs, s.Attached = "b", true }, ""},
		"unknown":    {func(s *lab.ClusterState) { s.Made, s.Inputs = lab.MadeUnknown, "" }, "ever complete"},
		"nodes gone": {func(s *lab.ClusterState) { s.Gone, s.Nodes = 1, []string{"n", "m"} }, "lacks 1 of its 3 nodes"},
	} {
		now := whole
		c.change(&now)
		err := checkReusable(lab.Cluster{Name: "dev"}, now, "a")
		var e *lab.Error
		if c.message == "" && err != nil || c.message != "" && (!errors.As(err, &e) || e.Code != "recreate" || !strings.Contains(e.Message, c.message)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
