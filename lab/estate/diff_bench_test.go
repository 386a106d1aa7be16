//go:build unix

package estate_test

import (
	"fmt"
	"maps"
	"runtime"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"homelab/lab/consequence"
	"homelab/lab/diff"
	"homelab/lab/estate"
)

// processor returns the seconds of the processor that the test has used, which do not depend on what else the machine does.
func processor(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// BenchmarkDiff loads two revisions of an estate, and compares them. One line of a layer of one addon is another, or of the chart of every addon.
func BenchmarkDiff(b *testing.B) {
	change := func(addons int, file, text string) func(fstest.MapFS) {
		return func(files fstest.MapFS) {
			for a := range addons {
				files[fmt.Sprintf(file, a)] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
			}
		}
	}
	for _, tc := range []struct {
		name             string
		addons, clusters int
		change           func(fstest.MapFS)
		differ           int
	}{
		{"layer-50x50", 50, 50, change(1, "environments/dev/addons/addon-%d/values.yaml", "replicas: 3\n"), 17},
		{"layer-100x25", 100, 25, change(1, "environments/dev/addons/addon-%d/values.yaml", "replicas: 3\n"), 9},
		{"layer-100x50", 100, 50, change(1, "environments/dev/addons/addon-%d/values.yaml", "replicas: 3\n"), 17},
		{"all-23x4", 23, 4, change(23, "addons/addon-%d/chart/values.yaml", "replicas: 1\nimage: {name: web, tag: 1.0.1}\ncluster: none\n"), 92},
	} {
		before := large(tc.addons, tc.clusters)
		after := maps.Clone(before)
		tc.change(after)
		b.Run(tc.name, func(b *testing.B) {
			start := processor(b)
			for range b.N {
				_, old, err := estate.Desired(before, "", "bench")
				if err != nil {
					b.Fatal(err)
				}
				_, apps, err := estate.Desired(after, "", "bench")
				if err != nil {
					b.Fatal(err)
				}
				if res := diff.Compare(old, apps, nil); res.Apps != tc.addons*tc.clusters || res.Differ != tc.differ || len(res.Unknown) > 0 {
					b.Fatalf("%d applications, %d differ, %d unknown", res.Apps, res.Differ, len(res.Unknown))
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
			}
			b.ReportMetric((processor(b)-start)/float64(b.N), "cpu-s/op")
		})
	}
}

// BenchmarkPlan is BenchmarkDiff with what the engine does.
func BenchmarkPlan(b *testing.B) {
	for _, clusters := range []int{25, 50} {
		before := large(100, clusters)
		after := maps.Clone(before)
		after["environments/dev/addons/addon-0/values.yaml"] = &fstest.MapFile{Data: []byte("replicas: 3\n"), Mode: 0o644}
		b.Run(fmt.Sprintf("100x%d", clusters), func(b *testing.B) {
			start := processor(b)
			for range b.N {
				var states [2]consequence.State
				for i, files := range []fstest.MapFS{before, after} {
					e, apps, err := estate.Desired(files, "", "bench")
					if err != nil {
						b.Fatal(err)
					}
					states[i] = consequence.State{Engine: e.Hub().Engine.Type, Apps: apps}
				}
				if effects, problems := consequence.Of(states[0], states[1]); len(effects) == 0 || len(problems) > 0 {
					b.Fatalf("%d effects, %v", len(effects), problems)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
			}
			b.ReportMetric((processor(b)-start)/float64(b.N), "cpu-s/op")
		})
	}
}
