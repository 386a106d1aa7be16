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

// answerLimit bounds Observe's wait for one cluster's API. It is local and answers within milliseconds, or seconds if the machine is overloaded, as after a reboot.
const answerLimit = 5 * time.Second

// nodeGroup is a cluster and its containers.
type nodeGroup struct {
	lab.ClusterState
	nodes []docker.Container
}

// Observe returns the state of the lab's clusters, or of the named ones. An unreachable API is part of the state, not an error.
func (k *Kind) Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error) {
	list, err := k.ownNodes(ctx, "")
	if err != nil {
		return nil, err
	}
	seen := group(k.lab, list)
	if len(names) > 0 {
		seen = slices.DeleteFunc(seen, func(s nodeGroup) bool { return !slices.Contains(names, s.Name) })
	}
	var asking errgroup.Group // one request chain per cluster, none of which fails the others
	for i := range seen {
		asking.Go(func() error { k.inspect(ctx, &seen[i]); return nil })
	}
	_ = asking.Wait()
	states := make([]lab.ClusterState, 0, len(seen))
	for _, s := range seen {
		now := time.Now()
		readCertificates(&s.ClusterState, k.Kubeconfig(s.Name), now)
		if s.Running && !s.Answers && !s.CertificatesEnd.IsZero() && s.CertificatesEnd.Before(now) {
			s.Fault = s.Ending(now)
		}
		states = append(states, s.ClusterState)
	}
	return states, ctx.Err()
}

// group groups node containers into clusters, ordered by name.
func group(labName string, list []docker.Container) []nodeGroup {
	sortNodes(list)
	at := map[string]int{}
	var seen []nodeGroup
	for _, c := range list {
		name, ours := strings.CutPrefix(c.Labels[kindClusterLabel], lab.KindName(labName, ""))
		if !ours {
			continue
		}
		i, ok := at[name]
		if !ok {
			i = len(seen)
			at[name] = i
			seen = append(seen, nodeGroup{ClusterState: lab.ClusterState{Name: name, Exists: true, Running: true}})
		}
		seen[i].Nodes = append(seen[i].Nodes, c.Name)
		seen[i].nodes = append(seen[i].nodes, c)
		if at := started(c); at.After(seen[i].Started) {
			seen[i].Started = at
		}
	}
	for i := range seen {
		seen[i].setFault()
	}
	slices.SortFunc(seen, func(a, b nodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return seen
}

// started returns the last start time of a node, or zero if it is in the future because the clock was set back.
func started(c docker.Container) time.Time {
	if c.Started.After(time.Now()) {
		return time.Time{}
	}
	return c.Started
}

// setFault determines whether every node runs, and otherwise the fault.
func (s *nodeGroup) setFault() {
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

// inspect queries a running cluster and judges how it was created.
func (k *Kind) inspect(ctx context.Context, s *nodeGroup) {
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

// ask fills in what a cluster's API reports, and returns its mark.
func (k *Kind) ask(ctx context.Context, s *lab.ClusterState, since map[string]time.Time) Evidence {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s.Fault = "its API does not answer"
	cfg, err := k.RESTConfig(s.Name)
	if err != nil {
		s.Fault = "its kubeconfig cannot be read"
		return Evidence{}
	}
	cfg.Timeout = answerLimit // the version request takes no context
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return Evidence{}
	}
	var version string
	var ready bool
	var mark Evidence
	var images, namespaces []string
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
	asking.Go(func() error {
		if list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
			namespaces = settled(list)
		}
		return nil
	})
	_ = asking.Wait() // anything that did not answer stays unknown
	s.Kubernetes, s.Ready, s.Marked, s.Images, s.Namespaces = version, ready, mark.Found, images, namespaces
	if version != "" && mark.Known {
		s.Answers, s.Fault = true, ""
	}
	return mark
}
