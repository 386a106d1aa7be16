package scenariotest

import (
	"context"
	"io/fs"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/scenario"
)

// Lab is an in-memory lab.
type Lab struct {
	scenario.World
	Forge    *Forge
	Clusters *Clusters
	Engine   *Engine

	Repositories *Repositories     // beside the estate's
	Found        map[string]string // Objects after the first convergence
}

// New starts a lab with Argo CD and waits until it has converged. It stops at the end of the test.
func New(t *testing.T, files fs.FS) *Lab {
	t.Helper()
	return NewOn(t, files, lab.EngineArgoCD)
}

// NewOn is like New with another engine.
func NewOn(t *testing.T, files fs.FS, on lab.EngineType) *Lab {
	t.Helper()
	reused, ok := files.(*Estate)
	if !ok {
		reused = Reused(files)
	}
	forge, err := NewForge(files)
	if err != nil {
		t.Fatal(err)
	}
	read, err := reused.read(forge.Log(scenario.Branch)[0].Tree(), on, func() (*reading, error) { return readEstate(files, "homelab", on, nil) })
	if err != nil {
		t.Fatal(err)
	}
	est := read.est
	var names []string
	for _, c := range est.Clusters {
		names = append(names, c.Name)
	}
	clusters := NewClusters(names...)
	engine := NewEngine(est, reused, forge, clusters)
	engine.on = on
	ctx, stop := context.WithCancel(context.Background())
	if on == lab.EngineArgoCD {
		if err := engine.apply(ctx, engine.hub, engine.settings()); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := engine.Converged(ctx); err != nil {
		t.Fatal(err)
	}
	l := &Lab{
		World: scenario.World{
			Lab: est.Name, Estate: est, Engines: on, Forge: forge, Branches: forge, Requests: forge.Requests(), Clusters: clusters, Machines: clusters, Registry: &Registry{}, Others: engine.others, Engine: engine,
		},
		Forge: forge, Clusters: clusters, Engine: engine, Repositories: engine.others,
	}
	l.Switch, l.Renew = l.switched, l.renewed
	l.Found = l.Objects(t)
	return l
}

// Objects returns all objects of all clusters except events, without versions and uids.
func (l *Lab) Objects(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range l.Estate.Clusters {
		client, err := l.Clusters.Client(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range slices.Concat(kinds(), clusterKinds()) {
			if k.Kind == "Event" {
				continue
			}
			mapping, err := client.Mapper.RESTMapping(k.GroupKind(), k.Version)
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.Dynamic.Resource(mapping.Resource).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) { // no definition
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				o.SetResourceVersion("")
				o.SetUID("")
				o.SetGeneration(0)
				o.SetManagedFields(nil)
				text, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				out[c.Name+" "+k.Kind+" "+o.GetNamespace()+"/"+o.GetName()] = string(text)
			}
		}
	}
	return out
}
