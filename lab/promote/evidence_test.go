package promote

import (
	"testing"

	"homelab/lab"
)

func TestGate(t *testing.T) {
	on := map[string]bool{"podinfo": true}
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "qa", Environment: "dev", Addons: on}, {Name: "dev", Environment: "dev", Addons: on}, {Name: "prod", Environment: "prod", Addons: on}, {Name: "bare", Environment: "dev"}}}
	p := Promotion{Addon: "podinfo", From: "dev", To: "staging", Version: "6.9.2"}
	app := func(cluster, version, health string) lab.Application {
		return lab.Application{Cluster: cluster, Addon: "podinfo", Version: version, Sync: "Synced", Health: health}
	}
	for want, apps := range map[string][]lab.Application{
		"+podinfo 6.9.2 in sync and healthy in qa, dev": {app("qa", "6.9.2", "Healthy"), app("dev", "6.9.2", "Healthy"), app("prod", "6.7.0", "Degraded")},
		"-dev runs podinfo 6.7.0":                       {app("qa", "6.9.2", "Healthy"), app("dev", "6.7.0", "Healthy")},
		"-podinfo 6.9.2 is Synced and Degraded in qa":   {app("qa", "6.9.2", "Degraded"), app("dev", "6.9.2", "Healthy")},
		"-dev does not have podinfo yet":                {app("qa", "6.9.2", "Healthy")},
		"-qa does not have podinfo yet":                 nil,
	} {
		got := p.Gate(est, apps)
		if text := map[bool]string{true: "+", false: "-"}[got.Open] + got.Seen; text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	p.From = "test"
	if got := p.Gate(est, nil); got.Open || got.Seen != "no cluster of test has podinfo" {
		t.Errorf("%+v", got)
	}
}

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
		if got := p.Evidence(est, apps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
