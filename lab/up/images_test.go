package up

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
)

// slowSupply is a Supply that finishes building at ends.
type slowSupply struct {
	Supply
	ends time.Time
}

func (s slowSupply) Left() time.Duration { return max(0, time.Until(s.ends)) }

func TestRunSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := &run{Lab: &Lab{Supply: slowSupply{ends: began.Add(time.Hour)}}}
		reports := 0
		if err := r.waitForBuilds(t.Context(), func(string) { reports++ }); err != nil || reports != 1 {
			t.Errorf("%v, progress reported %d times", err, reports)
		}
		if waited := time.Since(began); waited < time.Hour-clusterBootTime || waited > time.Hour-clusterBootTime+2*time.Second {
			t.Errorf("waited %s", waited)
		}
		if err := r.waitForBuilds(t.Context(), func(string) { t.Error("waited for images that are almost built") }); err != nil {
			t.Error(err)
		}

		r.Supply = slowSupply{ends: time.Now().Add(time.Hour)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.waitForBuilds(ctx, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with timeout: %v", err)
		}
	})
}

// builds is a Supply that builds on request.
type builds struct {
	Supply
	expected []string
	broken   string
}

func (b *builds) Expect(names ...string) error { b.expected = names; return nil }

func (b *builds) Image(_ context.Context, name string, _ lab.Progress) (lab.Image, error) {
	if name == b.broken {
		return lab.Image{}, errors.New("it does not compile")
	}
	return lab.Image{Ref: name + ":1"}, nil
}

// loads records the images loaded into each cluster.
type loads struct {
	Clusters
	into map[string][]string
}

func (l loads) Load(_ context.Context, cluster string, images []lab.Image, _ lab.Progress) error {
	for _, i := range images {
		l.into[cluster] = append(l.into[cluster], i.Ref)
	}
	return nil
}

func TestLoadImages(t *testing.T) {
	supply, clusters := &builds{}, loads{into: map[string][]string{}}
	l := &Lab{Supply: supply, Clusters: clusters}
	if err := l.LoadImages(t.Context(), "dev", []string{"a", "b"}, silent); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(clusters.into["dev"], []string{"a:1", "b:1"}) || !slices.Equal(supply.expected, []string{"a", "b"}) {
		t.Errorf("loaded %v, expected %q", clusters.into, supply.expected)
	}
	supply.broken = "b"
	if err := l.LoadImages(t.Context(), "prod", []string{"a", "b"}, silent); err == nil || clusters.into["prod"] != nil {
		t.Errorf("%v, loaded %v", err, clusters.into)
	}
}
