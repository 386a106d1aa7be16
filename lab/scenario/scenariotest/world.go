package scenariotest

import (
	"context"
	"io/fs"
	"testing"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/scenario"
)

// Lab is a lab in memory.
type Lab struct {
	scenario.World
	Forge    *Forge
	Clusters *Clusters
	Engine   *Engine
}

// New brings an estate up in memory and waits until it has converged. It ends with the test.
func New(t *testing.T, files fs.FS) *Lab {
	t.Helper()
	est, err := estate.Load(files, "", "homelab")
	if err != nil {
		t.Fatal(err)
	}
	forge, err := NewForge(files)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range est.Clusters {
		names = append(names, c.Name)
	}
	clusters := NewClusters(names...)
	engine := NewEngine(est, forge, clusters)
	ctx, stop := context.WithCancel(context.Background())
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
	return &Lab{
		World: scenario.World{
			Lab: est.Name, Estate: est, Engines: lab.EngineArgoCD, Forge: forge, Branches: forge, Clusters: clusters, Engine: engine,
		},
		Forge: forge, Clusters: clusters, Engine: engine,
	}
}
