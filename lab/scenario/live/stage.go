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

// hubTimeout is the timeout of requests to the hub.
const hubTimeout = 30 * time.Second

// Stage holds the parts of a running lab that stories need.
type Stage struct {
	Lab      string
	Estate   *lab.Estate
	Type     lab.EngineType // of Engine, from the lab's record
	Engine   engine.Engine
	Docker   *docker.Docker
	Reach    func(cluster string) (*rest.Config, error)
	ForgeURL string
	Requests scenario.Requests
	User     string // forge user
	Password string
}

// World returns the lab as scenarios see it. It has the clusters that are up, which may be fewer than the estate's.
func (s Stage) World(ctx context.Context) (scenario.World, error) {
	look, cancel := context.WithTimeout(ctx, hubTimeout)
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
	clusters := NewClusters(s.Lab, s.Docker, s.Reach)
	return scenario.World{
		Lab: s.Lab, Estate: &there, Engines: s.Type, Forge: git, Branches: git, Requests: s.Requests,
		Clusters: clusters, Machines: clusters, Inside: clusters.inside, Engine: Engine{Hub: s.Engine},
	}, nil
}
