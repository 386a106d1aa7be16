package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// answerLimit is how long Observe waits for one cluster's API: it is on this machine, so it answers in milliseconds or is not well.
const answerLimit = 2 * time.Second

// sighting is one cluster and the containers that it consists of.
type sighting struct {
	lab.ClusterState
	nodes []docker.Container
}

// Observe returns what there is of the lab's clusters, or of the named ones alone. An API that does not answer is a finding, not an error.
func (k *Kind) Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error) {
	list, err := k.ownNodes(ctx, "")
	if err != nil {
		return nil, err
	}
	seen := group(k.lab, list)
	if len(names) > 0 {
		seen = slices.DeleteFunc(seen, func(s sighting) bool { return !slices.Contains(names, s.Name) })
	}
	var asking errgroup.Group // one request chain for each cluster; none of them fails the others
	for i := range seen {
		asking.Go(func() error { k.look(ctx, &seen[i]); return nil })
	}
	_ = asking.Wait()
	states := make([]lab.ClusterState, 0, len(seen))
	for _, s := range seen {
		states = append(states, s.ClusterState)
	}
	return states, ctx.Err()
}

// group sorts node containers into clusters, by name.
func group(labName string, list []docker.Container) []sighting {
	sortNodes(list)
	at := map[string]int{}
	var seen []sighting
	for _, c := range list {
		name, ours := strings.CutPrefix(c.Labels[kindClusterLabel], lab.KindName(labName, ""))
		if !ours {
			continue
		}
		i, ok := at[name]
		if !ok {
			i = len(seen)
			at[name] = i
			seen = append(seen, sighting{ClusterState: lab.ClusterState{Name: name, Exists: true, Running: true}})
		}
		seen[i].Nodes = append(seen[i].Nodes, c.Name)
		seen[i].nodes = append(seen[i].nodes, c)
		if at := started(c); at.After(seen[i].Started) {
			seen[i].Started = at
		}
	}
	for i := range seen {
		seen[i].halt()
	}
	slices.SortFunc(seen, func(a, b sighting) int { return strings.Compare(a.Name, b.Name) })
	return seen
}

// started is when a node was started last; zero where its clock was put back since, as nothing can be later than that.
func started(c docker.Container) time.Time {
	if c.Started.After(time.Now()) {
		return time.Time{}
	}
	return c.Started
}

// halt finds out whether every node runs, and if not, how it stands with them.
func (s *sighting) halt() {
	stopped, paused := 0, 0
	for _, n := range s.nodes {
		switch {
		case n.Paused():
			paused++
		case !n.Running:
			stopped++
		}
	}
	s.Running = stopped+paused == 0
	n, state := stopped, "stopped"
	if stopped == 0 {
		n, state = paused, "paused"
	}
	switch {
	case s.Running:
	case n == len(s.nodes):
		s.Fault = state
	default:
		s.Fault = fmt.Sprintf("%d of %d nodes %s", n, len(s.nodes), state)
	}
}

// look asks a cluster that runs, and finds out how it came to be.
func (k *Kind) look(ctx context.Context, s *sighting) {
	var mark Evidence
	if s.Running {
		mark = k.ask(ctx, &s.ClusterState, starts(s.nodes))
	}
	record := k.state.Cluster(s.Name)
	s.Made, s.Inputs = Judge(record, ids(s.nodes), mark, func() Evidence { return k.nodeMark(ctx, s.nodes) })
	s.Recorded = s.Made == lab.MadeWhole && record.Whole && !record.Removing && record.Inputs == s.Inputs && slices.Equal(record.Nodes, ids(s.nodes))
	if s.Made == lab.MadeWhole && !s.Recorded {
		for _, id := range record.Nodes {
			if len(record.Nodes) > len(s.nodes) && !slices.Contains(ids(s.nodes), id) {
				s.Gone++
			}
		}
	}
}

// ask fills in what a cluster's API says about it, and returns its mark.
func (k *Kind) ask(ctx context.Context, s *lab.ClusterState, since map[string]time.Time) Evidence {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s.Fault = "its API does not answer"
	cfg, err := k.RESTConfig(s.Name)
	if err != nil {
		s.Fault = "its kubeconfig cannot be read"
		return Evidence{}
	}
	cfg.Timeout = answerLimit // the request for the version takes no context
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return Evidence{}
	}
	var version string
	var ready bool
	var mark Evidence
	var images []string
	var asking errgroup.Group
	asking.Go(func() error {
		v, err := client.Discovery().ServerVersion()
		if err == nil {
			version = v.GitVersion
		}
		return nil
	})
	asking.Go(func() error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil
		}
		ready = len(nodes.Items) > 0
		for _, n := range nodes.Items {
			ok, _ := nodeReady(&n, since[n.Name])
			ready = ready && ok
		}
		return nil
	})
	asking.Go(func() error {
		mark, images = apiMark(ctx, client)
		return nil
	})
	_ = asking.Wait() // what did not answer stays unknown
	s.Kubernetes, s.Ready, s.Marked, s.Images = version, ready, mark.Found, images
	if version != "" && mark.Known {
		s.Answers, s.Fault = true, ""
	}
	return mark
}
