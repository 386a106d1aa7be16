package needs

import (
	"strings"
	"testing"

	"homelab/lab/strict"
)

func TestUnplaced(t *testing.T) {
	const (
		host   = "kubernetes.io/hostname"
		zone   = "topology.kubernetes.io/zone"
		header = "{kind: Deployment, metadata: {namespace: web}, spec: {replicas: 3, template: {metadata: {labels: {app: x}}, spec: {"
		apart  = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: KEY, labelSelector: {matchLabels: {app: x}}NAMESPACES}]}}"
		beside = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: KEY, labelSelector: {matchLabels: {app: y}}}]}}"
		spread = "topologySpreadConstraints: [{topologyKey: KEY, maxSkew: 1, whenUnsatisfiable: WHEN, labelSelector: {matchLabels: {app: x}}}]"
	)
	two := []map[string]string{{host: "1", "disk": "ssd"}, {host: "2", "disk": "ssd", "pool": "a"}}
	zones := []map[string]string{{host: "1", zone: "a"}, {host: "2", zone: "a"}, {host: "3", zone: "b"}}
	anti := func(key, namespaces string) string {
		return strings.NewReplacer("KEY", key, "NAMESPACES", namespaces).Replace(apart)
	}
	for name, c := range map[string]struct {
		spec  string
		nodes []map[string]string
		want  string
	}{
		"anything":                    {"", two, ""},
		"label":                       {"nodeSelector: {disk: ssd}", two, ""},
		"no label":                    {"nodeSelector: {disk: hdd}", two, "a node with disk=hdd"},
		"unknown nodes":               {"nodeSelector: {disk: hdd}", nil, ""},
		"apart":                       {anti(host, ""), two, "3 nodes with different " + host},
		"apart, enough nodes":         {anti(host, ""), zones, ""},
		"apart, few zones":            {anti(zone, ""), zones, "3 nodes with different " + zone},
		"apart, no zones":             {anti(zone, ""), two, ""}, // nodes without the label are not asked
		"apart on few nodes":          {"nodeSelector: {pool: a}, " + anti(host, ""), append(two, zones...), "3 nodes with different " + host},
		"apart from others":           {strings.Replace(anti(host, ""), "app: x", "app: y", 1), two, ""},
		"apart from all":              {strings.Replace(anti(host, ""), "matchLabels: {app: x}", "", 1), two, "3 nodes with different " + host},
		"apart in other namespaces":   {anti(host, ", namespaces: [db]"), two, ""},
		"apart in its namespace":      {anti(host, ", namespaces: [db, web]"), two, "3 nodes with different " + host},
		"apart in all namespaces":     {anti(host, ", namespaceSelector: {}"), two, "3 nodes with different " + host},
		"apart in some namespaces":    {anti(host, ", namespaceSelector: {matchLabels: {team: a}}"), two, ""},
		"beside":                      {strings.Replace(beside, "KEY", host, 1), two, ""},
		"beside, no zones":            {strings.Replace(beside, "KEY", zone, 1), two, "a node with label " + zone},
		"spread":                      {strings.NewReplacer("KEY", zone, "WHEN", "DoNotSchedule").Replace(spread), zones, ""},
		"spread, no zones":            {strings.NewReplacer("KEY", zone, "WHEN", "DoNotSchedule").Replace(spread), two, "a node with label " + zone},
		"spread if possible":          {strings.NewReplacer("KEY", zone, "WHEN", "ScheduleAnyway").Replace(spread), two, ""},
		"invalid, hence not deployed": {"nodeSelector: [disk]", two, ""},
	} {
		docs, problems := strict.Parse("x.yaml", []byte(header+c.spec+"}}}}"))
		if len(problems) > 0 {
			t.Fatal(name, problems)
		}
		if got := unplaced(docs[0], c.nodes); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestUnplacedReplicas(t *testing.T) {
	const spec = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: host, labelSelector: {}}]}}"
	for manifest, want := range map[string]string{
		"{kind: Deployment, spec: {template: {spec: {" + spec + "}}}}":               "",
		"{kind: StatefulSet, spec: {replicas: 2, template: {spec: {" + spec + "}}}}": "2 nodes with different host",
		"{kind: DaemonSet, spec: {template: {spec: {" + spec + "}}}}":                "",
		"{kind: Job, spec: {completions: 2, template: {spec: {" + spec + "}}}}":      "",
		"{kind: Pod, metadata: {labels: {a: b}}, spec: {" + spec + "}}":              "",
	} {
		docs, problems := strict.Parse("x.yaml", []byte(manifest))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := unplaced(docs[0], []map[string]string{{"host": "1"}}); got != want {
			t.Errorf("%s: %q, want %q", manifest, got, want)
		}
	}
}
