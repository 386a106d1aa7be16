package promote

import (
	"testing"

	"homelab/lab"
)

func TestStanding(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "qa", Environment: "dev"}, {Name: "dev", Environment: "dev", Addons: map[string]bool{"podinfo": true}}, {Name: "prod", Environment: "prod", Addons: map[string]bool{"podinfo": true}}}}
	p := Promotion{Addon: "podinfo", From: "dev", To: "staging", Version: "6.9.2"}
	app := lab.Application{Cluster: "dev", Addon: "podinfo", Version: "6.9.2", Sync: "Synced", Health: "Healthy"}
	older, sick := app, app
	older.Version, sick.Health = "6.7.0", "Degraded"
	for want, apps := range map[string][]lab.Application{
		"": {{Cluster: "prod", Addon: "podinfo", Version: "6.9.2"}}, ", as dev runs it (healthy)": {app},
		", while dev still runs 6.7.0": {older}, ", while dev is Synced and Degraded there": {sick},
	} {
		if got := p.Standing(est, apps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
