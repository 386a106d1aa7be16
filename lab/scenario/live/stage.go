package live

import (
	"context"
	"time"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/scenario"
)

// hubWithin is how long the hub may take to say what it knows.
const hubWithin = 30 * time.Second

// Stage is a lab that is up, as much of it as stories are played on.
type Stage struct {
	Lab      string
	Estate   *lab.Estate
	Type     lab.EngineType // of Engine, as the lab's record has it
	Engine   engine.Engine
	Docker   *docker.Docker
	Reach    func(cluster string) (*rest.Config, error)
	ForgeURL string
	User     string // of the forge
	Password string
}

// World is the lab as scenarios see it, with the clusters that it has: it may have been brought up with some of the estate's alone.
func (s Stage) World(ctx context.Context) (scenario.World, error) {
	look, cancel := context.WithTimeout(ctx, hubWithin)
	defer cancel()
	seen, err := s.Engine.Observe(look)
	if ctx.Err() != nil {
		return scenario.World{}, ctx.Err()
	}
	if err != nil {
		return scenario.World{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_engine", Message: "the lab's hub does not answer", Cure: "lab up", Err: err}
	}
	there := *s.Estate
	there.Clusters = engine.Known(s.Estate, seen.Registrations)
	git := NewGit(s.ForgeURL+"/"+s.User+"/"+forge.Repository+".git", &githttp.BasicAuth{Username: s.User, Password: s.Password})
	return scenario.World{
		Lab: s.Lab, Estate: &there, Engines: s.Type, Forge: git, Branches: git,
		Clusters: NewClusters(s.Lab, s.Docker, s.Reach), Engine: Engine{Hub: s.Engine},
	}, nil
}
